"""Scripted batches: requests in, results out, resumable, on threads, processes or Ray."""
