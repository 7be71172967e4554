"""Search results as text and JSON, shortened for display."""
