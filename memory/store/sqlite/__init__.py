"""The SQLite side of the store: schema, predicates, rows, changes. All SQL of records stands here or above."""
