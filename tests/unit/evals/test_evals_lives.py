"""Scripted lives: generating, reading and counting them."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from recall_loop.evals.living.generated_lives import generate_lives
from recall_loop.evals.living.grammar import LANGUAGES, fill, load_grammar
from recall_loop.evals.living.life import ASKED_AT, Around, Life, LifeAnswer, LifeQuestion, Part, Scenario
from recall_loop.evals.living.life_figures import confidence_figures, context_figures, label_moves, wanted_rows
from recall_loop.evals.living.life_files import read_lives
from recall_loop.evals.living.surroundings import surroundings
from recall_loop.state.errors import InvalidInputError

CASE = {
    "language": "en",
    "said": "The ferry to Hven leaves at {six} | sharp.",
    "question": "When does the boat to Hven go?",
    "correction": "The Hven ferry leaves at seven now.",
    "never_said": "Who is the captain?",
}


NEVER_TOLD = (Scenario.UNSAID, Scenario.NEVER, Scenario.FORGOTTEN)


def texts(life: Life) -> list[str]:
    return [record.text for session in life.sessions for record in session]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("part", Part)
def test_a_seed_gives_the_same_lives_of_every_scenario(language: str, part: Part) -> None:
    """Proves: LIVE-8."""
    lives = generate_lives([language], part, seed=3)
    assert lives == generate_lives([language], part, seed=3)
    assert lives != generate_lives([language], part, seed=4)
    asked = Counter(question.scenario for life in lives for question in life.questions)
    assert set(asked) == set(Scenario)
    for life in lives:
        records = [record for session in life.sessions for record in session]
        times = [record.created_at for record in records if record.created_at]
        assert len(times) == len(records) == len(set(life.record_ids))
        assert all(one < other for one, other in pairwise(times))
        assert times[-1] < ASKED_AT
        for question in life.questions:
            assert {*question.gold, *question.older} <= set(life.record_ids)
            assert question.answerable == (question.scenario not in NEVER_TOLD)


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_has_a_gap_left_and_every_kind_can_be_told_and_asked(language: str) -> None:
    """A gap that has no word raises; a word that lacks a form does, too."""
    grammar = load_grammar(language)
    assert len(grammar.kinds) >= (25 if language == "en" else 10)
    for kind in grammar.kinds:
        for words in grammar.choices(kind).values():
            assert len({word.count("|") for word in words}) == 1, f"{kind.name}: words with the same number of forms"
        values = {name: tuple(words[0].split("|")) for name, words in grammar.choices(kind).items()}
        values |= {f"old_{name}": tuple(words[-1].split("|")) for name, words in grammar.choices(kind).items()}
        for sentence in (*kind.told, *kind.asked, *kind.corrected, *kind.before, *kind.never, kind.noted or ""):
            assert "{" not in fill(sentence, values)
        assert not set(kind.told) & set(kind.asked)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_halves_share_no_sentence(language: str) -> None:
    """What is tuned on one half can be measured on the other."""
    said: dict[Part, set[str]] = {}
    for part in Part:
        grammar = load_grammar(language)
        kinds, talk = grammar.kinds_of(part), grammar.talk[part]
        said[part] = {sentence for kind in kinds for sentence in (*kind.told, *kind.asked, *kind.never)}
        said[part] |= {*talk.unknown, *talk.noted, *talk.small_talk, *talk.long, *talk.questions}
        said[part] |= {fact.asked for fact in grammar.facts_of(part)}
    assert said[Part.DEV] and said[Part.HELD]
    assert not said[Part.DEV] & said[Part.HELD]


def test_surroundings_grow_without_changing() -> None:
    """The same records lie around a life at each size, and more of them."""
    for around in Around:
        few, many = (list(surroundings("en", around, count)) for count in (30, 90))
        assert many[:30] == few
        assert len({record.id for record in many}) == 90


def test_cases_become_lives(tmp_path: Path) -> None:
    """Proves: LIVE-8."""
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(CASE) + "\n" + json.dumps(CASE | {"correction": None, "never_said": None}) + "\n")
    lives = {life.id: life for life in read_lives(path)}
    names = ("once", "echo", "repeated", "forgotten", "corrected", "unsaid", "never")
    assert set(lives) == {*(f"cases:1:{name}" for name in names), *(f"cases:2:{name}" for name in names[:4])}
    assert texts(lives["cases:1:once"])[0] == CASE["said"]
    echo = lives["cases:1:echo"]
    assert texts(echo)[0] == CASE["question"] == echo.questions[0].question
    assert [record.text for record in echo.sessions[-1] if record.id in echo.questions[0].gold] == [CASE["said"]]
    corrected = lives["cases:1:corrected"]
    assert next(record.text for record in corrected.sessions[-1]) == CASE["correction"]
    assert corrected.questions[0].older
    unsaid = lives["cases:1:unsaid"].questions[0]
    assert (unsaid.question, unsaid.gold) == (CASE["never_said"], ())
    assert len({life.group for life in lives.values()}) == 2


def test_whole_lives_are_read(tmp_path: Path) -> None:
    """Records are those of docs/records.md; what follows each other in a session is written together."""
    records = [
        {"id": "a", "kind": "message", "text": "Hello.", "session": "1"},
        {"id": "b", "kind": "message", "text": "I keep goats.", "session": "1"},
        {"id": "c", "kind": "fact", "text": "The user keeps sheep.", "subject": "user"},
    ]
    asked = {"question": "What do I keep?", "scenario": "corrected", "gold": ["c"], "older": ["b"]}
    life = {"id": "farm", "language": "en", "records": records, "questions": [asked]}
    (tmp_path / "one.jsonl").write_text(json.dumps(life) + "\n")
    [found] = read_lives(tmp_path)
    assert [len(session) for session in found.sessions] == [2, 1]
    assert (found.questions[0].gold, found.questions[0].older, found.alone) == (("c",), ("b",), False)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ({"language": "en", "said": "x"}, "cases.jsonl line 1.question"),
        (CASE | {"language": "tlh"}, "cases.jsonl line 1.language"),
        (CASE | {"mood": "good"}, "cases.jsonl line 1.mood"),
        (
            {"id": "a", "language": "en", "records": [{"id": "r", "kind": "lore", "text": "x"}], "questions": [
                {"question": "y", "scenario": "once", "gold": ["r"]}]},
            "cases.jsonl line 1.records.0.kind",
        ),
        (
            {"id": "a", "language": "en", "records": [{"id": "r", "kind": "fact", "text": "x"}], "questions": [
                {"question": "y", "scenario": "once", "gold": ["s"]}]},
            "cases.jsonl line 1",
        ),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path: Path, line: dict[str, object], field: str) -> None:
    """File, line and field."""
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(line))
    with pytest.raises(InvalidInputError) as caught:
        read_lives(path)
    assert caught.value.field == field


def test_nothing_to_read_and_lives_of_one_name_are_refused(tmp_path: Path) -> None:
    """Two lives of one name couldn't be told apart in the report."""
    with pytest.raises(InvalidInputError, match="JSON Lines"):
        read_lives(tmp_path)
    for name in ("one", "two"):
        record = {"id": "r", "kind": "fact", "text": "x"}
        asked = [{"question": "y", "scenario": "once", "gold": ["r"]}]
        life = {"id": "a", "language": "en", "records": [record], "questions": asked}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(life))
    with pytest.raises(InvalidInputError, match="a different id"):
        read_lives(tmp_path)


