"""The same memory for clients that speak the Model Context Protocol."""
