"""Properties that hold for any text."""

import random
import string
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from recall_loop.policy.evidence.pool_entries import fact_key
from recall_loop.state.records.records import Fact
from recall_loop.text.names.proper_names import find_entities, find_noun_phrases, find_organizations, find_people
from recall_loop.text.time.stated_times import says_when
from recall_loop.text.time.time_expressions import parse_times, render_time, split_time_suffix
from recall_loop.text.time.time_rules import NUMBERED_RULES, WORDED_RULES
from recall_loop.text.time.time_rules import TIME_WORDS as TIME_PARTS
from recall_loop.text.words.folding import fold, normalise
from recall_loop.text.words.related_terms import related_terms
from recall_loop.text.words.snippets import ELLIPSIS, best_snippet, estimate_tokens, fit_to_budget
from recall_loop.text.words.tokens import content_words, jaccard, query_terms, stems, text_language, words

TIME_FORMS = """the last next this in May March 7th 31 2023 0 99 week month year weekend Friday days ago
before after a few two summer of , - / . yesterday < > 3-5 old q4 1990s"""
SENTENCE_PARTS = """Ann Zoltan went to the Red Cross of Dr. U.S. iPhone GPT-4 "quoted title' & I it's did , .
: and NASA's"""
TIME_WORDS = st.sampled_from(TIME_FORMS.split())
SENTENCES = st.lists(st.sampled_from([*SENTENCE_PARTS.split(), "\n"]), max_size=25).map(" ".join)
TEXTS = st.one_of(st.text(max_size=200), SENTENCES, st.lists(TIME_WORDS, max_size=12).map(" ".join))
MOMENTS = st.datetimes(timezones=st.just(UTC))


@given(TEXTS)
def test_no_text_raises(text: str) -> None:
    """Every function takes any text. Proves: QUERY-1, LOOP-9."""
    for function in (
        stems,
        content_words,
        find_entities,
        find_noun_phrases,
        find_people,
        find_organizations,
        says_when,
        related_terms,
    ):
        function(text)
    assert estimate_tokens(text) >= 0
    if text.strip() and "\x00" not in text:
        assert fact_key(Fact(id="x", text=text))


@given(TEXTS)
def test_words_are_plain_and_stable(text: str) -> None:
    """Words hold no punctuation, and folding twice changes nothing. Proves: QUERY-3."""
    found = words(text)
    assert all(word and not set(word) & set(string.punctuation + string.whitespace) for word in found)
    assert fold(fold(text)) == fold(text)
    assert set(content_words(text)) <= set(found)


@given(st.text(alphabet="ab cCnte#f+.,'`0123_-\n/!", max_size=40))
def test_ascii_text_is_cut_by_the_rules_for_any_text(text: str) -> None:
    """Proves: QUERY-3. A sign of another script makes the general pattern read the same words."""
    assert words(text) == words(f"{text} \u4e2d")[:-1]


@given(TEXTS)
def test_normalise_is_idempotent(text: str) -> None:
    """Normalised text is its own normal form. Proves: RANK-1."""
    once = normalise(text)
    assert normalise(once) == once
    assert normalise(text.upper().lower()) == normalise(text.lower())


@given(TEXTS, st.randoms(use_true_random=False))
def test_query_terms_ignore_order_space_punctuation_and_stop_words(text: str, chance: random.Random) -> None:
    """Trivial reformulations share one key. Proves: LOOP-4."""
    found = words(text)
    key = query_terms(text)
    shuffled = chance.sample(found, len(found))
    assert found == [] or query_terms(" !  ".join(shuffled)) == key
    assert query_terms(f" {text}\t") == key
    if stems(text) and text_language(text) == "en":
        assert query_terms(f"the {text} and of") == key


@given(st.frozensets(st.sampled_from("abcdef")), st.frozensets(st.sampled_from("abcdef")))
def test_overlap_is_a_symmetric_share(a: frozenset[str], b: frozenset[str]) -> None:
    """Overlap lies in [0,1], and is 1 for equal sets alone. Proves: LOOP-4."""
    assert 0 <= jaccard(a, b) == jaccard(b, a) <= 1
    assert (jaccard(a, b) == 1) == (a == b and bool(a))


@settings(max_examples=200)
@given(TEXTS, MOMENTS)
def test_times_are_ranges_in_order(text: str, moment: datetime) -> None:
    """A time starts before it ends, is written in the text, and can be asked for. Proves: SEARCH-10."""
    at = 0
    for found in parse_times(text, moment):
        assert found.start < found.end
        assert found.start.tzinfo is UTC
        at = text.index(found.text, at) + len(found.text)
        assert 1 <= len(render_time(found)) <= 4


@given(TEXTS)
def test_rules_that_are_passed_over_match_nothing(text: str) -> None:
    """Worded rules match only texts with a time word, numbered ones only digits. Proves: SEARCH-10."""
    if any(pattern.search(text) for pattern, _ in WORDED_RULES):
        assert any(word in text.lower() for word in TIME_PARTS)
    if any(pattern.search(text) for pattern, _ in NUMBERED_RULES):
        assert any(letter.isdecimal() for letter in text)


@given(
    TEXTS,
    st.integers(0, 5000),
    st.sampled_from(["<", ">"]),
    st.sampled_from(["hour", "day", "week", "month", "year"]),
)
def test_suffix_is_split_off(text: str, count: int, sign: str, unit: str) -> None:
    """A suffix leaves the text before it, and its range is never empty. Proves: SEARCH-10."""
    now = datetime(2024, 2, 29, tzinfo=UTC)
    rest, span = split_time_suffix(f"{text} {sign} {count} {unit}s", now)
    assert span is not None
    assert text.startswith(rest)
    if span.start and span.end:
        assert span.start < span.end
    assert split_time_suffix(f'"{text} {sign} {count} {unit}s"', now)[1] is None


@given(TEXTS, TEXTS, st.integers(-1, 80))
def test_snippet_is_a_part_within_the_limit(text: str, query: str, limit: int) -> None:
    """A snippet is part of the text, never longer than the limit, cut at words. Proves: SEARCH-8."""
    shown = best_snippet(text, query_terms(query), limit)
    assert len(shown) <= max(limit, 0) or (limit < 1 and shown == "")
    if len(text.strip()) <= limit:
        assert shown == text.strip()
    elif ELLIPSIS not in text:
        assert shown.strip(ELLIPSIS) in text


@given(st.lists(st.sampled_from(["ab", "cde", "fghi"]), min_size=5, max_size=60), st.integers(6, 60))
def test_snippet_of_short_words_is_cut_between_them(parts: list[str], limit: int) -> None:
    """Words that fit the window are never cut. Proves: SEARCH-8."""
    shown = best_snippet(" ".join(parts), ["cde"], limit)
    assert set(shown.strip(ELLIPSIS).split()) <= set(parts)
    assert "cde" in shown or "cde" not in parts


@given(st.lists(TEXTS, max_size=8), st.integers(0, 200))
def test_fit_keeps_a_head_within_the_budget(texts: list[str], budget: int) -> None:
    """What fits is the longest head of the ranking within the budget. Proves: LOOP-10."""
    kept = fit_to_budget(texts, budget)
    assert kept == texts[: len(kept)]
    assert sum(map(estimate_tokens, kept)) <= budget
    assert len(kept) == len(texts) or len(fit_to_budget(texts, 10**9)) == len(texts)
