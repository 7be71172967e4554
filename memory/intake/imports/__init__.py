"""Importing from other memories: mem0, LangGraph stores, Letta."""
