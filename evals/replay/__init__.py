"""Policies compared on the same requests, with plots."""
