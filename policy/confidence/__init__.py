"""How sure a result is: raw score, signals, and the fitted mapping."""
