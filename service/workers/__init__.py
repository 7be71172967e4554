"""Several workers on one store: the writer process, the remote writer, their supervisor."""
