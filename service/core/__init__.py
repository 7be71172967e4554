"""Foundations of the service: configuration, problem documents, deadlines, metrics."""
