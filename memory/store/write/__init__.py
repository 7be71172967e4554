"""How records are committed, their neighbours re-indexed, and their vectors delivered to Chroma."""
