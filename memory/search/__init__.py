"""The retrieval engine: retrievers, fusion, similarity and priors over a store's views."""
