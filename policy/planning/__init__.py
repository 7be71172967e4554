"""What to search next: strategies, query forms, bridges, feedback, refinement."""
