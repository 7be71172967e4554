"""`recall-loop search`."""
