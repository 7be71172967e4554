"""The one client of a chat model: structured output, bounded in time and tokens, that fails with a reason (LOOP-8)."""
