"""Settings: every knob, its range, its default, read from the environment once."""
