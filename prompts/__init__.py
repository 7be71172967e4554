"""Prompts and text templates, one Markdown file each, and the schemas of replies."""
