"""What is kept in memory of a tenant for fast searches, and the view that reads through it."""
