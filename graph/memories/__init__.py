"""A memory in five lines: the whole life cycle behind one object."""
