"""In-memory data of each tenant, and how it follows writes."""
