"""`recall-loop trajectories`."""
