"""Candidates of each retriever, their features, and how scores are fused."""
