"""Requests of a replay: files, logs, labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recall_loop.evals.replay.replay_policies import read_requests
from recall_loop.evals.runs.prompts import draw_sample
from recall_loop.state.errors import InvalidInputError

ASK = {"messages": [{"content": "Who sells bread?"}]}


def lines(path: Path, *items: Any) -> Path:
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items), encoding="utf-8")
    return path


def test_requests_with_labels(tmp_path: Path) -> None:
    """Proves: OPS-4."""
    file = lines(
        tmp_path / "r.jsonl",
        ASK,
        {**ASK, "id": "b", "tenant": "acme", "gold": ["x", "y"], "category": "two", "max_facts": 7},
        {**ASK, "id": "c", "answerable": False, "gold": ["x"]},
    )
    plain, labelled, unanswerable = read_requests(file, "mine")
    assert (plain.request.id, plain.request.tenant, plain.scored, plain.complete(["x"])) == (
        "line-1",
        "mine",
        False,
        None,
    )
    assert (labelled.request.tenant, labelled.request.max_facts, labelled.category) == ("acme", 7, "two")
    assert (labelled.complete(["y", "x"]), labelled.complete(["y"])) == (True, False)
    assert (unanswerable.scored, unanswerable.complete(["x"])) == (False, False)


def test_a_line_of_a_log(tmp_path: Path) -> None:
    """The request stands under `request`; what else a log line says is left unread.

    Proves: OPS-4.
    """
    file = lines(
        tmp_path / "log.jsonl", {"time": "2024-05-01", "request": {**ASK, "id": "q"}, "result": {}, "gold": ["x"]}
    )
    (prompt,) = read_requests(file, "mine")
    assert (prompt.request.id, prompt.gold) == ("q", ("x",))


def test_labels_in_a_file_of_their_own(tmp_path: Path) -> None:
    """Proves: OPS-4."""
    file = lines(tmp_path / "r.jsonl", {**ASK, "id": "a"}, {**ASK, "id": "b", "gold": ["x"]})
    gold = lines(tmp_path / "gold.jsonl", {"id": "a", "gold": ["y"], "category": "one"})
    first, second = read_requests(file, "mine", gold)
    assert (first.gold, first.category, second.gold) == (("y",), "one", ("x",))
    for bad in ([{"id": "z", "gold": []}], [{"id": "a"}, {"id": "a"}]):
        with pytest.raises(InvalidInputError, match="the id of a request, once"):
            read_requests(file, "mine", lines(gold, *bad))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "at least one request"),
        ("{", "r.jsonl line 1"),
        ('{"messages": []}', "r.jsonl line 1.messages"),
        (json.dumps({**ASK, "max_fact": 3}), "r.jsonl line 1.max_fact"),
        (json.dumps({**ASK, "gold": "x"}), "r.jsonl line 1.gold"),
        (json.dumps({"request": 3}), "r.jsonl line 1.request"),
    ],
)
def test_bad_requests_are_named(tmp_path: Path, content: str, words: str) -> None:
    """Proves: OPS-4."""
    (tmp_path / "r.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=words):
        read_requests(tmp_path / "r.jsonl", "mine")


def test_a_draw_keeps_the_order(tmp_path: Path) -> None:
    """Proves: OPS-4."""
    prompts = read_requests(lines(tmp_path / "r.jsonl", *({**ASK, "id": f"{at:02}"} for at in range(20))), "mine")
    drawn = [prompt.request.id for prompt in draw_sample(prompts, 5, 1)]
    assert len(drawn) == 5
    assert drawn == sorted(drawn, key=str)
    assert drawn == [prompt.request.id for prompt in draw_sample(prompts, 5, 1)]
    assert draw_sample(prompts, None, 1) == draw_sample(prompts, 20, 1) == prompts
