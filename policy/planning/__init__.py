"""The next searches: strategies, query forms, bridges, feedback, refinement."""
