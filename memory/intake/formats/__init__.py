"""Formats of files: tables, notes, message lists and what all readers share, as fields of records."""
