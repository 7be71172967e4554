"""What was found: coverage, merging, ranking, novelty."""
