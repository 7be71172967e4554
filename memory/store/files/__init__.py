"""The files of a store: their names, the writer's lock, integrity, writing one atomically; what its threads share."""
