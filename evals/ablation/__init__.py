"""The worth of each ingredient of retrieval."""
