"""Every leg and mode against a naive oracle: plain Python over the raw records, nothing of the store.

The worlds are small, so the thresholds above which the store reads instead of caching, and asks Chroma instead
of comparing everything, are lowered: each of its ways is taken.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from recall_loop.memory.search.engine import search
from recall_loop.memory.store.index import vector_search
from recall_loop.memory.store.index.caches import row_limits
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import ContentType, Role, SearchMode
from recall_loop.text.speech.speech_acts import speech_acts
from recall_loop.text.words.tokens import stems
from tests.attribute_oracle import attribute_filters, wanted_attributes
from tests.embedders import WordHashEmbedder

pytestmark = pytest.mark.slow

KINDS = [str(kind) for kind in ContentType]
NOW = datetime(2024, 1, 1, tzinfo=UTC)
WORDS = ["ferry", "island", "bread", "window", "lamp", "Ann", "ferries", "the", "of", "north"]
STATUSES = ["completed", "incomplete", "failed", "error", "unknown"]
VALUES: list[Any] = ["red", "blue", "", 0, 1, 2.5, True, False, None, ["red"], {"team": "red"}]
CLOSE = 4e-3  # vectors are stored in half precision

EVERYTHING_CACHED: dict[str, int] = {}
WINDOWS_CACHED = {"CACHED_ROWS": 0}
NOTHING_CACHED = {"CACHED_ROWS": 0, "INDEXED_ROWS": 0, "READ_ROWS": 1_000}
OVERFETCHED = {"CACHED_ROWS": 0, "INDEXED_ROWS": 0, "SCANNED_ROWS": 0, "READ_ROWS": 0}
WAYS = {
    "cached": EVERYTHING_CACHED,
    "windows cached": WINDOWS_CACHED,
    "read": NOTHING_CACHED,
    "overfetched": OVERFETCHED,
}

# Worlds


def make_record(number: int, chance: random.Random) -> dict[str, Any]:
    """Return a record as a caller would write it, with any of the fields that scopes and filters look at."""
    pick = chance.choice
    kind = pick(KINDS)
    fields = {
        "id": f"r{number}",
        "kind": kind,
        "text": " ".join(chance.choices(WORDS, k=chance.randint(1, 6))),
        "agent_id": pick([None, "a1", "a2", "a3"]),
        "group_id": pick([None, "g1", "g2"]),
        "user_id": pick([None, "u1", "u2"]),
        "conversation_id": pick([None, "c1", "c2"]),
        "session": pick([None, "s1", "s2"]),
        "role": pick([None, "user", "assistant", "tool"]),
        "label": pick([None, "north", "lamp"]),
        "subject": pick([None, "Ann", "ferry"]),
        "author": pick([None, "Ann", "Bo"]),
        "fact_type": pick([None, "owns", "sells"]),
        "position": pick([None, 1, 2, 3]),
        "tags": chance.sample(["t1", "t2", "t3"], k=chance.randint(0, 3)),
        "created_at": pick([None, NOW + timedelta(days=chance.randint(0, 9))]),
    }
    fields["attributes"] = make_attributes(chance) if kind == "trajectory" else {}
    fields["attributes"] |= {name: pick(VALUES) for name in ("team", "grade") if chance.random() < 0.7}
    if kind == "fact" and chance.random() < 0.6:
        fields["valid_until"] = NOW + timedelta(days=chance.randint(0, 9))
        fields["superseded_by"] = chance.choice(
            [None, "elsewhere", *(f"r{other}" for other in range(8) if other != number)]
        )
    return {name: value for name, value in fields.items() if value is not None or name == "created_at"}


def make_attributes(chance: random.Random) -> dict[str, Any]:
    """Return status and score, or what only looks like them."""
    status = chance.choice(
        [{}, {"status": chance.choice(STATUSES)}, {"status": None}, {"status": ["failed"]}, "failed"]
    )
    score = chance.choice([0, 1, 0.5, 0.3, round(chance.random(), 2), "0.9", True, None, [0.5]])
    tools = chance.choice([["lamp"], ["lamp", "bread"], [], "lamp", None, [1, ["lamp"]], {"a": "lamp"}])
    whole = {
        "execution": status,
        "outcome_score": score,
        "other": 0.5,
        "metadata": chance.choice([{"tools_used": tools}, {}, "lamp"]),
        "task_category": chance.choice(["travel", "5", 5, None, ["travel"]]),
        "complexity_level": chance.choice(["simple", "expert", None, 1]),
    }
    return {name: whole[name] for name in chance.sample(sorted(whole), k=chance.randint(0, 6))}


@dataclass(frozen=True)
class World:
    """The records of one tenant in order of first insertion, and everything that a search of them may show."""

    records: list[dict[str, Any]]

    @cached_property
    def indexed(self) -> list[str]:
        return [indexed_text(record) for record in self.records]

    @cached_property
    def neighbours(self) -> list[tuple[int | None, int | None]]:
        """The places of the turns before and after each record."""
        threads: dict[tuple[Any, ...], list[int]] = {}
        for at, record in enumerate(self.records):
            place = tuple(record.get(name) for name in ("user_id", "conversation_id", "session"))
            if record["kind"] == "message" and any(place[1:]):
                threads.setdefault(place, []).append(at)
        found: list[tuple[int | None, int | None]] = [(None, None)] * len(self.records)
        for places in threads.values():
            ordered = sorted(places, key=lambda at: (*turn_order(self.records[at]), at))
            padded = [None, *ordered, None]
            for before, at, after in zip(padded, ordered, padded[2:], strict=False):
                found[at] = (before, after)
        return found

    @cached_property
    def own_stems(self) -> list[set[str]]:
        return [set(stems(text)) for text in self.indexed]

    @cached_property
    def window_stems(self) -> list[set[str]]:
        joined = []
        for at, sides in enumerate(self.neighbours):
            parts = [self.own_stems[side] for side in sides if side is not None]
            joined.append(self.own_stems[at].union(*parts))
        return joined

    @cached_property
    def vectors(self) -> tuple[np.ndarray, np.ndarray]:
        """Own and context vectors."""
        own = WordHashEmbedder().embed_documents(self.indexed)
        context = own.copy()
        for at, (before, after) in enumerate(self.neighbours):
            for side, weight in ((before, 0.5), (after, 0.25)):
                if side is not None:
                    context[at] += weight * own[side]
        return own, context / np.maximum(np.linalg.norm(context, axis=1, keepdims=True), 1e-9)

    def cosines(self, query: str) -> tuple[np.ndarray, np.ndarray]:
        vector = WordHashEmbedder().embed_queries([query])[0]
        own, context = self.vectors
        return own @ vector, context @ vector

    def allowed(self, scope: Scope, filters: Filters, kinds: list[str]) -> list[int]:
        """The places of records that a search may give."""
        places = range(len(self.records))
        return [
            at for at in places if self.in_scope(self.records[at], scope) and wanted(self.records[at], filters, kinds)
        ]

    def in_scope(self, record: dict[str, Any], scope: Scope) -> bool:
        for name in ("user_id", "conversation_id"):
            value = getattr(scope, name)
            if value is not None and record.get(name) != value:
                return False
        if scope.agent_id is None or record.get("agent_id") == scope.agent_id:
            return True
        if scope.mode == "local":
            return False
        groups = {
            other["group_id"]
            for other in self.records
            if other.get("agent_id") == scope.agent_id and other.get("group_id") is not None
        }
        agents = {other.get("agent_id") for other in self.records if other.get("group_id") in groups} - {None}
        return record.get("group_id") in groups or record.get("agent_id") in agents

    def similarities(self, query: str, mode: str) -> np.ndarray:
        """The similarity of every record, as docs/search.md defines it."""
        asked = list(dict.fromkeys(stems(query)))
        rows = len(self.records)
        found = {stem: sum(stem in window for window in self.window_stems) for stem in asked}
        idf = {stem: math.log(1 + (rows - count + 0.5) / (count + 0.5)) for stem, count in found.items()}
        result = []
        for at, (own, context) in enumerate(zip(*self.cosines(query), strict=True)):
            present = [
                idf[stem] * (1.0 if stem in self.own_stems[at] else 0.8)
                for stem in asked
                if stem in self.window_stems[at]
            ]
            words = sum(present) / sum(idf.values()) if asked else 0.0
            meaning = 1 / (1 + math.exp(-8 * (max(own, context) - 0.35)))
            joined = words if mode == "fts" else (meaning + words) / 2 if asked else meaning
            result.append(joined * (0.7 if self.records[at].get("role") == "tool" else 1.0))
        return np.array(result)


def indexed_text(record: dict[str, Any]) -> str:
    head = record.get({"archival": "label", "fact": "subject", "message": "author"}.get(record["kind"], ""))
    text: str = record["text"]
    repeated = record["kind"] == "fact" and head and text.casefold().startswith(head.casefold())
    return f"{head}: {text}" if head and not repeated else text


def turn_order(record: dict[str, Any]) -> tuple[float, float]:
    created = record.get("created_at")
    position = record.get("position")
    return (math.inf if position is None else position, math.inf if created is None else created.timestamp())


def wanted(record: dict[str, Any], filters: Filters, kinds: list[str]) -> bool:
    """Tell whether a record satisfies content types and every filter."""
    created = record.get("created_at")
    checks = [record["kind"] in kinds]
    for name in ("role", "label", "fact_type", "conversation_id", "session", "user_id"):
        value = getattr(filters, name)
        checks.append(value is None or record.get(name) == value)
    checks.append(filters.agent_ids is None or record.get("agent_id") in filters.agent_ids)
    checks.append(set(filters.tags or ()) <= set(record["tags"]))
    checks.append(filters.start_time is None or (created is not None and created >= filters.start_time))
    checks.append(filters.end_time is None or (created is not None and created < filters.end_time))
    checks.append(filters.as_of is None or created is None or created <= filters.as_of)
    if not filters.include_superseded:
        until = record.get("valid_until")
        then = until is None or (filters.as_of is not None and until > filters.as_of)
        checks.append(then if filters.as_of is not None else record.get("superseded_by") is None)
    acts = (
        ()
        if record["kind"] == "trajectory"
        else speech_acts(record["text"], Role(record["role"]) if "role" in record else None)
    )
    checks.append(filters.speech_acts is None or any(act in acts for act in filters.speech_acts))
    checks.append(wanted_attributes(record.get("attributes", {}), filters.attributes or {}))
    return all(checks) and wanted_run(record, filters)


OF_RUNS = (
    "execution_status",
    "min_outcome_score",
    "max_outcome_score",
    "above_outcome_score",
    "below_outcome_score",
    "scored",
    "tools_used",
    "task_category",
    "complexity_level",
)


def wanted_run(record: dict[str, Any], filters: Filters) -> bool:
    """Tell whether a trajectory has the status, the score, the tools and so on that filters ask for."""
    if all(getattr(filters, name) is None for name in OF_RUNS):
        return True
    if record["kind"] != "trajectory":
        return False
    attributes = record.get("attributes", {})
    execution = attributes.get("execution")
    status = execution.get("status") if isinstance(execution, dict) else None
    if filters.execution_status is not None and ("unknown" if status is None else status) != filters.execution_status:
        return False
    for name in ("task_category", "complexity_level"):
        if getattr(filters, name) is not None and attributes.get(name) != getattr(filters, name):
            return False
    metadata = attributes.get("metadata")
    used = metadata.get("tools_used") if isinstance(metadata, dict) else None
    texts = {tool for tool in used if isinstance(tool, str)} if isinstance(used, list) else set()
    return set(filters.tools_used or ()) <= texts and wanted_score(attributes.get("outcome_score"), filters)


def wanted_score(score: Any, filters: Filters) -> bool:
    number = isinstance(score, int | float) and not isinstance(score, bool)
    if filters.scored is not None and number is not filters.scored:
        return False
    low, high, above, below = (getattr(filters, name) for name in OF_RUNS[1:5])
    if (low, high, above, below) == (None, None, None, None):
        return True
    if not number or (low is not None and score < low) or (high is not None and score > high):
        return False
    return (above is None or score > above) and (below is None or score < below)


# What is asked


def maybe(values: list[Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


DAYS = st.integers(0, 10).map(lambda days: NOW + timedelta(days=days))
SCORES = maybe([0, 0.3, 0.5, 0.9, 1])
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "agent_ids": st.lists(maybe(["a1", "a2", "a9"]), min_size=1, max_size=3),
    "role": maybe(["user", "tool", "system"]),
    "start_time": DAYS,
    "end_time": DAYS,
    "label": maybe(["north", "none"]),
    "tags": st.lists(maybe(["t1", "t2", "t9"]), min_size=1, max_size=2),
    "fact_type": maybe(["owns", "none"]),
    "conversation_id": maybe(["c1", "c9"]),
    "session": maybe(["s1", "s2"]),
    "user_id": maybe(["u1", "u2"]),
    "speech_acts": st.lists(maybe(["statement", "question"]), min_size=1, max_size=2),
    "attributes": attribute_filters(["team", "grade", "team.team", "lost"], [*VALUES[:9], 1.0, "blue "]),
    "min_similarity": maybe([0.0, 0.2, 0.4, 0.6]),
    "include_superseded": maybe([True, True, False]),
    "as_of": DAYS,
    "execution_status": maybe(STATUSES),
    "min_outcome_score": SCORES,
    "max_outcome_score": SCORES,
    "above_outcome_score": SCORES,
    "below_outcome_score": SCORES,
    "scored": maybe([True, False]),
    "tools_used": st.lists(maybe(["lamp", "bread", "spoon"]), min_size=1, max_size=2),
    "task_category": maybe(["travel", "5", "none"]),
    "complexity_level": maybe(["simple", "expert", "trivial"]),
}
ALMOST_ALWAYS_ONE_OR_TWO = st.sampled_from([0, 1, 1, 1, 2, 2, 3])


@st.composite
def filter_sets(draw: st.DrawFn) -> Filters:
    count = draw(ALMOST_ALWAYS_ONE_OR_TWO)
    names = draw(st.lists(maybe(list(FIELDS)), min_size=count, max_size=count, unique=True))
    values = {name: draw(FIELDS[name]) for name in names}
    for low, high in (("start_time", "end_time"), ("min_outcome_score", "max_outcome_score")):
        if low in values and high in values and values[low] >= values[high]:
            del values[low]
    return Filters(**values)


SCOPES = st.one_of(
    st.just(Scope(tenant="mine")),
    st.builds(
        Scope,
        tenant=st.just("mine"),
        agent_id=maybe(["a1", "a2", "a9"]),
        mode=maybe(["local", "constellation"]),
        user_id=maybe([None, None, "u1"]),
        conversation_id=maybe([None, None, "c1"]),
    ),
)
QUERIES = st.one_of(
    st.lists(maybe(WORDS), min_size=1, max_size=3).map(" ".join),
    maybe(["the of", "zeppelin", "ferry zeppelin", "?!"]),
)
TYPES = st.one_of(st.just(KINDS), st.lists(maybe(KINDS), min_size=1, max_size=4, unique=True))


@dataclass(frozen=True)
class Asked:
    query: str
    scope: Scope
    filters: Filters
    kinds: list[str]
    limit: int
    per_type: bool


ASKED = st.builds(Asked, QUERIES, SCOPES, filter_sets(), TYPES, st.sampled_from([1, 2, 5, 100]), st.booleans())


# The comparison


# No shrinking: it takes minutes, and seed and size already give the world back.
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.explicit, Phase.generate])
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(1, 40),
    asked=st.lists(ASKED, min_size=1, max_size=4),
    way=st.sampled_from(list(WAYS)),
)
def test_every_mode_finds_what_a_naive_search_finds(seed: int, size: int, asked: list[Asked], way: str) -> None:
    """Proves: SEARCH-1, SEARCH-3, SEARCH-4, SEARCH-6, SEARCH-7, STORE-3, STORE-7."""
    chance = random.Random(seed)
    with pytest.MonkeyPatch.context() as patch, MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        for name, value in WAYS[way].items():
            patch.setattr(row_limits, name, value)
        if way == "overfetched":
            patch.setattr(vector_search, "_SMALL_ROWS", 0)
        world = filled(store, size, chance)
        for question in asked:
            for mode in SearchMode:
                compare(store, world, question, mode)


def filled(store: MemoryStore, size: int, chance: random.Random) -> World:
    """Write two tenants, search, then replace and delete some: caches have to follow."""
    records = [make_record(number, chance) for number in range(size)]
    store.upsert([make_record(number, chance) for number in range(size)], tenant="theirs")
    store.upsert(records, tenant="mine")
    search(store, "ferry lamp", scope=Scope(tenant="mine"))
    changed = {
        record["id"]: make_record(number, chance) for number, record in enumerate(records) if chance.random() < 0.2
    }
    deleted = {record["id"] for record in records if chance.random() < 0.1}
    store.upsert(changed.values(), tenant="mine")
    store.delete(deleted, tenant="mine")
    written = [changed.get(record["id"], record) for record in records]
    return World(without(written, deleted))


def without(records: list[dict[str, Any]], deleted: set[str]) -> list[dict[str, Any]]:
    """Leave records out; a fact that one of them had superseded ends where that one ended, or not at all."""
    gone = {record["id"]: record for record in records if record["id"] in deleted}
    kept = []
    for record in (record for record in records if record["id"] not in deleted):
        end: dict[str, Any] | None = record
        seen: set[str] = set()
        while end is not None and end.get("superseded_by") in gone:
            by = end["superseded_by"]
            end = None if by in seen else gone[by]
            seen.add(by)
        if seen:
            end = end if end is not None and end.get("superseded_by") else {}
            kept.append(record | {name: end.get(name) for name in ("superseded_by", "valid_until")})
        else:
            kept.append(record)
    return kept


def compare(store: MemoryStore, world: World, asked: Asked, mode: SearchMode) -> None:
    params = SearchParams(
        filters=asked.filters,
        content_types=tuple(ContentType(kind) for kind in asked.kinds),
        mode=mode,
        limit=asked.limit,
        limit_per_type=asked.per_type,
        debug=True,
    )
    found = search(store, asked.query, scope=asked.scope, params=params)
    allowed = world.allowed(asked.scope, asked.filters, asked.kinds)
    places = {world.records[at]["id"]: at for at in allowed}
    ids = [hit.record.id for hit in found.hits]
    assert found.allowed == len(allowed)
    assert len(set(ids)) == len(ids)
    assert set(ids) <= set(places)
    assert store.count(asked.scope, asked.filters, asked.kinds) == len(allowed)
    assert [record.id for record in store.scan(asked.scope, asked.filters, asked.kinds)] == list(places)

    similar = world.similarities(asked.query, mode)
    terms = set(stems(asked.query))
    candidates = [at for at in allowed if mode is not SearchMode.FTS or terms & world.window_stems[at]]
    check_counts(world, asked, Counter(bucket(world, asked, places[name]) for name in ids), candidates, similar)
    check_values(world, asked, found.hits, places, similar)
    if mode is SearchMode.VECTOR and not asked.filters.min_similarity:
        check_depth(world, asked, [places[name] for name in ids], candidates)


def bucket(world: World, asked: Asked, at: int) -> str:
    return world.records[at]["kind"] if asked.per_type else ""


def check_counts(world: World, asked: Asked, found: Counter[str], candidates: list[int], similar: np.ndarray) -> None:
    """Every bucket is as full as its limit and what matches allow."""
    least = asked.filters.min_similarity or -1.0
    surely = Counter(bucket(world, asked, at) for at in candidates if similar[at] >= least + CLOSE)
    perhaps = Counter(bucket(world, asked, at) for at in candidates if similar[at] >= least - CLOSE)
    for name in set(perhaps) | set(found):
        assert min(surely[name], asked.limit) <= found[name] <= min(perhaps[name], asked.limit)


def check_values(
    world: World, asked: Asked, hits: tuple[Any, ...], places: dict[str, int], similar: np.ndarray
) -> None:
    """What is shown of each result is what the oracle works out, and the order is that of the scores."""
    own, context = world.cosines(asked.query)
    for hit in hits:
        at = places[hit.record.id]
        assert hit.record.text == world.records[at]["text"]
        assert hit.similarity == pytest.approx(min(max(similar[at], 0), 1), abs=CLOSE)
        assert hit.similarity >= (asked.filters.min_similarity or 0.0)
        if "cosine" in hit.debug:
            assert hit.debug["cosine"]["score"] == pytest.approx(own[at], abs=CLOSE)
            assert hit.debug["cosine_window"]["score"] == pytest.approx(context[at], abs=CLOSE)
    scores = [hit.score for hit in hits]
    assert scores == sorted(scores, reverse=True)
    for name in hits[0].debug if hits else ():
        legs = [hit.debug[name] for hit in hits]
        assert sorted(legs, key=lambda leg: leg["rank"]) == sorted(legs, key=lambda leg: (-leg["score"], leg["rank"]))


def check_depth(world: World, asked: Asked, found: list[int], candidates: list[int]) -> None:
    """No result lies behind the nearest few of its bucket, by brute force."""
    _, context = world.cosines(asked.query)
    for at in found:
        among = sorted(
            context[other] for other in candidates if bucket(world, asked, other) == bucket(world, asked, at)
        )
        nearest_few = among[-5 * asked.limit :]
        assert context[at] >= nearest_few[0] - CLOSE


# A filter that keeps one in a thousand


@pytest.fixture(scope="module")
def crowd() -> Iterator[MemoryStore]:
    """A store of 3,000 records of which one in a thousand has a rare tag, spread evenly.

    Chroma holds them too: in memory it takes them in at the first search that needs it.
    """
    numbers = np.random.default_rng(5)
    words = [f"word{number}" for number in range(300)]
    texts = [" ".join(words[at] for at in numbers.integers(0, 300, 6)) for _ in range(3_000)]
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        store.upsert(
            {"id": f"r{at}", "kind": "fact", "text": text, "tags": ["rare"] if at % 1000 == 7 else ["common"]}
            for at, text in enumerate(texts)
        )
        yield store


@pytest.mark.parametrize("way", WAYS)
def test_a_filter_that_keeps_one_in_a_thousand_fills_the_limit(way: str, crowd: MemoryStore) -> None:
    """Proves: SEARCH-3."""
    rare = Filters(tags=("rare",))
    kept = [set(record.text.split()) for record in crowd.scan(filters=rare)]
    query = " ".join(sorted(kept[0])[:3])
    sharing = sum(bool(set(query.split()) & words) for words in kept)
    assert len(kept) == crowd.count() // 1000
    with pytest.MonkeyPatch.context() as patch:
        for name, value in WAYS[way].items():
            patch.setattr(row_limits, name, value)
        crowd._session.cache.clear()
        for mode in SearchMode:
            matching = sharing if mode is SearchMode.FTS else len(kept)
            for limit in (2, 3, 50):
                found = search(crowd, query, params=SearchParams(filters=rare, mode=mode, limit=limit))
                assert found.allowed == len(kept)
                assert len(found.hits) == min(limit, matching)
                assert all(hit.record.tags == ("rare",) for hit in found.hits)
