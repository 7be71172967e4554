"""A store whose writes go through the socket of a writer process, to another store of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from recall_loop import MemoryStore
from recall_loop.service.workers.remote_writer import RemoteWriterStore
from recall_loop.service.workers.writer_process import WriterProcess
from tests.embedders import WordHashEmbedder


@contextmanager
def writing_through(owner: MemoryStore) -> Iterator[RemoteWriterStore]:
    with (
        TemporaryDirectory(prefix="rl-") as folder,  # the path of a socket must be short
        RemoteWriterStore.in_memory(embedder=WordHashEmbedder()) as remote,
    ):
        remote.writer_socket = Path(folder) / "owner"
        process = WriterProcess(owner, remote.writer_socket)
        try:
            yield remote
        finally:
            process.close()
