"""Embedders: texts to vectors. The embedded default, an OpenAI-compatible API, token vectors."""
