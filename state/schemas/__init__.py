"""Descriptions in words of the JSON schemas of user input."""
