"""`recall-loop eval`, `replay`, `ablate` and `calibrate`."""
