"""Items of LangGraph's store that have a time to live."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from langgraph.store.base import PutOp

from recall_loop import InvalidInputError, MemoryStore, RecallLoopStore, UnsupportedOptionError, retrieve
from tests.embedders import WordHashEmbedder
from tests.waiting import wait_until

NAMESPACE = ("t",)


@pytest.fixture
def memory():
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as opened:
        yield opened


def keys(found):
    return [item.key for item in found]


def expire(memory, key):
    """Let an item expire now, as time would."""
    now = datetime.now(UTC)
    of_item = [
        one
        for one in memory.scan()
        if (one.attributes.get("langgraph_store") or one.attributes["langgraph_store_part"])["key"] == key
    ]
    assert of_item
    memory.upsert([one.model_copy(update={"expires_at": now - timedelta(seconds=1)}) for one in of_item])


def expiry(memory, key):
    (found,) = [one for one in memory.scan() if one.attributes["langgraph_store"]["key"] == key]
    return found.expires_at


def test_an_expired_item_is_left_out_at_once_and_erased_by_a_sweep(memory):
    """Proves: API-5, LIVE-7."""
    items = RecallLoopStore(memory, fields=["text", "more"])
    assert items.supports_ttl
    items.put(NAMESPACE, "stays", {"text": "red boat"})
    items.put(("u",), "goes", {"text": "red boat", "more": "blue lamp"}, ttl=10)
    items.put(NAMESPACE, "later", {"text": "red boat"}, ttl=10)
    created = items.get(("u",), "goes").created_at
    expire(memory, "goes")
    assert items.get(("u",), "goes") is None
    assert items.search(("u",)) == items.search(("u",), query="blue lamp") == []
    assert sorted(keys(items.search((), query="blue lamp"))) == ["later", "stays"] and rows(memory) == 4
    assert items.list_namespaces() == [NAMESPACE]
    result = retrieve({"messages": [{"content": "Is there a blue lamp?"}]}, store=memory)
    assert all("blue lamp" not in fact.text for fact in result.facts)
    assert items.sweep_ttl() == 1 and items.sweep_ttl() == 0
    assert keys(items.search(())) == ["stays", "later"] and rows(memory) == 2
    items.put(("u",), "goes", {"text": "red boat"})
    assert items.get(("u",), "goes").created_at > created


def test_an_expired_item_can_be_put_again_before_a_sweep(memory):
    """Proves: API-5."""
    items = RecallLoopStore(memory)
    items.put(NAMESPACE, "k", {"v": "old"}, ttl=10)
    created = items.get(NAMESPACE, "k").created_at
    expire(memory, "k")
    items.put(NAMESPACE, "k", {"v": "new"})
    assert items.sweep_ttl() == 0
    assert items.get(NAMESPACE, "k").value == {"v": "new"} and items.get(NAMESPACE, "k").created_at > created


def test_a_sweep_erases_its_own_items_only(memory):
    """Proves: API-5, STORE-3."""
    stores = [RecallLoopStore(memory, user_id=user, tenant=tenant) for user, tenant in (("a", "x"), ("b", "x"))]
    for items in stores:
        items.put(NAMESPACE, "k", {"v": 1}, ttl=0.0001)
    time.sleep(0.02)
    assert stores[0].sweep_ttl() == 1 and stores[0].sweep_ttl() == 0 and stores[1].sweep_ttl() == 1


def test_the_default_time_to_live_and_others(memory):
    """Proves: API-5."""
    items = RecallLoopStore(memory, ttl={"default_ttl": 60})
    assert items.ttl_config == {"default_ttl": 60}
    before = datetime.now(UTC)
    items.put(NAMESPACE, "default", {"v": 1})
    items.put(NAMESPACE, "own", {"v": 1}, ttl=0.5)
    items.put(NAMESPACE, "stays", {"v": 1}, ttl=None)
    items.batch([PutOp(NAMESPACE, "batched", {"v": 1})])  # the default is that of `put`, as in LangGraph's stores
    after = datetime.now(UTC)
    hour, half = timedelta(hours=1), timedelta(seconds=30)
    assert before + hour <= expiry(memory, "default") <= after + hour
    assert before + half <= expiry(memory, "own") <= after + half
    assert expiry(memory, "stays") is None and expiry(memory, "batched") is None
    items.put(NAMESPACE, "own", {"v": 1}, ttl=None)
    assert expiry(memory, "own") is None


@pytest.mark.parametrize("configured", [None, {}, {"refresh_on_read": True}, {"refresh_on_read": False}])
@pytest.mark.parametrize("asked", [None, True, False])
def test_a_read_starts_the_time_to_live_anew_where_it_should(memory, configured, asked):
    """Proves: API-5."""
    items = RecallLoopStore(memory, ttl=configured)
    refreshed = (configured or {}).get("refresh_on_read", True) if asked is None else asked
    reads = (
        lambda: items.get(NAMESPACE, "k", refresh_ttl=asked),
        lambda: items.search(NAMESPACE, query="red boat", limit=1, refresh_ttl=asked),
        lambda: items.search(NAMESPACE, filter={"n": 1}, refresh_ttl=asked),
    )
    for read in reads:
        for key, number in (("k", 1), ("other", 2)):
            items.put(NAMESPACE, key, {"text": "red boat" if number == 1 else "lamp", "n": number}, ttl=0.05)
        ends, others, updated = expiry(memory, "k"), expiry(memory, "other"), updated_at(memory)
        time.sleep(0.1)
        assert read()
        assert (expiry(memory, "k") > ends + timedelta(seconds=0.05)) is refreshed
        assert expiry(memory, "other") == others and updated_at(memory) == updated


def updated_at(memory):
    return [one.updated_at for one in memory.scan()]


def test_a_refresh_writes_nothing_but_the_time(memory):
    """Proves: API-5."""
    items = RecallLoopStore(memory, fields=["text", "more"])
    items.put(NAMESPACE, "k", {"text": "red boat", "more": "blue lamp"}, ttl=0.02)
    before = [one.model_dump(exclude={"expires_at"}) for one in memory.scan()]
    for _ in range(4):  # half of its time each, so that it only lives by being read
        time.sleep(0.6)
        assert items.get(NAMESPACE, "k") is not None
    assert items.search(NAMESPACE, query="blue lamp")[0].score == pytest.approx(1.0, abs=0.1)  # parts live on too
    assert [one.model_dump(exclude={"expires_at"}) for one in memory.scan()] == before
    assert len({one.expires_at for one in memory.scan()}) == 1
    assert memory.maintenance.verify().sound
    time.sleep(1.3)
    assert items.get(NAMESPACE, "k") is None


def test_a_refresh_that_is_hardly_later_is_not_written(memory):
    """Proves: API-5."""
    items = RecallLoopStore(memory)
    items.put(NAMESPACE, "k", {"v": 1}, ttl=60)
    ends = expiry(memory, "k")
    time.sleep(0.01)
    assert items.get(NAMESPACE, "k") is not None and expiry(memory, "k") == ends


def test_a_reader_refreshes_nothing(tmp_path):
    """Proves: API-5."""
    with MemoryStore.open(tmp_path, embedder=WordHashEmbedder()) as memory:
        RecallLoopStore(memory).put(NAMESPACE, "k", {"v": 1}, ttl=0.05)
        with MemoryStore.open(tmp_path, embedder=WordHashEmbedder(), read_only=True) as reader:
            ends = expiry(memory, "k")
            time.sleep(0.1)
            assert RecallLoopStore(reader).get(NAMESPACE, "k").value == {"v": 1} and expiry(memory, "k") == ends


def test_prolonging_moves_only_what_would_expire_earlier(memory):
    """Proves: API-5."""
    now = datetime.now(UTC).replace(microsecond=0)
    fields = {"kind": "archival", "text": "lamp"}
    times = {"soon": now + timedelta(hours=1), "late": now + timedelta(hours=9), "past": now - timedelta(hours=1)}
    memory.upsert([{"id": one, **fields, "expires_at": moment} for one, moment in times.items()])
    memory.upsert([{"id": "stays", **fields}])
    wanted = now + timedelta(hours=5)
    assert memory.prolong(dict.fromkeys([*times, "stays", "none"], wanted)) == 1
    assert {one.id: one.expires_at for one in memory.scan()} == {"soon": wanted, "late": times["late"], "stays": None}
    assert memory.prolong({}) == 0 and memory.prolong({"soon": wanted}, tenant="other") == 0
    with pytest.raises(InvalidInputError, match="expires_at"):
        memory.prolong({"soon": "tomorrow"})


def test_the_sweeper_erases_from_time_to_time_until_it_is_stopped(memory):
    """Proves: API-5."""
    items = RecallLoopStore(memory, ttl={"sweep_interval_minutes": 0.0005})
    done = items.start_ttl_sweeper()
    assert items.start_ttl_sweeper() is done
    items.put(NAMESPACE, "k", {"v": 1}, ttl=0.001)
    wait_until(lambda: not rows(memory))
    assert items.sweep_ttl() == 0 and not done.done()
    assert items.stop_ttl_sweeper(timeout=5) and items.stop_ttl_sweeper() and done.result(timeout=5) is None
    again = items.start_ttl_sweeper(0.0005)
    assert again is not done and again.cancel()
    wait_until(lambda: not sweeping())
    RecallLoopStore(memory).start_ttl_sweeper(0.0005)  # it ends with the store that started it
    wait_until(lambda: not sweeping())


def rows(memory):
    """Return how many records there are, expired ones too."""
    return memory.maintenance.info()["records"]


def sweeping():
    return [one for one in threading.enumerate() if one.name == "recall-loop-sweeper" and one.is_alive()]


def test_a_sweep_that_fails_does_not_end_the_sweeper(caplog):
    """Proves: API-5."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as memory:
        items = RecallLoopStore(memory)
        items.start_ttl_sweeper(0.0005)
    wait_until(lambda: "could not be erased" in caplog.text)
    assert sweeping() and items.stop_ttl_sweeper(timeout=5) and not sweeping()


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"default_ttl": 0}, "ttl.default_ttl"),
        ({"default_ttl": True}, "ttl.default_ttl"),
        ({"default_ttl": 1e12}, "ttl.default_ttl"),
        ({"sweep_interval_minutes": -1}, "ttl.sweep_interval_minutes"),
        ({"refresh_on_read": 1}, "ttl.refresh_on_read"),
        ({"default": 1}, "ttl.default"),
        ([], "ttl"),
    ],
)
def test_a_wrong_configuration_is_an_error_that_names_its_place(memory, wrong, field):
    """Proves: API-5, SEARCH-2."""
    with pytest.raises(InvalidInputError) as caught:
        RecallLoopStore(memory, ttl=wrong)
    assert caught.value.field == field
    with pytest.raises(UnsupportedOptionError, match="omit_expired"):
        RecallLoopStore(memory, ttl={"omit_expired": False})
    for ttl in (0, -1, float("inf"), 1e12):
        with pytest.raises(InvalidInputError, match=r"^ttl: "):
            RecallLoopStore(memory).put(NAMESPACE, "k", {"v": 1}, ttl=ttl)
    with pytest.raises(InvalidInputError, match="sweep_interval_minutes"):
        RecallLoopStore(memory).start_ttl_sweeper(0)
    assert memory.count() == 0
