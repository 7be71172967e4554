"""Tenants' data in memory for fast searches, and the view that reads through it."""
