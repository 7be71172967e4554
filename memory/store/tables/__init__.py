"""The tables of records: statements that both backends of a store understand, SQLite and PostgreSQL (HOST-1)."""
