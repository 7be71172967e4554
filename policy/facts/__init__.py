"""Relations between a new fact and stored ones."""
