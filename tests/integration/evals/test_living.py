"""Lives through the real store and the real graph, and through the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recall_loop.cli.main import main
from recall_loop.evals.confidence.calibration_examples import read_examples
from recall_loop.evals.living.life import Life, Scenario
from recall_loop.evals.living.life_files import read_lives
from recall_loop.evals.living.life_runner import LivingOptions, run_lives
from recall_loop.evals.runs.dataset_ingest import open_eval_store
from recall_loop.evals.runs.prompts import COMPLETE_CUT
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings

CASES = [
    {
        "language": "en",
        "said": "Our goat is called Ludmilla.",
        "question": "What's the name of our goat?",
        "correction": "We renamed the goat, she's Tamara now.",
        "never_said": "How much milk does the goat give?",
    }
]


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    """One case in English."""
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in CASES), encoding="utf-8")
    return path


@pytest.fixture
def lives(cases: Path) -> list[Life]:
    """Its lives."""
    return read_lives(cases)


def test_each_life_is_alone_with_what_lies_around(lives: list[Life]) -> None:
    """Proves: LIVE-8."""
    with MemoryStore.in_memory() as store:
        answers = list(run_lives(lives, LivingOptions(sizes=(20, 0)), store, settings=Settings()))
        assert [answer.size for answer in answers] == [0] * len(lives) + [20] * len(lives)
        assert store.count(Scope(tenant="lives-en-messages")) == 20
    names = {life.id: set(life.record_ids) for life in lives}
    for answer in answers:
        seen = {name for name in answer.ids if not name.startswith("around:")}
        assert seen <= names[answer.life.id]
        if not answer.size:
            assert set(answer.ids) <= names[answer.life.id]
        assert set(answer.context_ids) <= {*answer.ids, *seen}
    assert all(answer.older_rank is None for answer in answers if answer.question.scenario is Scenario.FORGOTTEN)
    once = next(answer for answer in answers if answer.question.scenario is Scenario.ONCE)
    assert once.rank == 1


def test_a_store_that_holds_lives_already_is_refused(lives: list[Life]) -> None:
    """Their records would be found, too."""
    with MemoryStore.in_memory() as store:
        options = LivingOptions(sizes=(3,))
        list(run_lives(lives[:1], options, store, settings=Settings()))
        with pytest.raises(InvalidInputError, match="without this tenant"):
            list(run_lives(lives[:1], options, store, settings=Settings()))


@pytest.mark.parametrize("sizes", [(), (-1,), (100_001,)])
def test_sizes_out_of_range_are_refused(sizes: tuple[int, ...]) -> None:
    """0 to 100,000."""
    with pytest.raises(InvalidInputError, match="sizes"):
        LivingOptions(sizes=sizes)


def test_the_command_reports_and_its_lines_are_examples(
    cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: LIVE-8, CONF-4."""
    lines = tmp_path / "lines.jsonl"
    command = ["eval", "--format", "living", "--data", str(cases), "--sizes", "0,5", "--per-question", str(lines)]
    assert main([*command, "--json"]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (report["lives"], report["asked"], report["sizes"]) == (7, 14, [0, 5])
    assert report["groups"]["language"]["en"]["questions"] == 14
    assert {row["name"] for row in report["rows"]} >= {"corrected later: the newer first"}
    written = read_examples(lines)
    with open_eval_store(None, Settings()) as store:
        asked = list(run_lives(read_lives(cases), LivingOptions(sizes=(0, 5)), store, settings=Settings()))
    assert [(each.id, each.complete, each.answerable) for each in written] == [
        (f"{one.question.id}@{one.size}", one.within(COMPLETE_CUT), one.question.answerable) for one in asked
    ]
    assert {each.origin for each in written} == {"lives among 0", "lives among 5"}


def test_the_command_generates_lives_and_shows_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Without `--data`; the halves and the languages are options."""
    command = ["eval", "--format", "living", "--part", "held", "--languages", "en", "--limit", "3", "--sizes", "0"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "part held: 3 lives" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "living", "--kinds", "facts"], "--kinds"),
        (["--format", "living", "--k", "3"], "--k"),
        (["--format", "living", "--languages", "tlh"], "languages"),
        (["--data", "here", "--part", "held"], "--part"),
        ([], "--data"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each with one line that names it."""
    assert main(["eval", *options]) == 2
    assert message in capsys.readouterr().err


def test_real_conversations_count_what_is_taken_for_corrected(
    cases: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A share of facts; a data set with too few messages to lie around is refused."""
    talk = tmp_path / "talk"
    (talk / "turns").mkdir(parents=True)
    turns = [
        {"id": f"t{number}", "kind": "message", "session": 1, "speaker": "Ada", "text": text}
        for number, text in enumerate(["I repaired the clock.", "The soup needs salt."])
    ]
    (talk / "turns" / "a.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    asked = {"id": "q", "collection": "talk", "question": "What did Ada repair?", "gold": ["t0"]}
    (talk / "questions.jsonl").write_text(json.dumps(asked))
    command = ["eval", "--format", "living", "--data", str(cases), "--sizes", "2", "--limit", "1"]
    assert main([*command, "--around", str(talk), "--conversations", str(talk), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["around"], found["conversations"]["facts"], found["conversations"]["marked"]) == ("talk", 2, 0)
    assert main(["eval", "--format", "living", "--data", str(cases), "--sizes", "3", "--around", str(talk)]) == 2
