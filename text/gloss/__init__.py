"""Texts of other languages, word by word in English."""
