"""Writes of many threads share transactions and deliveries, and each call still has its own answer."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import EmbedderError, InvalidInputError, StoreUnavailableError
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder
from tests.integration.store.writes.test_store_delivery import assert_equal_sides
from tests.processes.forked_process import run_forked


class Watched(WordHashEmbedder):
    """Notes the texts of each run, and fails as it is told to: `fail` is an exception for a word."""

    def __init__(self):
        self.runs, self.fail = [], {}

    def embed_documents(self, texts):
        self.runs.append(list(texts))
        for word, error in self.fail.items():
            if any(word in text for text in texts):
                raise error
        return super().embed_documents(texts)


@pytest.fixture
def store(tmp_path):
    with MemoryStore.open(tmp_path / "store", embedder=Watched()) as opened:
        yield opened


def fact(name, text="word"):
    return {"id": name, "kind": "fact", "text": f"{text} {name}"}


@contextmanager
def together(store, calls):
    """Give futures of calls that have come to wait, in their order, for one another's turn."""
    with ThreadPoolExecutor(len(calls)) as pool:
        with store.exclusive():
            futures = []
            for at, (records, tenant) in enumerate(calls, start=1):
                futures.append(pool.submit(store.upsert, records, tenant=tenant, on_reject="report"))
                end = time.monotonic() + 60
                while len(store.writer.group_commit._queue) < at:
                    assert time.monotonic() < end, "a write doesn't wait"
                    time.sleep(0.001)
        yield futures


def statuses(future: Future) -> list[str]:
    return [outcome.status for outcome in future.result()]


def test_waiting_writes_share_a_run_and_keep_their_own_answers(store):
    """Proves: STORE-2 (a bad record rejects itself only), SEARCH-4 (tenants stay apart), STORE-4."""
    calls = [
        ([fact("a"), {"id": "bad", "kind": "fact", "text": ""}, fact("b")], "t1"),
        ([fact("a", "other")], "t2"),
        ([], "t1"),
        ([fact("a", "newer"), fact("c")], "t1"),
        ([fact("a", "newer")], "t1"),
        ([{"id": "worse"}], "t2"),
    ]
    before = store.maintenance.info()["records"]
    with together(store, calls) as futures:
        given = [statuses(future) for future in futures]
    assert given == [
        ["created", "rejected", "created"],
        ["created"],
        [],
        ["replaced", "created"],
        ["unchanged"],
        ["rejected"],
    ]
    assert [outcome.index for outcome in futures[0].result()] == [0, 1, 2]
    assert "records.1" in futures[0].result()[1].error and "records.0" in futures[5].result()[0].error
    assert before == 0 and [len(run) for run in store.embedder.runs] == [4]  # of the two "a" of t1 the last
    texts = {tenant: {record.text for record in store.scan(Scope(tenant=tenant))} for tenant in ("t1", "t2")}
    assert texts == {"t1": {"newer a", "word b", "word c"}, "t2": {"other a"}}
    assert_equal_sides(store, 4)


def test_neighbours_of_waiting_writes_share_windows(store):
    """Proves: STORE-7."""
    turns = [{"id": f"m{n}", "kind": "message", "text": f"turn {n}", "session": "s", "position": n} for n in range(6)]
    with together(store, [([turn], tenant) for turn in turns for tenant in ("t1", "t2")]) as futures:
        assert {status for future in futures for status in statuses(future)} == {"created"}
    for tenant in ("t1", "t2"):
        view = store.view(Scope(tenant=tenant))
        windows = {row.record.id: row.window for row in view.rows(view.rowids()).values()}
        assert windows["m3"] == "turn 2\nturn 3\nturn 4" and windows["m0"] == "turn 0\nturn 1"
    assert_equal_sides(store, 12)
    assert store.maintenance.verify().sound


@pytest.mark.parametrize("error", [EmbedderError("no vectors"), ZeroDivisionError("a bug")])
def test_the_failure_of_one_call_does_not_affect_others(store, error):
    """Proves: STORE-2, STORE-4."""
    store.embedder.fail = {"poison": error}
    with together(store, [([fact("a")], "t"), ([fact("b", "poison"), fact("c")], "t"), ([fact("d")], "u")]) as futures:
        assert statuses(futures[0]) == statuses(futures[2]) == ["created"]
        with pytest.raises(EmbedderError, match=str(error)) as caught:
            futures[1].result()
        assert error in (caught.value, caught.value.__cause__)
    assert {record.id for record in store.scan(Scope(tenant="t"))} == {"a"}
    with pytest.raises(InvalidInputError, match="tenant"):
        store.upsert([fact("e")], tenant="")
    assert_equal_sides(store, 2)


