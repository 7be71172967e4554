"""The state machine, and the ways of running it."""
