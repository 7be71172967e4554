"""Moving a store from one backend to another: a folder, or a schema of PostgreSQL (HOST-4)."""
