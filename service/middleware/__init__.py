"""Middleware of every request: limits, callers; and the dependencies of routes."""
