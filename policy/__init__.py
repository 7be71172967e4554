"""Decisions as pure functions: no I/O, no graph, no state."""
