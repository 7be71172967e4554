"""Prompts and text templates: one Markdown file each, and the functions that read and fill them."""
