"""What a language model is shown, and what is kept of its answer."""
