"""The files of a store: their names, the writer's lock, integrity, and writing one atomically."""
