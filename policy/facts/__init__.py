"""Facts: whether messages support a new one, and which stored ones it supersedes."""
