"""The second look at the best candidates: late interaction, the learned order, a custom reranker."""
