"""JSON schemas of what a user gives, in words."""
