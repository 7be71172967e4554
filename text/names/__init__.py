"""Proper names and phrases in a text."""
