"""What the whole service stands on: configuration, problem documents, deadlines, metrics."""
