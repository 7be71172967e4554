"""The retrieval engine: legs, fusion, similarity and priors over a store's views."""
