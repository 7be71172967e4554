"""The lock of a folder's writer: who waits for it, and who has it when something fails (STORE-4)."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from recall_loop.memory.store.files.store_files import WriterLock
from recall_loop.memory.store.files.store_place import make_folder
from recall_loop.memory.store.open_writers import OPEN_WRITERS
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, StoreLockedError, StoreUnusableError
from tests.embedders import WordHashEmbedder
from tests.processes.forked_process import ForkedProcess, run_forked


def opened(folder: Path, **options: Any) -> MemoryStore:
    return MemoryStore.open(folder, embedder=WordHashEmbedder(), **options)


def test_who_waits_keeps_nobody_from_closing_and_waits_at_most_as_long_as_it_says(tmp_path: Path) -> None:
    """Proves: STORE-4. Neither an old store whose sidecar was taken away, nor others who wait."""
    old = opened(tmp_path)
    (tmp_path / "sidecar.sqlite3").rename(tmp_path / "taken")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(opened, tmp_path, wait_seconds=60)
        while not waiting.running():
            pass
        with pytest.raises(StoreLockedError, match="to write, wait until it closes"):
            opened(tmp_path)
        assert not waiting.done()
        old.close()
        waiting.result(30).close()


def test_who_waits_for_a_folder_that_is_replaced_takes_the_lock_of_the_one_in_its_place(tmp_path: Path) -> None:
    """Proves: STORE-4. A lock on a file that was removed would let two writers in."""
    folder = tmp_path / "memory"
    folder.mkdir()
    removed = WriterLock(folder)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(opened, folder, wait_seconds=0.4)
        while not waiting.running():
            pass
        with OPEN_WRITERS.turn(folder):  # or the one who waits might take the lock of the new folder first
            shutil.rmtree(folder)
            folder.mkdir()
            present = WriterLock(folder)
            removed.release()
        with pytest.raises(StoreLockedError, match=r"still after 0\.4 s"):
            waiting.result(30)
    present.release()
    opened(folder).close()


def test_a_folder_that_comes_and_goes_counts_as_locked_and_a_file_does_not(tmp_path: Path) -> None:
    """Proves: STORE-4. As while it is restored: who waits tries again."""
    folder, met, end = tmp_path / "memory", 0, time.monotonic() + 60
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            with suppress(OSError):
                folder.mkdir()
            with suppress(OSError):
                folder.rmdir()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(come_and_go)
        while met < 3 and time.monotonic() < end:
            try:
                make_folder(folder)
            except StoreLockedError:
                met += 1
        stop.set()
    assert met == 3
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")


@pytest.mark.parametrize("wait", ["5", None, float("nan"), float("inf"), -1, True])
def test_a_wait_that_is_none_is_refused(tmp_path: Path, wait: Any) -> None:
    """Proves: API-2, STORE-4."""
    with pytest.raises(InvalidInputError, match=r"wait_seconds: got .*; allowed: a number from 0 to 86,400"):
        opened(tmp_path, wait_seconds=wait)


ORPHAN = """
import os, signal, sys
from pathlib import Path
from recall_loop.memory.store.files.store_files import WriterLock

lock = WriterLock(Path({path!r}))
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.read()
    os._exit(0)
signal.pause()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_that_outlives_a_killed_writer_keeps_nobody_out(tmp_path: Path) -> None:
    """Proves: STORE-4."""
    with ForkedProcess(ORPHAN.format(path=str(tmp_path))) as parent:
        assert parent.stdout.readline() == "forked\n"
        parent.kill()
        parent.wait(60)
        WriterLock(tmp_path).release()


FULL = """
import resource, signal
from pathlib import Path
from recall_loop.memory.store.files.store_files import WriterLock

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
try:
    WriterLock(Path({path!r}))
except OSError as error:
    kept = error
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    WriterLock(Path({path!r})).release()
    print("done")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no such limits here")
def test_who_fails_on_a_full_disk_keeps_no_lock(tmp_path: Path) -> None:
    """Proves: STORE-4. Not even for those who keep the error."""
    done = run_forked(FULL.format(path=str(tmp_path)))
    assert done.stdout == "done\n" and not done.stderr, done.stderr[-2000:]


@pytest.mark.skipif(sys.platform == "win32", reason="an open file can't be removed here")
def test_who_lost_the_lock_writes_no_more_beside_another(tmp_path: Path) -> None:
    """Proves: STORE-4. As where somebody removes the file of a lock that seems to be a dead one's."""
    store = opened(tmp_path)
    store.upsert([{"id": "a", "text": "one"}])
    (tmp_path / "writer.lock").unlink()
    other = WriterLock(tmp_path)
    with pytest.raises(StoreUnusableError, match=r"the folder or its lock was removed or replaced .* open it again"):
        store.upsert([{"id": "b", "text": "two"}])
    other.release()
    with opened(tmp_path) as again:
        again.upsert([{"id": "c", "text": "three"}])
        store.close()
        assert {record.id for record in again.scan()} == {"a", "c"}
