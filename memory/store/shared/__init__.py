"""A store that any number of processes write: its schema, and the way of its records to a Chroma server (HOST-2)."""
