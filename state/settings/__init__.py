"""Settings: names, ranges and defaults, read from the environment once."""
