"""Long runs are indexed whole, in pieces with vectors of their own (GUARD-8)."""

from __future__ import annotations

import pytest

from recall_loop.memory.search.engine import search
from recall_loop.memory.store.embed.token_vectors import codec_for_embedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.write.stored_tokens import StoredTokens
from recall_loop.memory.store.write.text_embedding import MAX_PIECE_TOKENS, MAX_PIECES, PIECE_CHARACTERS, pieces_of
from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.memory.trajectories.indexing_text import searchable_text
from recall_loop.state.records.trajectories import RunData, trajectory_record
from recall_loop.state.scope import Scope
from recall_loop.state.search import SearchParams, TrajectorySearchParams
from recall_loop.state.types import ContentType, SearchMode
from tests.embedders import WordHashEmbedder

TOPICS = ("invoice", "garden", "ferry", "chapel", "wedding", "harbour", "granary", "orchard", "museum", "lighthouse")
RUNS = (ContentType.TRAJECTORY,)
DEEP = (
    "And another thing: my old estate stayed silent this frosty morning, whatever I did with the key. The battery is "
    "new and the tank is full, but there was ice on every window and the engine didn't even turn."
)
ASKED = "the car would not start because of the cold"


def long_run(number: int, last: str = "Thank you, that is all.", score: float | None = None) -> RunData:
    """Return a run with messages of some 700 characters, behind which stands what is looked for."""
    talk = [
        f"About the {TOPICS[(number + turn) % len(TOPICS)]}: "
        + f"please look at entry {number * 7 + turn} of the list. " * 14
        for turn in range(6)
    ]
    turns = [{"messages": [{"role": "user", "content": text}]} for text in (*talk, last)]
    return RunData.model_validate({"task": talk[0][:60], "turns": turns, "outcome_score": score})


def record(number: int, run: RunData):
    return trajectory_record(run, id=f"t{number}", text=searchable_text(run))


@pytest.fixture(scope="module")
def store(embedder):
    with MemoryStore.in_memory(embedder=embedder) as opened:
        opened.upsert([record(at, long_run(at, DEEP if at == 7 else "", at / 11)) for at in range(12)])
        yield opened


def without_pieces(store: MemoryStore, mode: SearchMode) -> list[str]:
    """Return what is found where each run has the vector of its beginning only."""
    with store._session.database.transaction() as connection:
        kept = connection.execute("SELECT rowid, vectors FROM pieces").fetchall()
        connection.execute("DELETE FROM pieces")
    try:
        store._session.cache.clear()
        return ids(search(store, ASKED, params=SearchParams(content_types=RUNS, mode=mode, rerank=False)))
    finally:
        with store._session.database.transaction() as connection:
            connection.executemany("INSERT INTO pieces VALUES (?, ?)", kept)
        store._session.cache.clear()


def ids(response) -> list[str]:
    return [hit.record.id for hit in response.hits]


@pytest.mark.parametrize("mode", [SearchMode.VECTOR, SearchMode.HYBRID])
def test_what_a_late_message_says_in_other_words_finds_the_run(store, mode):
    """Proves: GUARD-8 (by its pieces: their vectors, and their token vectors)."""
    assert ids(search(store, ASKED, params=SearchParams(content_types=RUNS, mode=mode)))[0] == "t7"
    assert ids(search(store, ASKED, params=SearchParams(content_types=RUNS, mode=mode, rerank=False)))[0] == "t7"
    assert without_pieces(store, mode)[0] != "t7"


def test_a_search_with_contrasts_finds_it_in_its_tier(store):
    """Proves: GUARD-8, TRAJ-5 (each tier is still searched for itself, and all are there)."""
    params = TrajectorySearchParams(include_contrasts=True, min_similarity=0.0, limit=5)
    found = search_trajectories(store, ASKED, scope=Scope(), params=params)
    assert found.moderate[0].id == "t7"
    assert [len(group) for group in (found.successes, found.moderate, found.failures)] == [4, 4, 4]


def test_pieces_follow_changes_and_deletions_and_stay_in_their_tenant():
    """Proves: GUARD-8, STORE-3, STORE-6."""
    query, params = DEEP, SearchParams(content_types=RUNS, mode=SearchMode.VECTOR, limit=1)
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as store:
        store.upsert([record(at, long_run(at, DEEP if at == 3 else "")) for at in range(6)])
        store.upsert([record(3, long_run(3, DEEP))], tenant="theirs")
        assert ids(search(store, query, params=params)) == ["t3"]
        store.upsert([record(3, long_run(3)), record(5, long_run(5, DEEP))])
        assert ids(search(store, query, params=params)) == ["t5"]
        store.upsert([{"id": "t5", "kind": "trajectory", "text": "A short run."}])
        assert ids(search(store, query, params=params)) != ["t5"]
        store.delete([f"t{at}" for at in range(6)])
        assert store._session.database.fetch("SELECT count(*) FROM pieces") == [(1,)]
        assert ids(search(store, query, scope=Scope(tenant="theirs"), params=params)) == ["t3"]


def test_a_store_of_an_earlier_version_gets_them_when_it_is_embedded_again(tmp_path):
    """Proves: GUARD-8, STORE-5."""
    embedder = WordHashEmbedder()
    with MemoryStore.open(tmp_path, embedder=embedder) as store:
        store.upsert([record(1, long_run(1, DEEP))])
        with store._session.database.transaction() as connection:
            connection.execute("DROP TABLE pieces")
            connection.execute("UPDATE meta SET value = '5' WHERE key = 'schema'")
    with MemoryStore.open(tmp_path, embedder=embedder) as store:
        assert store._session.database.fetch("SELECT count(*) FROM pieces") == [(0,)]
        assert ids(search(store, "frosty", params=SearchParams(content_types=RUNS))) == ["t1"]
        assert store.delete(["t1"]) == 1
        store.upsert([record(1, long_run(1, DEEP))])
        with store._session.database.transaction() as connection:
            connection.execute("DELETE FROM pieces")
        store.maintenance.rebuild(embedder=embedder)
        assert store._session.database.fetch("SELECT count(*) FROM pieces") == [(1,)]


def test_pieces_hold_the_whole_text():
    """Proves: GUARD-8 (cut at lines and blanks; of very long ones some, at equal distances)."""
    text = searchable_text(long_run(2, DEEP))
    pieces = pieces_of("trajectory", text)
    assert " ".join(pieces).split() == text.split()
    assert len(pieces) > 4 and max(map(len, pieces)) <= PIECE_CHARACTERS
    assert pieces_of("message", text) == [] == pieces_of("trajectory", "short")
    many = pieces_of("trajectory", "x" * 500_000 + " end")
    assert len(many) == MAX_PIECES and max(map(len, many)) <= PIECE_CHARACTERS


def test_token_vectors_of_a_very_long_run_are_bounded(embedder):
    """Proves: GUARD-8, GUARD-2."""
    words = " ".join(f"{TOPICS[at % 10]}{at}" for at in range(3_000))
    with MemoryStore.in_memory(embedder=embedder) as store:
        store.upsert([{"id": "t", "kind": "trajectory", "text": words}])
        codec = codec_for_embedder(embedder)
        (packed,) = StoredTokens(store._session.database, "default", codec).tokens([1]).values()
        assert MAX_PIECE_TOKENS // 2 < len(packed.values) <= MAX_PIECE_TOKENS
