"""Settings beside an open store: what they state of it and it hasn't is an error (API-1, SEARCH-2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from recall_loop import AsyncMemory, InvalidInputError, Memory, MemoryStore, RetentionRule, Settings
from tests.embedders import WordHashEmbedder

RULES = (RetentionRule(older_than_days=3),)
OTHER: list[tuple[dict[str, Any], str]] = [
    ({"history_days": 0}, r"history_days: got 0; allowed: 9, as the store is open"),
    ({"retention": ()}, r"retention: got \(\); allowed: \(RetentionRule"),
    ({"indexed_attributes": ["colour"]}, r"indexed_attributes: got \('colour',\); allowed: \('room', 'size'\)"),
    ({"embedder": "minilm"}, r"embedder: got 'minilm'; allowed: none together with a store, .*: word-hash"),
]


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    paths = ["size", "room"]
    embedder = WordHashEmbedder()
    with MemoryStore.in_memory(embedder=embedder, history_days=9, retention=RULES, indexed_attributes=paths) as opened:
        yield opened


@pytest.mark.parametrize(("stated", "words"), OTHER)
async def test_another_option_of_the_store_is_an_error(store: MemoryStore, stated: dict[str, Any], words: str) -> None:
    """Proves: API-1, SEARCH-2."""
    with pytest.raises(InvalidInputError, match=words):
        Memory(store=store, settings=Settings(**stated))
    with pytest.raises(InvalidInputError, match=words):
        await AsyncMemory(store=store, settings=Settings(**stated)).memory()


def test_the_stores_own_options_and_those_of_runs_are_taken(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: API-1 (the environment is for stores that are opened by it)."""
    own = Settings(history_days=9, retention=RULES, indexed_attributes=["room", "size"], max_facts=3)
    assert Memory(store=store, settings=own).settings is own
    monkeypatch.setenv("RECALL_LOOP_HISTORY_DAYS", "4")
    monkeypatch.setenv("RECALL_LOOP_EMBEDDER", "minilm")
    assert Memory(store=store, settings=Settings(max_facts=3)).settings.history_days == 4
    assert Memory(store=store).settings.embedder == "minilm"
    with pytest.raises(InvalidInputError, match="history_days: got 5"):
        Memory(store=store, settings=Settings(history_days=5))


def test_settings_that_opened_the_store_are_taken_with_it() -> None:
    """Proves: API-1 (also where an embedder was given in place of theirs)."""
    settings = Settings(history_days=2, embedder="minilm")
    with MemoryStore.in_memory_from_settings(settings, embedder=WordHashEmbedder()) as store:
        assert Memory(store=store, settings=Settings(history_days=2, embedder="minilm")).store is store
