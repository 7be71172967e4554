"""Tokens, stems, stop words, snippets, token budgets."""
