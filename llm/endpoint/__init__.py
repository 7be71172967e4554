"""How an endpoint behaves: failures, limits, and when it is left alone for a while."""
