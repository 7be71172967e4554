"""Names in code and versions are found by their words alone, however they are spelt."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from recall_loop import MemoryStore, search
from recall_loop.state.search import SearchParams
from recall_loop.state.types import SearchMode

SAID = {
    "camel": "parseConfig is slow.",
    "pascal": "ParseConfig is fast.",
    "snake": "parse_config is old.",
    "words": "To parse a config takes long: parse config twice.",
    "config": "The config is new.",
    "new": "Release v1.10 is out.",
    "plain": "Release 1.10 is late.",
    "first": "Release 1.1 is old.",
}
WORDS = SearchParams(mode=SearchMode.FTS, limit=4)


@pytest.fixture(scope="module")
def store() -> Iterator[MemoryStore]:
    with MemoryStore.in_memory() as made:
        made.upsert([{"id": name, "kind": "archival", "text": text} for name, text in SAID.items()])
        yield made


@pytest.mark.parametrize("query", ["parseConfig", "ParseConfig", "parse_config", "parse config"])
def test_all_spellings_of_a_name_find_one_another(store: MemoryStore, query: str) -> None:
    """Before what has a word of it. Proves: OPEN-4, SEARCH-1."""
    hits = search(store, query, params=WORDS).hits
    assert {hit.record.id for hit in hits} == {"camel", "pascal", "snake", "words"}


@pytest.mark.parametrize("query", ["v1.10", "1.10", "V1.10"])
def test_a_version_is_found_with_and_without_its_letter(store: MemoryStore, query: str) -> None:
    """Proves: OPEN-4, SEARCH-1."""
    assert {hit.record.id for hit in search(store, query, params=WORDS).hits[:2]} == {"new", "plain"}
