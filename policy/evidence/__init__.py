"""The evidence pool: merging, coverage, ranking, novelty."""
