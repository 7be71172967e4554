"""The learning value of a run: rubric, scorers, and the queue of those that are not scored yet."""
