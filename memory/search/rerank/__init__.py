"""Reranking of the best candidates: late interaction, the learned order, a custom reranker."""
