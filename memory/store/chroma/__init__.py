"""The Chroma side of the store: client, files, server, collection."""
