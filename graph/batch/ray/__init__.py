"""The Ray engine of batches and its actor."""
