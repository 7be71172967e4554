"""Foreign input as plain values: chat messages of any framework, JSON values, and JSON Lines."""
