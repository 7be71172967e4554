"""The embedded home of a store's tables: a SQLite file, or memory."""
