"""Shared by all verbs: options, settings, rendering, progress bars."""
