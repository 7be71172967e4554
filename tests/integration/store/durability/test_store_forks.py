"""A store that is open while its process forks (GUARD-7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes.forked_process import run_forked

FORK = """
import os, sys, threading, time
sys.path.insert(0, {root!r})
from tests.embedders import WordHashEmbedder
from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import StoreUnavailableError
from recall_loop.state.scope import Scope

def turn(number):
    return {{"id": f"m{{number}}", "kind": "message", "text": f"text {{number}}", "session": "s", "position": number}}

def refused(call):
    try:
        call()
    except StoreUnavailableError as error:
        assert "is a fork: open it here again" in str(error), error
        return True
    return False

store = MemoryStore.open({path!r}, embedder=WordHashEmbedder())
store.upsert(turn(n) for n in range(20))
view = store.view(Scope())
search(store, "text 3")
held = threading.Event()
def hold():
    with store._session.lock, store._session.database._lock, store.exclusive():
        held.set()
        time.sleep(1)
threading.Thread(target=hold).start()
held.wait()
child = os.fork()
if child == 0:
    calls = [
        store.count, lambda: list(store.scan()), lambda: search(store, "text 3"), lambda: view.rowids(),
        lambda: store.upsert([turn(30)]), lambda: store.upsert([turn(n) for n in range(1200)]),
        lambda: store.delete(["m1"]), lambda: store.get(["m1"], scope=Scope()), store.maintenance.verify,
        store.maintenance.compact, lambda: store.update("m1", {{"text": "x"}}),
    ]
    ok = [refused(call) for call in calls]
    store.close()
    with MemoryStore.open({path!r}, embedder=WordHashEmbedder(), read_only=True) as reader:
        ok.append(reader.count() == 20)
    with MemoryStore.open({path!r} + "-of-child", embedder=WordHashEmbedder()) as other:
        other.upsert([turn(1)])
        ok.append(other.count() == 1)
    print(ok, flush=True)
    os._exit(0 if all(ok) else 1)
assert os.waitpid(child, 0)[1] == 0
store.upsert([turn(40)])
assert store.count() == 21 and store.maintenance.verify().sound
sleeper = os.fork()
if sleeper == 0:
    time.sleep(60)
    os._exit(0)
store.close()
with MemoryStore.open({path!r}, embedder=WordHashEmbedder()) as again:  # no child keeps the lock
    assert again.count() == 21
os.kill(sleeper, 9)
print("done")
"""


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="no forks here")
def test_a_forked_child_gets_an_error_at_once_and_may_open_the_store_itself(tmp_path: Path, root: Path) -> None:
    """Proves: GUARD-7."""
    code = FORK.format(root=str(root), path=str(tmp_path / "s"))
    done = run_forked(code)
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout[-2000:] + done.stderr[-3000:]
