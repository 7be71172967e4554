"""One worker process from start to end."""
