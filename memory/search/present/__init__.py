"""Search results as text and JSON: truncation and serialization."""
