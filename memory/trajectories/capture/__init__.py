"""From the messages of a run to a trajectory record."""
