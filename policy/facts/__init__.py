"""How a new fact relates to stored ones."""
