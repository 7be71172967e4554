"""Questions that name a time, through the whole loop: records of that time come first (QUERY-1, RANK-3)."""

from __future__ import annotations

import pytest

from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.settings.settings import Settings
from tests.integration.graph.worlds import valley_request

PLACES = (
    "harbour",
    "forest",
    "canal",
    "castle",
    "lake",
    "market",
    "mill",
    "quarry",
    "bridge",
    "garden",
    "dunes",
    "pier",
)
YEARS = (2021, 2022, 2023)


def walk(place, year, month):
    """Return what was said about one walk: the same words each time, but for the place."""
    return {
        "id": f"{place}-{year}",
        "kind": "message",
        "text": f"We went for a long walk by the {place}.",
        "author": "Ada",
        "conversation_id": f"c-{year}-{month}",
        "created_at": f"{year}-{month:02}-14T10:00:00Z",
    }


@pytest.fixture(scope="module")
def walks(embedder):
    with MemoryStore.in_memory(embedder=embedder) as store:
        store.upsert(walk(place, year, month) for year in YEARS for month, place in enumerate(PLACES, 1))
        yield store


def found(store, question, knobs=None, **more):
    """Return the ids of the facts, best first."""
    request = valley_request(question, **{"tenant": "default", "reference_time": "2024-01-05T00:00:00Z", **more})
    return [fact.id for fact in retrieve(request, store=store, settings=Settings(**(knobs or {}))).facts]


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("Where did Ada walk on 14 March 2022?", {"canal-2022"}),
        ("Where did Ada go for a long walk in August 2021?", {"quarry-2021"}),
        ("Where did Ada walk last month?", {"pier-2023"}),
        ("Where did Ada walk in June and July 2022?", {"market-2022", "mill-2022"}),
    ],
)
def test_statements_of_the_named_time_come_first(walks, question, best):
    """Proves: QUERY-1, RANK-3. The words alone fit all 36 walks equally."""
    ids = found(walks, question)
    assert set(ids[: len(best)]) == best


def test_without_its_weight_and_its_query_the_time_says_nothing(walks, monkeypatch):
    """Proves: RANK-3 (the setting works, and the test above can fail)."""
    monkeypatch.setattr("recall_loop.policy.planning.query_forms.PERIOD_WEIGHT", 0.0)
    monkeypatch.setattr("recall_loop.text.time.dates._MAX_MONTHS", 0)  # no time stands for any month in the index
    ids = found(walks, "Where did Ada go for a long walk in August 2021?", {"rank_time_weight": 0.0})
    assert ids[0] != "quarry-2021"


def test_a_time_outside_of_the_request_brings_nothing(walks):
    """Proves: SEARCH-3. The request's own bounds hold."""
    bounds = {"filters": {"start_time": "2022-01-01T00:00:00Z", "end_time": "2022-12-31T00:00:00Z"}}
    ids = found(walks, "Where did Ada walk in August 2021?", **bounds)
    assert ids and all(name.endswith("-2022") for name in ids)
