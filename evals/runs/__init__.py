"""Filling stores from data sets and asking their questions."""
