"""What several nodes do: plan queries, call the search tool, consult past runs."""
