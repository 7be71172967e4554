"""A run in progress: the events that it reports, and its cancellation."""
