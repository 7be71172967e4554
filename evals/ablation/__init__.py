"""What each ingredient of retrieval is worth."""
