"""The tables of records: statements that both homes of a store understand, SQLite and PostgreSQL (HOST-1)."""
