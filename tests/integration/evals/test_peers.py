"""The comparison with other memories: what the runner hands to a peer, and what it makes of the answer."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.unit.evals.public_formats import write_dataset

PEERS = ROOT / "benchmarks" / "peers"
# Ranks by shared words, and fails where it isn't given a vector for every text.
WORDS = f"""
import sys
sys.path.insert(0, {str(PEERS)!r})
from protocol import serve

class Words:
    def __init__(self, folder, vectors):
        self.texts = {{}}

    def add(self, collection, ids, texts, vectors):
        assert all(len(vector) == 384 for vector in vectors)
        self.texts[collection] = dict(zip(ids, texts))

    def ask(self, collection, text, vector, k):
        assert len(vector) == 384
        asked, texts = set(text.lower().strip("?").split()), self.texts[collection]
        return sorted(texts, key=lambda name: -len(asked & set(texts[name].lower().split())))[:k]

sys.exit(serve(Words, ["numpy"]))
"""


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The runner with one peer, in the interpreter of the tests: nothing is installed."""
    monkeypatch.syspath_prepend(str(PEERS))
    import run

    script = tmp_path / "words.py"
    script.write_text(WORDS, encoding="utf-8")
    monkeypatch.setitem(run.PEERS, run.RECALL_LOOP, run.PeerSpec(str(script)))
    yield run
    for name in ("run", "protocol"):
        sys.modules.pop(name, None)


def test_a_peer_is_measured(runner: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts with their speaker, vectors for all, recall over questions with gold, embedding charged.

    Proves: OPS-4.
    """
    path, out = write_dataset("locomo", tmp_path / "set"), tmp_path / "report.json"
    assert runner.main(["--data", str(path), "--peers", "recall-loop", "--json", str(out)]) == 0
    report = json.loads(out.read_text(encoding="utf-8"))
    (row,) = report["peers"]
    assert report["questions"] == 1
    assert row["recall@5"] == row["mrr"] == 1.0
    assert set(row["versions"]) == {"numpy"}
    assert row["latency_ms"]["p50"] >= report["embedding"]["query_ms"] - 0.01
    assert 0 < row["documents_per_second"] <= report["embedding"]["documents_per_second"] + 0.1
    assert "recall-loop" in capsys.readouterr().out


def test_peers_that_embed_for_themselves_are_charged_nothing(
    runner: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is embedded for them, and no figure of embedding is made up.

    Proves: OPS-4.
    """
    script = Path(runner.PEERS[runner.RECALL_LOOP].script)
    script.write_text(WORDS.replace("len(vector) == 384", "True").replace("in vectors)", "in ())"), encoding="utf-8")
    monkeypatch.setitem(runner.PEERS, runner.RECALL_LOOP, runner.PeerSpec(str(script), vectors=False))
    path, out = write_dataset("locomo", tmp_path / "set"), tmp_path / "report.json"
    assert runner.main(["--data", str(path), "--peers", "recall-loop", "--json", str(out)]) == 0
    assert json.loads(out.read_text(encoding="utf-8"))["embedding"] is None
    shown = capsys.readouterr().out
    assert "recall-loop" in shown and "query embedding" not in shown


def test_what_goes_wrong_is_told(runner: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown peer, and one that breaks: told, and nothing made up.

    Proves: OPS-4.
    """
    path = write_dataset("locomo", tmp_path / "set")
    assert runner.main(["--data", str(path), "--peers", "magic"]) == 2
    assert "peers: got 'magic'" in capsys.readouterr().err
    (tmp_path / "words.py").write_text("raise SystemExit('no such library')", encoding="utf-8")
    assert runner.main(["--data", str(path), "--peers", "recall-loop"]) == 1
    assert "no such library" in capsys.readouterr().err
