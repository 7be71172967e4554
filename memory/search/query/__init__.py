"""From a query as it was given to one that is ready to be searched."""
