"""What sentences do: tell, ask, request, acknowledge, or decline to answer."""
