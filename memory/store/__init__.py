"""The memory store: a SQLite sidecar and Chroma behind one interface, `store.MemoryStore`."""
