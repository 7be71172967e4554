"""Remembering conversations and finished runs: messages, extracted facts, trajectories."""
