"""Opening, repairing, verifying, rebuilding and compacting a store."""
