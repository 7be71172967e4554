"""`recall-loop retrieve`."""
