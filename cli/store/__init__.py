"""`recall-loop store`."""