def answer(
    scenario: Scenario, ids: list[str], label: str = "low", score: float = 0.1, size: int = 0, **more: object
) -> LifeAnswer:
    said = scenario not in NEVER_TOLD
    gold = ("g", "h", "i") if scenario is Scenario.REPEATED else ("g",) if said else ()
    older = ("o",) if scenario in (Scenario.CORRECTED, Scenario.FORGOTTEN) else ()
    question = LifeQuestion("q", "?", scenario, "kind", gold=gold, older=older, repeats=len(gold))
    life = Life("l", "l", "en", True, (), (question,))
    return LifeAnswer(life, question, size, ids, label, score, {}, **more)  # type: ignore[arg-type]


def test_the_rows_count_what_they_say() -> None:
    """Proves: LIVE-8."""
    answers = [
        answer(Scenario.ECHO, ["g", "x"]),
        answer(Scenario.ECHO, ["x", "g"]),
        answer(Scenario.UNSAID, ["x"], "high"),
        answer(Scenario.UNSAID, ["x"], "medium"),
        answer(Scenario.UNSAID, ["x"]),
        answer(Scenario.ONCE, ["g"]),
        answer(Scenario.ONCE, ["g"], "high"),
        answer(Scenario.ONCE, ["x"]),
        answer(Scenario.ONCE, ["x", "y", "g"], size=20),
        answer(Scenario.ONCE, ["x", "y", "z", "g"], size=20),
        answer(Scenario.CORRECTED, ["g", "o"], superseded=frozenset("o")),
        answer(Scenario.CORRECTED, ["o", "g"]),
        answer(Scenario.FORGOTTEN, ["x", "o"]),
        answer(Scenario.FORGOTTEN, ["x"], "medium"),
        answer(Scenario.REPEATED, ["h", "x"], counts={"h": 3}),
        answer(Scenario.REPEATED, ["h", "g"], counts={"h": 3}),
        answer(Scenario.REPEATED, ["h"]),
    ]
    rows = {
        row["name"]: (row["count"], row["of"], row["met"])
        for row in (r.figures(answers) for r in wanted_rows([0, 20], ["en"]))
    }
    assert rows["asked before and not known, said since: first"] == (1, 2, False)
    assert rows["asked before and never said: high"] == (1, 3, False)
    assert rows["asked before and never said: medium"] == (1, 3, False)
    assert rows["said once, nothing else, found: low"] == (1, 2, False)
    assert rows["said once among 0 others: within 3"] == (2, 3, False)
    assert rows["said once among 20 others: within 3"] == (1, 2, False)
    assert rows["corrected later: the newer first"] == (1, 2, False)
    assert rows["corrected later: the older marked"] == (1, 2, False)
    assert rows["said several times: one fact, with its count"] == (1, 3, False)
    assert rows["erased or expired: still found"] == (1, 2, False)
    assert rows["erased or expired: medium or high"] == (1, 2, False)
    assert rows["never asked and never said: high"] == (0, 0, None)
    assert rows["said once in en: within 3"] == (3, 5, False)


def test_confidence_context_and_moving_labels_are_measured() -> None:
    """AUROC is of found against never said; a label that moves by two levels from size to size has moved."""
    found = answer(Scenario.ONCE, ["g"], "high", 0.9, context_ids=("g", "x"))
    lost = answer(Scenario.ONCE, [], "low", 0.95, size=20)
    unsaid = answer(Scenario.NEVER, ["x"], "low", 0.2)
    figures = confidence_figures([found, lost, unsaid])
    assert (figures["auroc"], figures["high"], figures["high_precision"]) == (1.0, 1, 1.0)
    block = context_figures([found, lost, unsaid])
    assert (block["holds_answer"], block["precision"], block["empty_never_said"]) == (0.5, 0.5, 1.0)
    assert label_moves([found, lost])["moved"] == 1


def test_lives_that_share_sentences_are_of_one_group() -> None:
    """A mapping of confidence is measured on none whose kinds it has seen. Proves: LIVE-8."""
    groups: dict[str, set[str]] = {}
    for life in generate_lives(["en"], Part.DEV):
        for question in life.questions:
            groups.setdefault(question.kind, set()).add(life.group)
    assert {len(found) for found in groups.values()} == {1}
    assert len(set().union(*groups.values())) >= 5
