"""Steps of several nodes: planning queries, calling the search tool, consulting past runs."""
