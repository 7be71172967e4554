"""Token vectors beside the records: made with every write, kept up, dropped, made again."""

from __future__ import annotations

import time

import pytest

from recall_loop.memory.search.engine import search
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import StoreReadOnlyError, UnsupportedOptionError
from recall_loop.state.scope import Scope
from recall_loop.state.search import SearchParams
from tests.embedders import WordHashEmbedder

TURNS = [
    {"id": f"m{number}", "kind": "message", "session": "s", "text": text}
    for number, text in enumerate(["Which ferry do we take?", "The one at nine.", "Then pack the sandwiches."])
]


def rows(store):
    """Return the ids of records with token vectors, with the bytes of these."""
    query = "SELECT r.id, t.vectors FROM tokens t JOIN records r ON r.rowid = t.rowid ORDER BY r.id"
    with store._session.database.reading() as connection:
        return dict(connection.execute(query))


def reranks(store):
    """Tell whether late interaction runs where nothing is said."""
    plain, left_alone = (search(store, "ferry", params=SearchParams(rerank=rerank)) for rerank in (False, None))
    return [hit.score for hit in plain.hits] != [hit.score for hit in left_alone.hits]


def test_every_write_makes_them_and_a_deletion_takes_them(tmp_path, embedder):
    """Proves: STORE-2, STORE-6."""
    with MemoryStore.open(tmp_path / "store", embedder=embedder) as store:
        store.upsert(TURNS)
        first = rows(store)
        assert list(first) == ["m0", "m1", "m2"] and reranks(store)
        store.upsert([{**TURNS[1], "text": "The one at noon."}, {**TURNS[2], "label": "food"}])
        second = rows(store)
        assert first["m0"] == second["m0"] and first["m2"] == second["m2"]  # their own texts are the same
        assert first["m1"] != second["m1"]
        store.delete(["m1"])
        assert list(rows(store)) == ["m0", "m2"]


def test_a_reader_sees_the_tokens_and_neighbours_that_others_write(tmp_path, embedder):
    """Proves: STORE-3, COST-1."""
    with (
        MemoryStore.open(tmp_path / "store", embedder=embedder) as writer,
        MemoryStore.open(tmp_path / "store", embedder=embedder, read_only=True) as reader,
    ):
        writer.upsert(TURNS)
        m0, m1, m2 = (int(rowid) for rowid in reader.view(Scope()).rowids())

        def read():
            time.sleep(0.1)  # a shared store's readers follow within that time
            source = reader.token_source("default")
            packed = source.tokens([m0, m1, m2])
            return {row: tokens.values.tolist() for row, tokens in packed.items()}, source.neighbours([m0, m1, m2])

        before, links = read()
        assert read() == (before, links) and links == {m0: (None, m1), m1: (m0, m2), m2: (m1, None)}
        writer.upsert([{**TURNS[1], "text": "The one at noon, from the old harbour."}])
        after, same = read()
        assert same == links and after[m0] == before[m0] and after[m1] != before[m1]
        writer.delete(["m1"])
        assert read() == ({m0: before[m0], m2: before[m2]}, {m0: (None, m2), m2: (m0, None)})


def test_they_can_be_dropped_and_made_again(tmp_path, embedder):
    """Proves: SEARCH-9, STORE-5."""
    with MemoryStore.open(tmp_path / "store", embedder=embedder) as store:
        store.upsert(TURNS)
        whole = rows(store)
        store.maintenance.drop_token_vectors()
        store.upsert([{"id": "later", "kind": "fact", "text": "The ferry is late."}])
        assert rows(store) == {} and not reranks(store)
        seen = []
        assert store.maintenance.make_token_vectors(lambda done, total: seen.append((done, total))) == 4
        assert seen == [(4, 4)] and reranks(store)
        assert {key: rows(store)[key] for key in whole} == whole
        assert store.maintenance.make_token_vectors() == 0
    with (
        MemoryStore.open(tmp_path / "store", embedder=embedder, read_only=True) as reader,
        pytest.raises(StoreReadOnlyError),
    ):
        reader.maintenance.drop_token_vectors()


def test_another_embedder_makes_its_own_or_none(tmp_path, embedder):
    """Proves: STORE-5."""
    path = tmp_path / "store"
    with MemoryStore.open(path, embedder=WordHashEmbedder()) as store:
        store.upsert(TURNS)
        assert rows(store) == {}
        with pytest.raises(UnsupportedOptionError):
            store.maintenance.make_token_vectors()
        store.maintenance.rebuild(embedder=embedder)
        assert list(rows(store)) == ["m0", "m1", "m2"] and store.token_source("default").stored
    with MemoryStore.open(path, embedder=WordHashEmbedder(), re_embed=True) as store:
        assert rows(store) == {} and len(search(store, "ferry").hits) == 3
