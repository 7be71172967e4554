"""Structured output from any chat model: methods, fallbacks, parsing of replies."""
