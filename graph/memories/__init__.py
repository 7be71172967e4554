"""A memory in five lines: everything one does with it, behind one object."""
