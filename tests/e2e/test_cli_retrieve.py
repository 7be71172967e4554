"""`recall-loop retrieve` over a real store and the real graph."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from recall_loop.cli.main import main
from recall_loop.state.result import RetrieveResult

RECORDS = [
    {"id": "f1", "kind": "fact", "text": "The ferry to Ulvey leaves at nine.", "subject": "ferry"},
    {"id": "m1", "kind": "message", "text": "I took the ferry to Ulvey.", "author": "Ada", "role": "user"},
    {"id": "m2", "kind": "message", "text": "The ferry was late.", "author": "Bo", "role": "assistant"},
    {"id": "t1", "kind": "trajectory", "text": "Task: book the ferry. It worked."},
    {"id": "n1", "kind": "archival", "text": "Bakery hours.", "label": "Bakery", "tags": ["food", "town"]},
]
QUESTION = "When does the ferry to Ulvey leave?"


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    assert main(["ingest", str(path), "--store", str(tmp_path / "s"), "--tenant", "acme"]) == 0
    capsys.readouterr()
    monkeypatch.setenv("RECALL_LOOP_STORE_PATH", str(tmp_path / "s"))
    monkeypatch.setenv("RECALL_LOOP_TENANT", "acme")
    return tmp_path


def ask(capsys: pytest.CaptureFixture[str], *options: str) -> RetrieveResult:
    assert main(["retrieve", *options, "--json"]) == 0
    return RetrieveResult.model_validate_json(capsys.readouterr().out)


def ids(result: RetrieveResult) -> set[str]:
    return {fact.id for fact in result.facts}


def test_an_answer_for_people(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: OPS-1, STOP-2."""
    assert main(["retrieve", QUESTION]) == 0
    text = capsys.readouterr().out
    assert "The ferry to Ulvey leaves at nine." in text
    assert "Stopped after" in text
    assert "Confidence" in text
    assert "Iteration" not in text
    assert main(["retrieve", QUESTION, "--stream"]) == 0
    assert "Iteration 1" in capsys.readouterr().out


def test_a_question_is_read_from_standard_input(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: OPS-1, SEARCH-2 (nothing to read is an error)."""
    monkeypatch.setattr("sys.stdin", io.StringIO(QUESTION + "\n"))
    assert ask(capsys, "-").facts[0].id == "f1"
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    assert main(["retrieve", "-"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_options_reach_the_request(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: SEARCH-3, STORE-3."""
    assert ask(capsys, QUESTION).facts[0].id == "f1"
    assert ids(ask(capsys, QUESTION, "--tenant", "other")) == set()
    assert ids(ask(capsys, QUESTION, "--types", "trajectory")) == {"t1"}
    assert ids(ask(capsys, QUESTION, "--filter", "role=user")) == {"m1"}
    assert ids(ask(capsys, "bakery", "--filter", "tags=food", "--filter", "tags=town")) == {"n1"}
    assert len(ask(capsys, QUESTION, "--max-facts", "1").facts) == 1
    assert ask(capsys, QUESTION, "--conversation", "none").stop.reason == "nothing_in_scope"
    timed = ask(capsys, QUESTION, "--reference-time", "2024-05-01T09:30:00Z", "--max-iterations", "1")
    assert timed.reference_time.isoformat() == "2024-05-01T09:30:00+00:00"
    assert timed.stop.iteration <= 1
    assert ask(capsys, QUESTION, "--debug").facts[0].debug is not None


def test_a_window_of_messages_comes_before_the_question(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: QUERY-1, OPS-1."""
    window = [
        {"role": "user", "content": "Tell me about the ferry to Ulvey."},
        {"role": "user", "content": "ok"},
    ]
    as_list, as_lines = place / "w.json", place / "w.jsonl"
    as_list.write_text(json.dumps({"messages": window}), encoding="utf-8")
    as_lines.write_text("".join(json.dumps(message) + "\n" for message in window), encoding="utf-8")
    for path in (as_list, as_lines):
        assert "f1" in ids(ask(capsys, "When does it leave?", "--messages", str(path)))
        assert "f1" in ids(ask(capsys, "--messages", str(path)))
    as_lines.write_text("{}\n{\n", encoding="utf-8")
    assert main(["retrieve", "--messages", str(as_lines)]) == 2
    assert "line 2" in capsys.readouterr().err


def test_json_stream_gives_events_then_the_result(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: OPS-1."""
    assert main(["retrieve", QUESTION, "--json", "--stream"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["type"] == "queries_planned"
    assert lines[-2]["type"] == "stopped"
    assert "f1" in ids(RetrieveResult.model_validate(lines[-1]))


def test_the_store_is_only_read(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STORE-4."""
    from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
    from recall_loop.memory.store.store import MemoryStore

    with MemoryStore.open(place / "s", embedder=MiniLmEmbedder()):
        assert ask(capsys, QUESTION).facts[0].id == "f1"


def test_a_path_without_a_store_is_named(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: SEARCH-2."""
    for verb in ("retrieve", "search"):
        assert main([verb, QUESTION, "--store", str(place / "misspelt")]) == 2
        assert f"{place / 'misspelt'}: no store there" in capsys.readouterr().err
    assert not (place / "misspelt").exists()


def test_conditions_have_the_options_of_search(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: OPS-1, SEARCH-3 (each as its filter, which it doesn't go with)."""
    for option, value, key in (
        ("--role", "user", "role"),
        ("--tag", "food", "tags"),
        ("--end-time", "2020-01-01", "end_time"),
    ):
        assert ids(ask(capsys, QUESTION, option, value)) == ids(ask(capsys, QUESTION, "--filter", f"{key}={value}"))
    assert ids(ask(capsys, QUESTION, "--role", "user")) == {"m1"}
    times = ("--start-time", "2020-01-01", "--end-time", "2019-01-01")
    assert main(["retrieve", QUESTION, *times]) == 2
    assert "filters.start_time: got '2020-01-01T00:00:00+00:00'" in capsys.readouterr().err
    assert main(["retrieve", QUESTION, "--start-time", "2020-01-01", "--filter", "start_time=2021-01-01"]) == 2
    assert "one value" in capsys.readouterr().err


def test_a_question_that_is_missing_or_blank_is_named_as_the_argument(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: OPS-1 (not by a field of the request; no store is told of in Python's words)."""
    monkeypatch.setattr("sys.stdin", io.StringIO(" \r\n"))
    for words, said in ((["  "], "QUESTION: got ' '"), (["-"], "QUESTION: got ' '"), ([], "QUESTION: got nothing")):
        assert main(["retrieve", *words]) == 2
        assert said in capsys.readouterr().err
    monkeypatch.delenv("RECALL_LOOP_STORE_PATH")
    assert main(["retrieve", QUESTION]) == 2
    assert "--store: got nothing; allowed: the path of a folder" in capsys.readouterr().err
