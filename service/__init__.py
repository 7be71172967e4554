"""The HTTP service over the one graph and the one store (OPS-1)."""
