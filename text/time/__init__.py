"""Dates and time expressions."""
