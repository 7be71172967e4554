"""The shared backend of a store's tables: a schema of a PostgreSQL database, for any number of processes (HOST-1)."""
