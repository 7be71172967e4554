"""Text for a language model, and answers composed from its replies."""
