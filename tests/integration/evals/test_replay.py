"""A replay through the real store and the real graph, and through the command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recall_loop.cli.main import main
from recall_loop.evals.datasets import datasets
from recall_loop.evals.replay import replay_report
from recall_loop.evals.replay.replay_policies import OldPolicy, read_policies, read_requests
from recall_loop.evals.runs.prompts import EvalOptions, ReplayPrompt, prompts_from_dataset
from recall_loop.evals.runs.runner import ReplayRun, replay
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.records.records import Fact, Message, Record
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.settings.settings import Settings

pytestmark = pytest.mark.slow

TALK = [
    ("Ines", "I finally sold my old rowing boat to Joao."),
    ("Tom", "Great! What will you do with the money?"),
    ("Ines", "I am saving for a telescope, I want to see Saturn's rings."),
    ("Tom", "My sister Ruth teaches astronomy at the college."),
    ("Ines", "Could you ask her which telescope is good for beginners?"),
    ("Tom", "Joao moved to Faro, where he repairs nets for the cooperative."),
]
REQUESTS: list[dict[str, Any]] = [
    {"id": "q0", "messages": [{"content": "Who bought the rowing boat of Ines?"}], "gold": ["t0"], "category": "one"},
    {"id": "q1", "messages": [{"content": "Where does the buyer of the rowing boat live?"}], "gold": ["t0", "t5"]},
    {"id": "q2", "messages": [{"content": "Which colour is the door?"}], "answerable": False},
    {"id": "q3", "messages": [{"content": "What does Ruth teach?"}], "write_answer": True, "max_facts": 2},
]


def talk() -> list[Record]:
    return [
        Message(
            id=f"t{at}",
            text=text,
            author=author,
            conversation_id="c",
            session="1",
            position=at,
            created_at=f"2024-03-01T10:0{at}:00Z",
        )
        for at, (author, text) in enumerate(TALK)
    ]


@pytest.fixture
def filled(store: MemoryStore) -> MemoryStore:
    store.upsert(talk(), tenant="default")
    return store


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    return write(tmp_path / "requests.jsonl", REQUESTS)


def write(path: Path, items: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(item)}\n" for item in items), encoding="utf-8")
    return path


def report_of(prompts: list[ReplayPrompt], store: MemoryStore, named: list[str]) -> dict[str, Any]:
    policies = read_policies(named)
    runs = list(replay(prompts, policies, store, (5, 10)))
    return replay_report.build(replay_report.ReplayOptions("requests", (5, 10), resamples=100), policies, runs)


def without_latency(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_latency(each) for key, each in value.items() if key != "latency_ms"}
    if isinstance(value, list):
        return [without_latency(each) for each in value if not is_latency(each)]
    return value


def is_latency(value: Any) -> bool:
    return isinstance(value, dict) and value.get("measure") == "latency_ms"


def test_two_replays_are_equal_but_for_latency(filled: MemoryStore, requests: Path) -> None:
    """Proves: OPS-4, LOOP-9."""
    prompts = read_requests(requests, "default")
    first = report_of(prompts, filled, ["old", "new"])
    second = report_of(prompts, filled, ["old", "new"])
    assert without_latency(first) == without_latency(second)
    assert json.loads(json.dumps(first)) == first, "nothing in it but JSON"


def test_the_order_of_policies_changes_no_figure(filled: MemoryStore, requests: Path) -> None:
    """What one policy leaves in caches is nothing to the other.

    Proves: OPS-4, LOOP-9.
    """
    prompts = read_requests(requests, "default")
    there = report_of(prompts, filled, ["old", "new"])["policies"]
    back = report_of(prompts, filled, ["new", "old"])["policies"]
    assert without_latency(there) == without_latency(back[::-1])


def test_what_the_policies_do(filled: MemoryStore, requests: Path, tmp_path: Path) -> None:
    """The old one calls once; the loop goes on, within the limits of its own settings and of the request.

    Proves: OPS-4, LOOP-4.
    """
    once = tmp_path / "once.toml"
    once.write_text("[settings]\nmax_iterations = 1\n", encoding="utf-8")
    report = report_of(read_requests(requests, "default"), filled, ["old", "new", str(once)])
    old, new, limited = report["policies"]
    assert (old["iterations"], old["queries_executed"], limited["iterations"]) == (1.0, 4, 1.0)
    assert new["iterations"] > 1.0
    assert limited["settings"] == {"max_iterations": 1}
    assert [policy["queries_repeated"] for policy in report["policies"]] == [0, 0, 0]
    assert [policy["gold_found"] for policy in report["policies"]] == [3, 3, 3]
    assert set(old["stop_reasons"]) <= {"any_result", "max_facts"}
    assert old["reliability"] == []
    assert sum(part["runs"] for part in new["reliability"]) == 3, "the request without a label has no event"
    assert [run["policy"] for run in report["runs"] if run["id"] == "q1"] == ["new", "once", "old"], "they take turns"
    assert all(len(run["ids"]) <= 2 for run in report["runs"] if run["id"] == "q3")


def test_the_old_policy_in_an_empty_scope(store: MemoryStore) -> None:
    """It asks the same again until three calls found nothing, and is not sure.

    Proves: OPS-4 (repeats of the old policy are counted).
    """
    done = OldPolicy(Settings()).run(RetrieveRequest(messages=(ChatMessage(content="Who?"),)), store)
    assert (done.iterations, done.executed, done.repeated) == (3, 3, 2)
    assert (done.stop_reason, done.label, list(done.facts)) == ("tool_loop", "low", [])


def test_a_fact_counts_for_its_sources_under_both(store: MemoryStore) -> None:
    """Proves: OPS-4."""
    fact = Fact(id="f", text="Ines sold her rowing boat to Joao.", subject="Ines", source_ids=("t0",))
    store.upsert([*talk()[1:], fact], tenant="default")
    prompt = ReplayPrompt(
        RetrieveRequest(messages=(ChatMessage(content="Who bought the rowing boat?"),)), ("t0",), True
    )
    runs: list[ReplayRun] = list(replay([prompt], read_policies(["old", "new"]), store, (10,)))
    assert [run.gold_found for run in runs] == [1, 1]


def test_command_writes_reports(requests: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: OPS-4."""
    records = [{"kind": "message", **record.model_dump(mode="json", exclude_unset=True)} for record in talk()]
    store = str(tmp_path / "store")
    assert main(["ingest", str(write(tmp_path / "talk.jsonl", records)), "--store", store]) == 0
    capsys.readouterr()
    json_file, html_file = tmp_path / "report.json", tmp_path / "report.html"
    arguments = ["replay", "--requests", str(requests), "--store", store, "--resamples", "100"]
    assert main([*arguments, "--json", str(json_file), "--html", str(html_file)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "unique relevant facts found (gold)" in printed.out
    assert "new − old [95 %]" in printed.out
    report = json.loads(json_file.read_text(encoding="utf-8"))
    assert report["baseline"] == "old"
    assert {each["measure"] for each in report["differences"]["new"]} >= {
        "recall@10",
        "all@10",
        "ndcg@10",
        "iterations",
    }
    page = html_file.read_text(encoding="utf-8")
    assert page.count("<svg role=") == 4
    for title in ("Recall against iterations", "Novelty per iteration", "Reliability", "Latency"):
        assert title in page
    assert not re.search(r"(?:src|href)=\"(?!#)", page), "it needs nothing from elsewhere"


def test_html_escapes_names(filled: MemoryStore, tmp_path: Path) -> None:
    """Proves: OPS-4 (a log's texts do nothing to the page)."""

    prompts = [replace(prompt, category="<script>") for prompt in from_requests(tmp_path)]
    from recall_loop.evals.replay.replay_page import render_page

    policies = read_policies(["new"])
    runs = list(replay(prompts, policies, filled, (10,)))
    made = render_page(replay_report.build(replay_report.ReplayOptions("<b>&", (10,), resamples=100), policies, runs))
    assert "<script>" not in made
    assert "&lt;b&gt;&amp;" in made


def test_any_latencies_can_be_drawn() -> None:
    """Equal times leave no width of their own on a logarithmic axis, by rounding at some values only; it has no zero.

    Proves: OPS-4.
    """
    from recall_loop.evals.replay.replay_page import draw_plots

    for times in ((28.57354216213225,), (115.0671324818385,), (0.0,), (0.0, 0.02), (7.5, 7.5), (0.8, 250_000.0)):
        policy = {"name": "new", "scored": 0, "reliability": [], "by_iteration": [], "latency_ms": {"p50": times[0]}}
        report = {"policies": [policy], "runs": [{"policy": "new", "latency_ms": took} for took in times]}
        assert [title for title, _ in draw_plots(report)] == ["Novelty per iteration", "Latency"]


def from_requests(folder: Path) -> list[ReplayPrompt]:
    return read_requests(write(folder / "r.jsonl", REQUESTS[:1]), "default")


def test_command_on_a_data_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: OPS-4."""
    turns = [
        {"id": f"t{at}", "collection": "c", "kind": "message", "speaker": author, "text": text, "session": "1"}
        for at, (author, text) in enumerate(TALK)
    ]
    folder = tmp_path / "set"
    (folder / "turns").mkdir(parents=True)
    write(folder / "turns" / "c.jsonl", turns)
    question = {"id": "q", "collection": "c", "question": "Who bought the boat?", "category": "one", "gold": ["t0"]}
    write(folder / "questions.jsonl", [question])
    assert main(["replay", "--data", str(folder), "--policy", "new", "--json", str(tmp_path / "r.json")]) == 0
    assert "set: 1 requests, 1 scored" in capsys.readouterr().out
    assert json.loads((tmp_path / "r.json").read_text())["differences"] == {}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--kinds", "all"], "--kinds: got 'all'; allowed: only with --data"),
        (["--unscored"], "only with --data"),
        (["--policy", "newer"], "policy: got 'newer'"),
        (["--policy", "new", "--policy", "new"], "policies with different names"),
        (["--policy", "none.toml"], "No such file"),
        (["--k", "five"], "k: got 'five'"),
        (["--seed", "-1"], "--seed"),
        (["--html", "."], "Is a directory"),
        (["--gold", "none.jsonl"], "No such file"),
        (["--data", "set"], "not allowed with argument"),
        ([], "--store"),
    ],
)
def test_command_refuses_in_one_line(
    requests: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """Proves: OPS-4."""
    assert main(["replay", "--requests", str(requests), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert len(printed.err.splitlines()) == 1


def test_help_and_tables_load_nothing_heavy() -> None:
    """Proves: OPS-4."""
    code = (
        "import sys; from recall_loop.cli.main import main; main(['replay', '--help']); "
        "assert not {'chromadb', 'langgraph', 'numpy'} & set(sys.modules); "
        "import recall_loop.evals.replay.replay_report, recall_loop.evals.replay.replay_page; "
        "assert 'matplotlib' not in sys.modules"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "--policy" in ran.stdout


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_loop_finds_more_where_two_facts_are_needed(data_dir: Path, store: MemoryStore) -> None:
    """On questions over several documents, with no language model, the loop finds gold evidence that one query misses.

    Proves: OPS-4, STOP-1, QUERY-4.
    """
    dataset = datasets.load_dataset(data_dir / "hotpotqa", "all")
    prompts = prompts_from_dataset(dataset, EvalOptions(ks=(10,), limit=30))
    (tenant,) = dataset.collections
    gold = {each for prompt in prompts for each in prompt.gold}
    # All of them take a minute to embed.
    records = [each for at, each in enumerate(dataset.collections[tenant]) if each.id in gold or at % 16 == 0]
    assert all(written.status == "created" for written in store.upsert(records, tenant=tenant))
    report = report_of(prompts, store, ["old", "new"])
    gain = next(each for each in report["differences"]["new"] if each["measure"] == "gold_found")
    assert gain["low"] >= 0.0
    assert report["policies"][1]["gold_found"] > report["policies"][0]["gold_found"]
    assert report["policies"][1]["queries_repeated"] == 0
