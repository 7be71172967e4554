"""The final ranking, novelty, and the context block that is made of the result."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from recall_loop.policy.evidence.ranking import LACKING_DEPTH, new_facts, rank_entries, streak_without_gain
from recall_loop.policy.evidence.repeats import demote_duplicates
from recall_loop.policy.evidence.statements import states_something
from recall_loop.policy.prompting.briefing import render_memory_lines
from recall_loop.state.settings.settings import Settings
from recall_loop.text.time.time_expressions import parse_times
from recall_loop.text.words.snippets import estimate_tokens

NOW = datetime(2024, 6, 15, 12, tzinfo=UTC)
SETTINGS = Settings()
MINE = "How old is my cat?"
TODAY, YESTERDAY = parse_times("today", NOW), parse_times("yesterday", NOW)
WORDS = [
    "kettle",
    "garden",
    "violin",
    "harbour",
    "lantern",
    "meadow",
    "orchard",
    "pepper",
    "quarry",
    "ribbon",
    "saddle",
    "timber",
    "velvet",
    "willow",
]


def entry(name, relevance=0.5, sources=1, queries=1, iteration=1, text=None, similarity=0.7, days=None, **fields):
    """Return a pool entry whose text nobody else has, unless told otherwise."""
    record = {"id": name, "kind": "archival", "text": text or f"{name} stands alone with {name}", **fields}
    if days is not None:
        record["created_at"] = (NOW - timedelta(days=days)).isoformat()
    return {
        "key": f"key:{name}",
        "record": record,
        "window": "",
        "similarity": similarity,
        "relevance": relevance,
        "alignment": [],
        "said": [[name, None]],
        "matches": [
            {"query": f"q{at}", "score": relevance, "similarity": similarity, "iteration": iteration}
            for at in range(queries)
        ],
        "evidence": [],
        "evidence_keys": [f"{name}:{at}" for at in range(sources)],
        "first_iteration": iteration,
        "is_new": False,
        "legs": {},
    }


def returned(entries, settings=SETTINGS):
    """Return the ids in the order of a result, before the cut."""
    ranked = demote_duplicates(rank_entries(entries, settings, NOW), settings.duplicate_similarity)
    return [item.entry["record"]["id"] for item in ranked]


def score(found, settings=SETTINGS):
    return rank_entries([found], settings, NOW)[0].score


def test_the_score_stays_within_its_bounds():
    """Proves: RANK-3."""
    heavy = Settings(
        **{
            f"rank_{name}_weight": 1.0
            for name in ("reply", "time", "teller", "novelty", "recency", "diversity", "evidence")
        }
    )
    for settings in (SETTINGS, heavy):
        # The turn before it is a relevant question, and it is a user's, of the time that is asked about.
        asks = entry("q", 1.0, text="How old is it?", kind="message", author="Ada")
        most = entry(
            "a", 1.0, sources=50, queries=50, iteration=2, days=0, text="It is 3.", kind="message", role="user"
        )
        most["window"] = "Ada: How old is it?\nIt is 3."
        best = next(item for item in rank_entries([asks, most], settings, NOW, MINE, TODAY) if item.entry is most)
        assert 0.9 < best.score <= 1.0
        assert score(entry("a", 0.0), settings) == 0.0


def turn(name, text, relevance, window="", author="Ada"):
    """Return a message of the pool with its window."""
    return {**entry(name, relevance, text=text, kind="message", author=author), "window": window}


@pytest.mark.parametrize("text", ["What did you see?", "What did you see? Tell me!", "何を見た？"])
def test_the_answer_to_a_relevant_question_moves_up(text):
    """Proves: RANK-3. An answer seldom repeats the words of its question."""
    asks = turn("a1", text, 0.8)
    reply = turn("a2", "A heron.", 0.40, f"Ada: {text}\nBen: A heron.\nAda: Nice", author="Ben")
    other = turn("a3", "Soup.", 0.45, "Ada: I cook.\nBen: Soup.", author="Ben")
    assert returned([asks, reply, other]) == ["a1", "a2", "a3"]
    assert returned([asks, reply, other], Settings(rank_reply_weight=0.0)) == ["a1", "a3", "a2"]
    helper = {**reply, "record": {**reply["record"], "role": "assistant"}}
    assert returned([asks, helper, other]) == ["a1", "a3", "a2"], "who asks an assistant tells of himself"
    stated = turn("a1", "I like rivers.", 0.8)
    reply["window"] = "Ada: I like rivers.\nBen: A heron."
    assert returned([stated, reply, other]) == ["a1", "a3", "a2"], "the turn before asks nothing"


def test_a_reply_counts_only_after_its_own_question():
    """Proves: RANK-3. The line after the question is meant, not any text that holds the same words."""
    asks = turn("a1", "Ready?", 0.9)
    later = turn("a2", "Yes", 0.3, "Ben: Yes or no\nBen: Yes\nAda: Ready?", author="Ben")
    parts = {
        item.entry["record"]["id"]: item.components["reply"] for item in rank_entries([asks, later], SETTINGS, NOW)
    }
    assert parts == {"a1": 0.0, "a2": 0.0}


@pytest.mark.parametrize(
    "then",
    [
        {"text": "It was lovely.", "days": 400},
        {"text": "It was lovely.", "days": 399},
        {"text": "On May 12, 2023 it was lovely.", "days": 100},
        {"text": "Three days ago it was lovely.", "days": 397},
    ],
)
def test_what_is_of_the_time_asked_about_moves_up(then):
    """Proves: RANK-3 (made then, soon after, or telling of then)."""
    asked = parse_times("12 May 2023", NOW)
    of_then, other = entry("a1", 0.47, **then), entry("a2", 0.53, text="It was fine.", days=390)
    for settings, times, best in (
        (SETTINGS, asked, "a1"),
        (SETTINGS, (), "a2"),
        (Settings(rank_time_weight=0.0), asked, "a2"),
    ):
        assert rank_entries([of_then, other], settings, NOW, times=times)[0].entry["record"]["id"] == best


@pytest.mark.parametrize(("question", "best"), [("When does my lease end?", "a1"), ("What did you suggest?", "a2")])
def test_turns_of_whoever_has_said_it_move_up(question, best):
    """Proves: RANK-3."""
    mine = entry("a1", 0.50, text="It ends in May.", kind="message", role="user")
    yours = entry("a2", 0.50, text="I suggest a lawyer.", kind="message", role="assistant")
    note = entry("a3", 0.51, text="Leases have an end.")
    for weight, first in ((SETTINGS.rank_teller_weight, best), (0.0, "a3")):
        settings = Settings(rank_teller_weight=weight)
        assert rank_entries([note, mine, yours], settings, NOW, question)[0].entry["record"]["id"] == first


def test_every_component_is_reported():
    """Proves: RANK-5."""
    asks = turn("q", "How many?", 0.5)
    most = entry("a", 0.5, sources=3, queries=4, iteration=2, days=1, kind="message", text="It was 3.", role="user")
    most["window"] = "Ada: How many?\nIt was 3."
    item = next(item for item in rank_entries([asks, most], SETTINGS, NOW, MINE, YESTERDAY) if item.entry is most)
    names = {"relevance", "reply", "time", "teller", "novelty", "recency", "diversity", "evidence"}
    assert set(item.components) == names | {"reference"}  # which is for titled records: test_policy_titles.py
    assert all(item.components[name] > 0 for name in names)
    assert item.components["relevance"] == 0.5


@pytest.mark.parametrize(
    "better",
    [
        {"sources": 3},
        {"queries": 3},
        {"days": 1},
        {"iteration": 2},
        {"relevance": 0.6},
    ],
)
def test_each_component_raises_the_score(better):
    """Proves: RANK-3."""
    assert score(entry("a", **better)) > score(entry("a"))


def test_the_weights_come_from_the_settings():
    """Proves: RANK-3."""
    names = ("reply", "reference", "time", "teller", "novelty", "recency", "diversity", "evidence")
    none = Settings(**{f"rank_{name}_weight": 0.0 for name in names})
    assert score(entry("a", 0.5, sources=9, queries=9, iteration=2, days=0), none) == 0.5


def test_what_lacks_the_kind_of_answer_falls_behind_and_only_it():
    """Proves: RANK-3."""
    pool = [entry("near", relevance=0.5), entry("dated", relevance=0.48), entry("far", relevance=0.2)]
    plain = {item.id: item.score for item in rank_entries(pool, SETTINGS, NOW)}
    ranked = rank_entries(pool, SETTINGS, NOW, answers=lambda each: each["record"]["id"] == "dated")
    assert [item.id for item in ranked] == ["dated", "near", "far"]
    assert ranked[0].score == plain["dated"] and "lacking" not in ranked[0].components
    assert ranked[1].components["lacking"] == -SETTINGS.rank_lacking_weight
    assert ranked[1].score == pytest.approx(plain["near"] - SETTINGS.rank_lacking_weight / 1.42, abs=1e-5)


def test_what_is_not_looked_at_stays_behind_what_lacks_the_kind():
    """Proves: RANK-3."""
    pool = [entry(f"e{at:02}", relevance=0.6 - at / 1000) for at in range(LACKING_DEPTH + 5)]
    plain = [item.id for item in rank_entries(pool, SETTINGS, NOW)]
    ranked = rank_entries(pool, SETTINGS, NOW, answers=lambda _: False)
    assert [item.id for item in ranked[:LACKING_DEPTH]] == plain[:LACKING_DEPTH]
    assert ["lacking" in item.components for item in ranked] == [True] * LACKING_DEPTH + [False] * 5


def test_recency_halves_with_the_half_life():
    """Proves: RANK-3."""
    settings = Settings(rank_recency_half_life_days=30.0, rank_recency_weight=1.0)
    at = {days: rank_entries([entry("a", days=days)], settings, NOW)[0].components["recency"] for days in (0, 30, 60)}
    assert at[0] == 1.0
    assert at[30] == pytest.approx(0.5) and at[60] == pytest.approx(0.25)


def test_recency_counts_from_the_reference_time():
    """Proves: LOOP-9, RANK-3."""
    found = entry("a", days=0)
    earlier, later = (rank_entries([found], SETTINGS, NOW + timedelta(days=days))[0].score for days in (0, 400))
    assert earlier > later


def test_a_record_of_the_future_or_without_time_gets_no_more_than_one_of_today():
    """Proves: RANK-3."""
    assert score(entry("a", days=-400)) == score(entry("a", days=0))
    assert score(entry("a")) < score(entry("a", days=0))


def test_several_independent_sources_rank_above_one_weak_source():
    """Proves: RANK-4."""
    assert returned([entry("weak", 0.5), entry("strong", 0.5, sources=3)]) == ["strong", "weak"]
    assert returned([entry("weak", 0.49), entry("strong", 0.5, sources=3)]) == ["strong", "weak"]


def test_the_same_source_twice_is_one_source():
    """Proves: RANK-4."""
    found = entry("a", sources=1)
    assert score({**found, "evidence_keys": found["evidence_keys"] * 3}) == score(found)


def test_a_duplicate_never_crowds_out_a_novel_fact():
    """Proves: RANK-3, RANK-4."""
    copper = "Ruth owns the copper kettle from the flea market in Lisbon"
    entries = [
        entry("first", 0.9, text=copper),
        *(entry(f"copy{at}", 0.8, text=f"{copper}{'!' * at}") for at in range(5)),
        entry("novel", 0.2),
    ]
    order = returned(entries)
    assert order[:2] == ["first", "novel"]
    assert sorted(order) == sorted(item["record"]["id"] for item in entries)


def test_records_that_share_some_words_are_no_duplicates():
    """Proves: RANK-3."""
    assert (
        returned(
            [entry("a", 0.9, text="Ruth owns a kettle"), entry("b", 0.8, text="Ruth sold a kettle"), entry("c", 0.1)]
        )[1]
        == "b"
    )


def test_diversifying_loses_and_scores_nothing_anew():
    """Proves: RANK-3."""
    ranked = rank_entries([entry(f"e{at}", at / 10, text=WORDS[at % 3]) for at in range(9)], SETTINGS, NOW)
    for threshold in (0.0, 0.5, 1.0):
        found = demote_duplicates(ranked, threshold)
        flags = [item.near_duplicate for item in found]
        assert flags == sorted(flags)
        plain = [replace(item, near_duplicate=False) for item in found]
        assert sorted(plain, key=ranked.index) == ranked


def test_a_later_novel_fact_is_not_cut_because_it_came_later():
    """The origin cut in the order of retrieval. Proves: RANK-4."""
    early = [entry(f"early{at:02}", 0.4) for at in range(40)]
    assert returned([*early, entry("late", 0.5, iteration=7)])[0] == "late"


def test_the_order_of_insertion_changes_nothing():
    """Proves: RANK-3, RANK-4, LOOP-9."""
    entries = [
        entry(f"e{at}", relevance=(at % 4) / 5, sources=1 + at % 3, queries=1 + at % 2, iteration=1 + at % 3, text=text)
        for at, text in enumerate(f"{WORDS[at % 7]} {WORDS[at % 5]} {WORDS[at % 3]}" for at in range(25))
    ]
    expected = returned(entries)
    for seed in range(5):
        assert returned(random.Random(seed).sample(entries, len(entries))) == expected


def test_ranking_an_empty_pool_gives_nothing():
    """Proves: RANK-3."""
    assert rank_entries([], SETTINGS, NOW) == [] and demote_duplicates([], 0.9) == []


# Novelty


def novel(entries, iteration=2, most=2, supports=None, before=frozenset(), least=0.35):
    ranked = rank_entries(entries, SETTINGS, NOW)
    return new_facts(
        ranked,
        iteration,
        most=most,
        least_similarity=least,
        usual_similarity=0.35,
        states=states_something,
        supports=supports or (lambda found: set()),
        covered_before=before,
    )


def test_a_fact_among_the_best_is_new_in_the_iteration_that_found_it():
    """Proves: STOP-1."""
    entries = [entry("old", 0.9), entry("new", 0.8, iteration=2)]
    assert novel(entries) == {"key:new"}
    assert novel(entries, iteration=3) == frozenset()


def test_what_was_seen_too_dissimilar_to_count_is_new_once_it_counts():
    """Proves: STOP-1, LOOP-6 (by another spelling, or where a refinement lowers the threshold)."""
    before = {"query": "qiust", "source": "phrase", "iteration": 1, "score": 0.3, "similarity": 0.3}
    found = entry("quist", 0.8, similarity=0.8)
    spelt = {**found, "matches": [before, {**before, "query": "quist", "iteration": 2, "similarity": 0.8}]}
    assert novel([spelt]) == {"key:quist"}
    assert novel([{**spelt, "is_new": True}], iteration=3) == frozenset()
    assert novel([{**spelt, "matches": [{**before, "similarity": 0.4}]}]) == frozenset()
    near = {**entry("near", 0.3, similarity=0.3), "matches": [before]}
    assert novel([near]) == frozenset()
    assert novel([near], least=0.28) == {"key:near"}


def test_something_unseen_and_dissimilar_is_not_new():
    """A vector search always returns something unseen. Proves: STOP-1."""
    assert novel([entry("far", 0.9, iteration=2, similarity=0.34)]) == frozenset()
    assert novel([entry("near", 0.9, iteration=2, similarity=0.35)]) == {"key:near"}


def test_an_unseen_fact_below_the_cut_is_not_new():
    """Proves: STOP-1."""
    entries = [entry("a", 0.9), entry("b", 0.8), entry("late", 0.1, iteration=2)]
    assert novel(entries) == frozenset()
    assert novel(entries, most=3) == {"key:late"}


def test_a_fact_below_the_cut_is_new_if_it_raises_the_coverage():
    """Proves: STOP-1."""
    entries = [entry("a", 0.9), entry("b", 0.8), entry("late", 0.1, iteration=2)]
    supports = lambda found: {1} if found["record"]["id"] == "late" else {0}  # noqa: E731
    assert novel(entries, supports=supports, before=frozenset({0})) == {"key:late"}
    assert novel(entries, supports=supports, before=frozenset({0, 1})) == frozenset()


def test_the_streak_counts_iterations_without_gain_in_a_row():
    """Proves: STOP-1, STOP-2."""
    assert streak_without_gain(0, 0, 1) == 1
    assert streak_without_gain(1, 0, 1) == 2
    assert streak_without_gain(2, 1, 1) == 0
    assert streak_without_gain(2, 2, 3) == 3


# Context block

NOTHING = frozenset()


def test_lines_are_cited_by_the_records_id():
    """Proves: LOOP-10."""
    (line,) = render_memory_lines([entry("f1", text="Ruth owns a kettle", author="Ruth", days=1)], 100, NOTHING)
    assert line.startswith("[f1] ") and line.endswith("Ruth owns a kettle")
    assert "2024-06-14" in line and "Ruth" in line


@pytest.mark.parametrize("budget", [0, 1, 5, 20, 60, 200])
def test_lines_keep_to_the_budget(budget):
    """Proves: LOOP-10."""
    entries = [entry(f"f{at}", text=" ".join(WORDS)) for at in range(20)]
    lines = render_memory_lines(entries, budget, NOTHING)
    assert estimate_tokens("\n".join(lines)) <= budget
    assert [line.split()[0] for line in lines] == [f"[f{at}]" for at in range(len(lines))]


@pytest.mark.parametrize("word", ["kettle ", "чайник ", "壶"])
def test_a_first_fact_that_is_too_long_is_cut_and_not_dropped(word):
    """Proves: LOOP-10, SEARCH-8."""
    lines = render_memory_lines([entry("f1", text=word * 400)], 60, NOTHING)
    assert len(lines) == 1
    assert estimate_tokens(lines[0]) <= 60 and word.strip() in lines[0]


def test_a_long_fact_is_cut_so_that_what_is_behind_it_has_room():
    """Proves: LOOP-10, SEARCH-8 (a pasted letter among short statements, at the start and in the middle)."""
    letter = entry("letter", text="Dear Ms Brandt, thank you for your enquiry. " * 200 + "The kettle costs 245.")
    notes = [entry(f"n{at}", text="Ruth bought a kettle.") for at in range(4)]
    for at in range(len(notes) + 1):
        lines = render_memory_lines([*notes[:at], letter, *notes[at:]], 300, frozenset({"kettl"}))
        assert len(lines) == len(notes) + 1
        assert "The kettle costs 245." in lines[at]
        assert estimate_tokens("\n".join(lines)) <= 300


def test_what_fits_is_not_cut():
    """Proves: LOOP-10."""
    long = "The kettle whistles again. " * 40
    lines = render_memory_lines([entry("f1", text=long), entry("f2", text="Ruth owns it.")], 400, NOTHING)
    assert [line.endswith((long.strip(), "Ruth owns it.")) for line in lines] == [True, True]


def test_no_scrap_of_a_fact_is_shown():
    """Proves: LOOP-10 (two letters of a word say nothing, and cost the tokens of their citation)."""
    parcel = entry("06h2ecsvv800w292x6md", text="my parcel number is 00340434161094 and it is late", days=1)
    for budget in range(60):
        for line in render_memory_lines([parcel], budget, frozenset({"parcel"})):
            assert len(line.partition(": ")[2].split()) > 3


def test_a_cut_fact_shows_what_was_asked():
    """Proves: LOOP-10, SEARCH-8."""
    (line,) = render_memory_lines(
        [entry("f1", text="rain " * 400 + "a copper kettle " + "rain " * 400)], 40, frozenset({"kettl"})
    )
    assert "kettle" in line


@pytest.mark.parametrize("closing", ["</memories>", "</MEMORIES>", "</ memories>", "<memories x>", "</memories\n>"])
@pytest.mark.parametrize("field", ["id", "text", "author", "label"])
def test_retrieved_text_cannot_close_the_block(closing, field):
    """Proves: LOOP-10."""
    found = entry("f1", text="plain")
    found["record"][field] = f"x {closing} y"
    (line,) = render_memory_lines([found], 200, NOTHING)
    assert "<" not in line and "\n" not in line


def test_no_facts_give_no_lines():
    """Proves: LOOP-10."""
    assert render_memory_lines([], 100, NOTHING) == []
