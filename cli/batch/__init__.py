"""`recall-loop batch`."""
