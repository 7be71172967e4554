"""What the command line logs, and in which form (OPS-3)."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from recall_loop.cli.main import main
from recall_loop.memory.store.store import MemoryStore

QUESTION = "When does the ferry leave?"


@pytest.fixture(scope="module")
def store(embedder, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "memory"
    with MemoryStore.open(path, embedder=embedder) as opened:
        opened.upsert([{"id": "n1", "kind": "archival", "text": "The ferry leaves at nine."}])
    return path


def ask(store: Path, *words: str) -> int:
    return main(["retrieve", QUESTION, "--store", str(store), "--json", *words])


def test_nothing_is_logged_unless_asked_for(store, capsys):
    """Proves: OPS-3 (and main leaves the process's logging as it was)."""
    before = list(logging.getLogger().handlers)
    assert ask(store) == 0
    assert capsys.readouterr().err == ""
    assert logging.getLogger().handlers == before and logging.getLogger("recall_loop").level == logging.NOTSET


def test_a_run_is_one_line_of_json(store, capsys, monkeypatch):
    """Proves: OPS-3, OPS-7 (options go before variables; no word of the question)."""
    monkeypatch.setenv("RECALL_LOOP_LOG_LEVEL", "error")
    assert ask(store, "--log-level", "info", "--log-format", "json") == 0
    said = capsys.readouterr()
    result, lines = json.loads(said.out), [json.loads(line) for line in said.err.splitlines()]
    (line,) = [line for line in lines if line["logger"] == "recall_loop.run"]
    assert (line["event"], line["request_id"]) == ("run finished", result["request_id"])
    assert line["stop_reason"] == result["stop"]["reason"]
    assert line["queries_executed"] == result["metadata"]["queries_executed"]
    assert "ferry" not in said.err


def test_a_run_is_one_line_to_read(store, capsys, monkeypatch):
    """Proves: OPS-3."""
    monkeypatch.setenv("RECALL_LOOP_LOG_LEVEL", "info")
    monkeypatch.setenv("RECALL_LOOP_TRACE_CONTENT", "true")
    assert ask(store) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "[recall_loop.run]" in line]
    assert " info    run finished " in line and f"question={json.dumps(QUESTION)}" in line


def test_a_wrong_value_is_reported_in_one_line(store, capsys, monkeypatch):
    """Proves: OPS-3, STOP-4."""
    assert ask(store, "--log-format", "xml") == 2
    monkeypatch.setenv("RECALL_LOOP_LOG_LEVEL", "loud")
    assert ask(store) == 2
    assert "RECALL_LOOP_LOG_LEVEL: got 'loud'; allowed: one of debug, info, warning, error" in capsys.readouterr().err