@pytest.mark.folder
def test_a_failure_of_chroma_reaches_every_call(store):
    """Proves: STORE-4, SEARCH-9 (not one of them is acknowledged, and repeating them is)."""
    store.upsert([fact("first")])
    store._session.connection.chroma._client.close()  # a real failure: its client is gone
    with together(store, [([fact(f"f{n}")], "default") for n in range(5)]) as futures:
        errors = [future.exception() for future in futures]
    assert all(isinstance(error, StoreUnavailableError) for error in errors)
    assert len({id(error) for error in errors}) == 5 and "not acknowledged" in str(errors[0])
    assert [len(run) for run in store.embedder.runs] == [1, 5]
    assert store.degraded_reason is not None
    assert [o.status for o in store.upsert([fact(f"f{n}") for n in range(5)])] == ["unchanged"] * 5
    assert_equal_sides(store, 6)


def test_nobody_elses_write_comes_between_what_is_exclusive(store):
    """Proves: STORE-4."""
    with ThreadPoolExecutor(1) as pool:
        with store.exclusive():
            other = pool.submit(store.upsert, [fact("other")])
            while not store.writer.group_commit._queue:
                time.sleep(0.001)
            for name in ("mine", "mine too"):
                with store.exclusive():
                    store.upsert([fact(name)])
            assert {record.id for record in store.scan()} == {"mine", "mine too"} and not other.done()
        assert statuses(other) == ["created"]


def test_an_interrupted_call_leaves_the_others_their_turn(store):
    """Proves: STORE-4."""
    interrupted = threading.Event()

    class Once(BaseException):
        pass

    class Slow(list):
        def remove(self, item):
            time.sleep(0.05)
            super().remove(item)

    store.writer.group_commit._queue = Slow()  # the next takes over while the interrupted one is still in the queue
    run = store.embedder.embed_documents

    def once(texts):
        if not interrupted.is_set():
            interrupted.set()
            raise Once
        return run(texts)

    store.embedder.embed_documents = once
    with together(store, [([fact(f"f{n}")], "default") for n in range(6)]) as futures:
        errors = [future.exception() for future in futures]
    assert sorted(type(error).__name__ for error in errors) == ["NoneType"] * 5 + ["Once"]
    assert not store.writer.group_commit._queue
    assert_equal_sides(store, 5)


def test_more_than_a_transaction_takes_goes_in_several(store):
    """Proves: STORE-2."""
    with together(store, [([fact(f"{n}-{m}") for m in range(400)], "default") for n in range(4)]) as futures:
        assert all(statuses(future) == ["created"] * 400 for future in futures)
    assert [len(run) for run in store.embedder.runs] == [800, 800]
    assert_equal_sides(store, 1600)


CHILD = """
import os, signal, threading
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.chroma.chroma_index import ChromaIndex
from tests.embedders import WordHashEmbedder
calls, upsert, most = [], ChromaIndex.upsert, []
def dying(side, rows):
    calls.append(rows)
    most.append(len(rows))
    if len(calls) == 8 and not {after}: os.kill(os.getpid(), signal.SIGKILL)
    upsert(side, rows)
    if len(calls) == 8:
        os.write(2, str(max(most)).encode())
        os.kill(os.getpid(), signal.SIGKILL)
ChromaIndex.upsert = dying
store = MemoryStore.open({path!r}, embedder=WordHashEmbedder())
def write(name):
    for number in range(1000):
        mark = f"{{name}}-{{number}}"
        store.upsert([{{"id": f"m-{{name}}-{{number % 3}}", "kind": "message", "text": mark, "session": "s"}}])
        os.write(1, f"{{mark}}\\n".encode())
threads = [threading.Thread(target=write, args=[name]) for name in "abcdefgh"]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.folder
@pytest.mark.parametrize("after", [False, True])
def test_a_kill_under_many_writers_loses_nothing_acknowledged(tmp_path, after):
    """Proves: STORE-4 (each acknowledged write is there, or a later one of the same writer)."""
    code = CHILD.format(path=str(tmp_path), after=after)
    child = run_forked(code)
    assert child.returncode == -signal.SIGKILL, child.stderr
    last: dict[str, int] = {}
    for line in child.stdout.split():
        name, number = line.split("-")
        last[f"{name}-{int(number) % 3}"] = int(number)
    assert last
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as store:
        kept = {record.id.removeprefix("m-"): int(record.text.split("-")[1]) for record in store.scan()}
        assert all(kept[key] >= number for key, number in last.items())
        assert_equal_sides(store, len(kept))
        assert store.maintenance.verify().sound
