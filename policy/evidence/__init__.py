"""Evidence: the pool, its merging and ranking, coverage, novelty."""
