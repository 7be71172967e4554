"""What is kept in memory of each tenant, and how it follows the writes."""
