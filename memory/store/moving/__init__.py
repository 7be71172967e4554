"""Moving a store from one home to another: a folder, or a schema of PostgreSQL (HOST-4)."""
