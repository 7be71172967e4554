"""The embedded backend of a store's tables: a SQLite file, or memory."""
