"""The conversations that the shipped weights learned from can be read, and what ships learned from no other archive."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from recall_loop.evals.datasets.datasets import load_dataset
from tests.conftest import ROOT

WEIGHTS = ROOT / "benchmarks" / "weights"
SCRIPT = """people: N = Nora, A = Assistant
language: en

== 2024-03-02 19:40
1 N: I bought a clarinet.
2 A: Nice!\\nOf which make?

Q single@N 1 | What did I buy? | A clarinet
Q none | What did it cost? |
F 1 | Nora bought a clarinet.
"""


@pytest.fixture
def talk_set(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(WEIGHTS))
    import talk_set

    yield talk_set
    sys.modules.pop("talk_set", None)


def test_a_conversation_becomes_a_labelled_set(talk_set: Any, tmp_path: Path) -> None:
    """Proves: OPEN-2."""
    (tmp_path / "1.txt").write_text(SCRIPT, encoding="utf-8")
    counts = talk_set.write_layout(talk_set.read_scripts(tmp_path), tmp_path / "set")
    dataset = load_dataset(tmp_path / "set", "messages+facts")
    first, second, fact = dataset.collections["1"]
    assert counts == (2, 2, 1)
    assert (first.author, second.text, fact.source_ids) == ("Nora", "Nice!\nOf which make?", ("1:1",))
    assert [question.scored for question in dataset.questions] == [True, False]


def test_further_questions_are_left_out_of_what_the_embedder_learns_from(talk_set: Any, tmp_path: Path) -> None:
    """Proves: OPEN-2."""
    (tmp_path / "1.txt").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "asked").mkdir()
    (tmp_path / "asked" / "1.txt").write_text("Q single 1 | What did Nora buy? | A clarinet\n", encoding="utf-8")
    plain, further = (list(talk_set.read_scripts(tmp_path, asked=asked)) for asked in (False, True))
    assert [len(script.questions) for script in (*plain, *further)] == [2, 3]
    assert further[0].questions[2]["gold"] == ["1:1"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("3 X: Who am I?", "X"),
        ("5 N: I come too early.", "message 3 should stand here"),
        ("Q single | Which? | None", "no gold"),
        ("Q single 9 | Which? | None", "no message 9"),
        ("Well", "neither a message nor a question nor a fact"),
    ],
)
def test_a_wrong_line_is_reported_with_its_location(talk_set: Any, tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "1.txt").write_text(SCRIPT + line + "\n", encoding="utf-8")
    with pytest.raises(SystemExit, match=f"1.txt, line 11: .*{said}"):
        list(talk_set.read_scripts(tmp_path))


def test_the_conversations_of_the_project_are_whole(talk_set: Any, tmp_path: Path) -> None:
    """Proves: OPEN-2 (what the weights are made of is there)."""
    scripts = talk_set.read_scripts(talk_set.TALK, asked=True)
    messages, questions, facts = talk_set.write_layout(scripts, tmp_path / "set")
    dataset = load_dataset(tmp_path / "set", "messages")
    assert len(dataset.collections) >= 70 and messages > 11_000 and questions > 5_000 and facts > 2_400
    assert sum(not question.answerable for question in dataset.questions) > 1_500


def test_nothing_that_ships_learned_from_sets_for_evaluation() -> None:
    """Proves: OPEN-1."""
    files = [*(ROOT / "memory" / "search" / "rerank").glob("*.json"), *(ROOT / "policy").rglob("*.json")]
    learned = [json.loads(path.read_text(encoding="utf-8")).get("fitted_on") for path in files]
    assert sum(each is not None for each in learned) >= 4
    assert not re.search("locomo|beam|musique|hotpotqa", json.dumps(learned), re.IGNORECASE)
    calibration = json.loads((ROOT / "policy" / "confidence" / "default_calibration.json").read_text(encoding="utf-8"))
    assert not re.search("locomo|beam|musique|hotpotqa", json.dumps(calibration), re.IGNORECASE)


def test_every_learned_file_has_a_command_and_a_source() -> None:
    """Proves: OPEN-1, OPEN-2."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert all(f"\n{target}: " in makefile for target in ("weights", "reader", "order", "confidence", "corrections"))
    for name in (
        "minilm-talk.npz",
        "minilm-reader.npz",
        "order_short_turns.json",
        "order_long_turns.json",
        "default_calibration.json",
    ):
        assert name in notice, name
    assert "BY-NC" not in notice
