"""Files of records, documents and conversations: formats, ingest, checkpoints, export."""
