"""Searches in languages that the embedder doesn't know."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from recall_loop.memory.search.engine import search, search_many
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.types import SearchMode
from tests.embedders import WordHashEmbedder

SAID = ["我家的猫叫小黑。", "宋雅静早上开始快走计划。", "Our cat is called Blackie.", "Моего кота зовут Барсик."]


class _EnglishOnly(WordHashEmbedder):
    languages = frozenset({"en"})


@pytest.fixture
def store():
    with MemoryStore.in_memory(embedder=_EnglishOnly()) as made:
        made.upsert([{"id": f"r{n}", "kind": "archival", "text": text} for n, text in enumerate(SAID)])
        yield made


def test_words_decide_on_a_query_in_an_unknown_language(store):
    """Beside one that is understood; vectors fill up behind. Proves: OPEN-4, SEARCH-1."""
    chinese, english = search_many(store, ["快走计划是什么时候开始的？", "What is our cat called?"])
    assert chinese.hits[0].record.id == "r1" and len(chinese.hits) > 1
    assert chinese.hits[1].score < 0.5 * chinese.hits[0].score
    assert english.hits[0].record.id == "r2" and len(english.hits) > 1
    assert search(store, "Как зовут кота?").hits[0].record.id == "r3"


def test_a_chinese_word_is_found_by_its_characters(store):
    """Where a word ends is a guess, and words of one kind share a character. Proves: OPEN-4, SEARCH-1."""
    store.upsert([{"id": "dentist", "kind": "archival", "text": "我的牙医是陈医生。"}])
    store.upsert([{"id": "cat", "kind": "archival", "text": "邻居的猫叫小月。"}])
    assert search(store, "谁给我看牙？").hits[0].record.id == "dentist"
    assert {hit.record.id for hit in search(store, "我们的猫多大了？").hits[:2]} == {"r0", "cat"}


def test_vectors_decide_where_memory_has_hardly_a_word_of_the_query(store):
    """What no word finds is ranked as any other query is. Proves: OPEN-4, SEARCH-1."""
    with MemoryStore.in_memory() as made:
        made.upsert([{"id": "said", "kind": "message", "text": "Я езжу на работу на велосипеде."}])
        hit = search(made, "На чём я передвигаюсь?").hits[0]
    assert hit.alignment is not None


def test_the_mode_that_is_asked_for_runs(store):
    """Proves: OPEN-4, SEARCH-1."""
    for mode, legs in ((SearchMode.HYBRID, ("fts", "vector")), (SearchMode.VECTOR, ("vector",))):
        assert search(store, "小黑", params=SearchParams(mode=mode)).legs == legs
    assert search(store, "？", params=SearchParams()).legs == ("vector",)


def test_a_named_author_without_blanks_in_the_name_is_recognised(store):
    """Proves: OPEN-4, SEARCH-1."""
    said = [("宋雅静", "我去广州了。"), ("陈志强", "我去广州了。")]
    store.upsert(
        [{"id": f"m{n}", "kind": "message", "author": who, "text": text} for n, (who, text) in enumerate(said)]
    )
    for number, (who, _) in enumerate(said):
        assert search(store, f"{who}去了哪里？").hits[0].record.id == f"m{number}"


@pytest.mark.parametrize(
    "query",
    [
        "What did she buy on 9 May 2024?",
        "What did she buy two days ago?",
        "Was kaufte sie vor zwei Tagen, und wie viel?",
        "她2024年5月9日买了什么？",
        "Что она купила 9 мая 2024 года?",
    ],
)
def test_a_record_is_found_by_the_day_it_was_made(query):
    """Its text names no day, and doesn't show one. Proves: OPEN-4, SEARCH-10."""
    words = {"id": "what", "text": "She bought a lamp. Sie kaufte eine Lampe. 她买了一盏灯。 Она купила лампу."}
    days = ("2024-05-08", "2024-05-09", "2024-05-10", "2024-06-09")
    with MemoryStore.in_memory(embedder=_EnglishOnly()) as store:
        store.upsert([{**words, "id": f"r{day}", "kind": "archival", "created_at": f"{day}T12:00:00Z"} for day in days])
        params = SearchParams(reference_time=datetime(2024, 5, 11, 9, tzinfo=UTC), rerank=False)
        hits = search(store, query, params=params).hits
        assert hits[0].record.id == "r2024-05-09"
        assert hits[0].score > hits[1].score
        assert hits[0].similarity == hits[1].similarity, "it says nothing of what stands in the text"
        assert "t20240509" not in hits[0].record.text


