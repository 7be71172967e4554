"""Steps that several nodes take: planning queries, consulting past runs."""
