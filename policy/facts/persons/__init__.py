"""Of whom a question asks, and of whom a text tells."""
