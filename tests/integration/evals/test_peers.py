"""The comparison with other memories: the runner's requests to a peer, and how it evaluates the answers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from recall_loop.evals.runs.prompts import ReplayPrompt
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.request import ChatMessage, RetrieveRequest
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
        self.texts.setdefault(collection, {{}}).update(zip(ids, texts))

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
    for name in ("run", "jobs", "figures", "protocol"):
        sys.modules.pop(name, None)


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def test_a_peer_is_measured(runner: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Texts with their speaker, vectors for all, recall over questions with gold, embedding charged.

    Proves: OPS-4.
    """
    path, out = write_dataset("locomo", tmp_path / "set"), tmp_path / "report.json"
    assert runner.main(["--data", str(path), "--peers", "recall-loop", "--json", str(out)]) == 0
    (found,) = read(out)["sets"]
    (row,) = found["peers"]
    assert found["questions"] == 1
    assert row["recall@10"] == row["mrr"] == row["any@10"] == row["gold_in_context"] == 1.0
    assert set(row["versions"]) == {"numpy"}
    assert row["latency_ms"]["p50"] >= found["embedding"]["query_ms"] - 0.01
    assert 0 < row["documents_per_second"] <= found["embedding"]["documents_per_second"] + 0.1
    assert read(out)["machine"]["cores"] > 0
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
    assert read(out)["sets"][0]["embedding"] is None
    shown = capsys.readouterr().out
    assert "recall-loop" in shown and "query embedding" not in shown


LATER: dict[str, Any] = {
    "id": "s/3",
    "collection": "s",
    "kind": "message",
    "session": "second",
    "timestamp": "2025-03-01T09:05:00",
    "speaker": "Ada",
    "text": "The ferry leaves at ten from now on.",
}
EARLIER = [
    LATER | {"id": "s/1", "session": "first", "text": "The ferry leaves at nine.", "timestamp": "2025-02-01"},
    LATER | {"id": "s/2", "session": "first", "text": "Bread is sold at the harbour.", "timestamp": "2025-02-01"},
]


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    """A set whose first question was asked before the third document was written."""
    folder = tmp_path / "diary"
    (folder / "turns").mkdir(parents=True)
    asked = {"collection": "s", "question": "When does the ferry leave?", "category": "one"}
    questions = [
        asked | {"id": "now", "gold": ["s/3"]},
        asked | {"id": "then", "gold": ["s/1"], "before": "s/2", "gold_groups": [["s/1", "s/2"]]},
    ]
    for path, rows in {"turns/s.jsonl": [*EARLIER, LATER], "questions.jsonl": questions}.items():
        (folder / path).write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return folder


def test_a_question_sees_earlier_documents(
    runner: Any, diary: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every peer alike: the store holds as much as the question may see, and the rest only afterwards.

    Proves: OPS-4.
    """
    seen = tmp_path / "seen.txt"
    tell = f"print(len(self.texts[collection]), file=open({str(seen)!r}, 'a')); asked, texts ="
    script = Path(runner.PEERS[runner.RECALL_LOOP].script)
    script.write_text(WORDS.replace("asked, texts =", tell), encoding="utf-8")
    out = tmp_path / "report.json"
    assert runner.main(["--data", str(diary), "--peers", "recall-loop", "--json", str(out)]) == 0
    assert seen.read_text(encoding="utf-8").split() == ["2", "3"]
    assert read(out)["sets"][0]["peers"][0]["recall@5"] == 1.0


def test_the_session_index_takes_the_documents_of_the_best_sessions(
    runner: Any, diary: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whole sessions are embedded, and their documents found; where there are none it isn't asked.

    Proves: OPS-4.
    """
    out = tmp_path / "report.json"
    assert runner.main(["--data", str(diary), "--peers", "sessions", "--json", str(out)]) == 0
    (row,) = read(out)["sets"][0]["peers"]
    assert row["recall@5"] == 1.0 and set(row["versions"]) == {"numpy"}
    monkeypatch.setitem(runner.SETS, "diary", runner.PeerSet("Diary", str(diary), sessions=False))
    assert runner.main(["--sets", "diary", "--peers", "sessions,recall-loop", "--json", str(out)]) == 0
    assert [each["name"] for each in read(out)["sets"][0]["peers"]] == ["recall-loop"]


def test_texts_begin_with_their_date_where_a_set_says_so(runner: Any, diary: Path, tmp_path: Path) -> None:
    """In the words of its language; an unknown collection is refused.

    Proves: OPS-4.
    """
    import jobs

    for language, first, last in (
        ("en", "1 February 2025 Ada: The ferry leaves at nine.", "1 March 2025 09:05 "),
        ("zh", "2025年2月1日 Ada: The ferry leaves at nine.", "2025年3月1日 09:05 "),
    ):
        data = jobs.PeerSet("Diary", "diary", dated=True, language=language)
        dataset, prompts = jobs.load_questions(data, tmp_path, None, 0)
        job = jobs.write_job(tmp_path, data, dataset, prompts, vectors=False)
        assert job.texts["s", "s/1"] == first and job.texts["s", "s/3"].startswith(last)
    unknown = jobs.PeerSet("Diary", "diary", collections=("t",))
    with pytest.raises(InvalidInputError, match=r"Diary\.collections"):
        jobs.load_questions(unknown, tmp_path, None, 0)


def test_the_measures(runner: Any) -> None:
    """Any gold among ten; the share of gold that stands whole in the first 1,000 tokens, a group counting once.

    Proves: OPS-4.
    """
    import figures

    assert figures.any_at_10(["b", "a"], ("a", "c")) == 1.0
    assert figures.any_at_10([*"bcdefghijk", "a"], ("a",)) == 0.0
    texts = {("s", "short"): "A few words.", ("s", "long"): "word " * 990, ("s", "other"): "Words again."}
    request = RetrieveRequest(messages=(ChatMessage(content="Which?"),), tenant="s")
    prompt = ReplayPrompt(request, gold=("short", "other"))
    assert figures.gold_in_context(prompt, ["short", "other", "long"], texts) == 1.0
    assert figures.gold_in_context(prompt, ["short", "long", "other"], texts) == 0.5
    assert figures.gold_in_context(prompt, [], texts) == 0.0
    grouped = ReplayPrompt(request, gold=("short", "other"), groups=(("short", "other"),))
    assert figures.gold_in_context(grouped, ["other", "long"], texts) == 1.0


def test_errors_are_reported(runner: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown peer, and one that breaks: told, and nothing made up.

    Proves: OPS-4.
    """
    path = write_dataset("locomo", tmp_path / "set")
    assert runner.main(["--data", str(path), "--peers", "magic"]) == 2
    assert "peers: got 'magic'" in capsys.readouterr().err
    assert runner.main(["--sets", "magic"]) == 2
    assert "sets: got 'magic'" in capsys.readouterr().err
    (tmp_path / "words.py").write_text("raise SystemExit('no such library')", encoding="utf-8")
    assert runner.main(["--data", str(path), "--peers", "recall-loop"]) == 1
    assert "no such library" in capsys.readouterr().err
