"""Formats of other programs: what a file is taken for, and its items as fields of records."""
