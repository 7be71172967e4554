"""Fitting and reporting the confidence mapping."""
