"""Contrast search over runs: successes, failures and moderate ones side by side."""