@pytest.mark.parametrize(
    ("text", "query", "language"),
    [
        ("Ich vertrage keine Haselnüsse.", "Welche Nüsse darf ich nicht essen?", None),
        ("Donnerstags habe ich Chorprobe.", "Wann ist der Chor?", None),
        ("Sleutelkast in de gang.", "sleutel", "nl"),
        ("Zahnarzt am 12. März um 8:15", "Wann ist der Zahnarzttermin?", None),
        ("Der Schlüssel liegt im Schuppen.", "Wo ist der Kellerschlüssel?", None),
    ],
)
def test_a_word_finds_the_compounds_that_it_begins_or_ends(text, query, language):
    """And a compound the words that it begins or ends with. Proves: OPEN-4, SEARCH-1."""
    others = ["Morgen wird es regnen.", "Der Nussknacker ist ein Ballett.", "Wir fahren an die See."]
    with MemoryStore.in_memory(embedder=_EnglishOnly()) as store:
        store.upsert([{"id": f"o{at}", "kind": "archival", "text": other} for at, other in enumerate(others)])
        store.upsert([{"id": "said", "kind": "archival", "text": text, "language": language}])
        params = SearchParams(mode=SearchMode.FTS, language=language)
        assert search(store, query, params=params).hits[0].record.id == "said"


def test_compounds_are_those_of_rows_that_may_be_read():
    """Of another user's words nothing shows, and English has no compounds. Proves: GUARD-3, OPEN-4."""
    said = [("ines", "Der Ersatzschlüssel liegt im Schuppen."), ("paul", "Der Autoschlüssel liegt im Flur.")]
    with MemoryStore.in_memory(embedder=_EnglishOnly()) as store:
        store.upsert([{"id": who, "kind": "archival", "text": text, "user_id": who} for who, text in said])
        store.upsert([{"id": "boat", "kind": "archival", "text": "The houseboat leaks.", "user_id": "ines"}])
        words = SearchParams(mode=SearchMode.FTS)
        hits = search(store, "Wo liegt der Schlüssel?", scope=Scope(user_id="ines"), params=words).hits
        assert [hit.record.id for hit in hits] == ["ines"]
        assert not search(store, "Is that the boat?", scope=Scope(user_id="ines"), params=words).hits


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("OrderService.cancelOrder sends a mail.", "What does cancel order do?"),
        ("getUserByName ignores case.", "the get user by name function"),
        ("The potluck is at Ada's.", "Where is the pot luck?"),
    ],
)
def test_neighbouring_words_find_what_is_written_as_one(text, query):
    """Such as names in code. Proves: OPEN-4, SEARCH-1."""
    others = ["The order of the chapters is new.", "A user has one name.", "Luck is blind."]
    with MemoryStore.in_memory(embedder=_EnglishOnly()) as store:
        store.upsert([{"id": f"o{at}", "kind": "archival", "text": other} for at, other in enumerate(others)])
        store.upsert([{"id": "said", "kind": "archival", "text": text}])
        assert "said" in [hit.record.id for hit in search(store, query, params=SearchParams(mode=SearchMode.FTS)).hits]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("My therapist is kind.", "the rapist"),
        ("Row 110 is empty.", "release 1.10"),
        ("The houseboat leaks.", "boat house"),
    ],
)
def test_words_are_not_joined_with_stop_words_and_numbers(text, query):
    """Proves: OPEN-4, SEARCH-1."""
    with MemoryStore.in_memory(embedder=_EnglishOnly()) as store:
        store.upsert([{"id": "said", "kind": "archival", "text": text}])
        assert not search(store, query, params=SearchParams(mode=SearchMode.FTS)).hits
