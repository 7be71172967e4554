"""API keys: who may read or write which tenant."""
