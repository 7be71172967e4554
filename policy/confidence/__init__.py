"""Confidence of a result: components, signals, and the fitted mapping."""
