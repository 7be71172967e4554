"""A plugin of pytest: LangGraph's tests of its stores get `RecallLoopStore` by the names of theirs.

Left out are tests of something else than the behaviour of a `BaseStore`, each with the reason. A name that their tests
don't have any more is an error, and so is a run that never made one of our stores.
"""

import os
from contextlib import asynccontextmanager, contextmanager

import numpy as np
import pytest

from recall_loop import MemoryStore, RecallLoopStore

OPENED = []
PACKAGE = os.environ["STORE_TESTS_OF"]
LEFT_OUT = {
    "langgraph-checkpoint": {
        "test_dedupe_ops_maps_repeated_reads_and_puts_to_one_op": "a function of AsyncBatchedBaseStore",
        "test_async_batch_store": "AsyncBatchedBaseStore over a store that is made up",
        "test_async_batch_store_handles_cancellation": "AsyncBatchedBaseStore over a store that is made up",
        "test_get_text_at_path": "a function of langgraph.store.base",
        "test_get_text_at_path_with_non_dict_mapping": "a function of langgraph.store.base",
        "test_validate_op_namespace_rejects_invalid_labels": "a function of langgraph.store.base",
        "test_validate_op_namespace_allows_empty_prefix_and_wildcards": "a function of langgraph.store.base",
    },
    "langgraph-checkpoint-sqlite": {
        "test_nonnull_migrations": "SQL of SqliteStore",
        "test_escape_glob_literal": "SQL of SqliteStore",
        "test_namespace_match_pattern": "SQL of SqliteStore",
        "test_list_namespaces_prefix_uses_indexable_condition": "SQL of SqliteStore",
        "test_sql_injection_vulnerability": "wants SqliteStore's refusal of a name; here any name is only compared",
        "test_filter_keys_with_hyphens_and_digits": "dotted paths in filters, which only SqliteStore has",
        "test_vector_store_initialization": "wants the tables of SqliteStore",
        "test_ttl_override_default": "wants SqliteStore's default for reads, not PostgresStore's",
        "test_scores": "wants the bare cosine; here a score is a similarity that counts words too",
    },
}[PACKAGE]


class CharacterEmbedder:
    """Embeddings of LangChain as the embedder of a store."""

    def __init__(self, embeddings, dimension):
        self._embeddings, self.dimension = embeddings, dimension
        self.name = self.fingerprint = f"characters:{dimension}"

    def _matrix(self, rows):
        return np.asarray(rows, dtype=np.float32).reshape(len(rows), self.dimension)

    def embed_documents(self, texts):
        return self._matrix(self._embeddings.embed_documents(list(texts)))

    def embed_queries(self, texts):
        return self._matrix([self._embeddings.embed_query(text) for text in texts])


class NoEmbedder(CharacterEmbedder):
    """The embedder of stores that are made without an index: every text has the same vector."""

    def __init__(self):
        super().__init__(None, 4)

    def embed_documents(self, texts):
        return self._matrix([[0.5] * 4] * len(texts))

    embed_queries = embed_documents


class StandIn(RecallLoopStore):
    """A store of ours in memory, made as theirs are."""

    def __init__(self, *, index=None, ttl=None):
        embedder = CharacterEmbedder(index["embed"], index["dims"]) if index else NoEmbedder()
        self.memory = MemoryStore.in_memory(embedder=embedder)
        OPENED.append(self.memory)
        known = {name: value for name, value in (index or {}).items() if name in ("dims", "embed", "fields")}
        if (index or {}).get("text_fields"):
            known["fields"] = index["text_fields"]
        super().__init__(self.memory, index=known if index else None, ttl=ttl)

    def setup(self):
        pass

    # Their tests watch these two, which must therefore stand in the class itself.
    def batch(self, ops):
        return super().batch(ops)

    async def abatch(self, ops):
        return await super().abatch(ops)

    @classmethod
    @contextmanager
    def from_conn_string(cls, _, *, index=None, ttl=None):
        store = cls(index=index, ttl=ttl)
        yield store
        store.stop_ttl_sweeper()


class AsyncStandIn:
    """The same, where the methods that AsyncSqliteStore has beyond those of a `BaseStore` have to be awaited."""

    def __init__(self, store):
        self._store = store

    def __getattr__(self, name):
        return getattr(self._store, name)

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, _, *, index=None, ttl=None):
        with StandIn.from_conn_string(_, index=index, ttl=ttl) as store:
            yield cls(store)

    async def setup(self):
        pass

    async def sweep_ttl(self):
        return self._store.sweep_ttl()

    async def start_ttl_sweeper(self):
        return self._store.start_ttl_sweeper()

    async def stop_ttl_sweeper(self):
        return self._store.stop_ttl_sweeper()


NAMES = {"InMemoryStore": StandIn, "SqliteStore": StandIn, "AsyncSqliteStore": AsyncStandIn}


def pytest_collection_modifyitems(config, items):
    stale = LEFT_OUT.keys() - {item.originalname for item in items}
    if stale:
        raise pytest.UsageError(f"left out, but not among their tests: {', '.join(sorted(stale))}")
    for item in items:
        for name in NAMES.keys() & vars(item.module).keys():
            setattr(item.module, name, NAMES[name])
    config.hook.pytest_deselected(items=[item for item in items if item.originalname in LEFT_OUT])
    items[:] = [item for item in items if item.originalname not in LEFT_OUT]


def pytest_runtest_teardown():
    while OPENED:
        OPENED.pop().close()
        COUNTS["stores"] += 1


COUNTS = {"stores": 0}


def pytest_sessionfinish(session):
    if not COUNTS["stores"]:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter):
    terminalreporter.section("left out")
    for name, reason in LEFT_OUT.items():
        terminalreporter.line(f"{name}: {reason}")
    terminalreporter.line(f"{COUNTS['stores']} stores of ours were made")
