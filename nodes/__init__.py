"""The five nodes: each reads the state, calls policy, memory or llm, and returns a partial update."""
