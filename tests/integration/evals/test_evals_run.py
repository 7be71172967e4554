"""A small data set through the real store and the real graph, and through the command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.measuring import Stopwatch, instrument, timed_embedder
from recall_loop.cli.main import main
from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.replay import eval_report
from recall_loop.evals.runs.dataset_ingest import ingest
from recall_loop.evals.runs.prompts import EvalOptions
from recall_loop.evals.runs.runner import ReplayRun, run_evaluation
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from tests.unit.evals.public_formats import write_dataset as write_public

TALKS = {
    "harbour": [
        ("Ines", "I finally sold my old rowing boat to a fisherman from Faro."),
        ("Tom", "Great! What will you do with the money?"),
        ("Ines", "I am saving for a telescope, I want to see Saturn's rings."),
        ("Tom", "My sister Ruth teaches astronomy at the college."),
        ("Ines", "Could you ask her which telescope is good for beginners?"),
        ("Tom", "She says a six-inch Dobsonian is the best choice."),
    ],
    "kitchen": [
        ("Lena", "The new oven burns everything on the left side."),
        ("Omar", "Mine did too, the repair cost eighty euros."),
        ("Lena", "Then I will bake the rye bread at my mother's flat."),
        ("Omar", "Bring me a loaf when you visit on Sunday."),
    ],
}
QUESTIONS: list[tuple[str, str, str, list[str], bool]] = [
    ("harbour", "Who bought the rowing boat of Ines?", "one", ["harbour:0"], True),
    ("harbour", "What is Ines saving for?", "one", ["harbour:2"], True),
    ("harbour", "Who teaches astronomy?", "two", ["harbour:3"], True),
    ("kitchen", "How much did Omar pay to repair his oven?", "two", ["kitchen:1"], True),
    ("kitchen", "Which colour is the door?", "none", [], False),
]


def turns() -> list[dict[str, Any]]:
    return [
        {
            "id": f"{name}:{number}",
            "collection": name,
            "kind": "message",
            "session": 1,
            "timestamp": f"2024-03-0{number + 1}T10:00:00",
            "speaker": speaker,
            "text": text,
        }
        for name, talk in TALKS.items()
        for number, (speaker, text) in enumerate(talk)
    ]


def jsonl(path: Path, lines: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two conversations, five questions, and one fact drawn from a turn."""
    names = ("collection", "question", "category", "gold", "answerable")
    questions = [{"id": f"q{number}"} | dict(zip(names, row, strict=True)) for number, row in enumerate(QUESTIONS)]
    jsonl(tmp_path / "set" / "questions.jsonl", questions)
    jsonl(tmp_path / "set" / "turns" / "all.jsonl", turns())
    facts = [
        {
            "id": f"{name}:f",
            "collection": name,
            "kind": "fact",
            "session": 1,
            "speaker": speaker,
            "text": text,
            "source_ids": [source],
        }
        for name, speaker, text, source in (
            ("harbour", "Ines", "Ines is saving for a telescope.", "harbour:2"),
            ("kitchen", "Omar", "Omar paid eighty euros for the repair of his oven.", "kitchen:1"),
        )
    ]
    jsonl(tmp_path / "set" / "facts" / "all.jsonl", facts)
    return tmp_path / "set"


def evaluate(dataset: Dataset, embedder: MiniLmEmbedder, options: EvalOptions) -> list[ReplayRun]:
    with MemoryStore.in_memory(embedder=embedder) as store:
        return list(run_evaluation(dataset, options, store, settings=Settings()))


def comparable(answers: list[ReplayRun]) -> list[dict[str, Any]]:
    return [eval_report.question_line(answer) | {"latency_ms": 0} for answer in answers]


@pytest.mark.parametrize("kinds", ["messages", "facts", "messages+facts", "all"])
def test_evidence_is_found_in_its_own_collection(folder: Path, embedder: MiniLmEmbedder, kinds: str) -> None:
    """With turns in the store every gold turn is among the first five; no id is of another collection.

    Facts alone count for the turns that they were drawn from.

    Proves: OPS-4, STORE-3.
    """
    answers = evaluate(load_dataset(folder, kinds), embedder, EvalOptions(ks=(5, 10)))
    assert [answer.prompt.request.id for answer in answers] == ["q0", "q1", "q2", "q3"]
    for answer in answers:
        assert all(found.split(":")[0] == answer.prompt.request.tenant for found in answer.ids)
    found = [answer.scores["recall@5"] for answer in answers]
    assert found == ([0.0, 1.0, 0.0, 1.0] if kinds == "facts" else [1.0] * 4)


def test_runs_of_agents_are_what_their_questions_search(tmp_path: Path, embedder: MiniLmEmbedder) -> None:
    """By itself a request searches no trajectories; the questions of tau-bench do.

    Proves: OPS-4, TRAJ-1.
    """
    answers = evaluate(load_dataset(write_public("tau", tmp_path)), embedder, EvalOptions(ks=(1,)))
    assert [answer.ids[0] for answer in answers] == ["tau:0:0", "tau:1:0"]


def test_no_query_is_executed_twice(folder: Path, embedder: MiniLmEmbedder) -> None:
    """Proves: OPS-4, LOOP-4."""
    answers = evaluate(load_dataset(folder), embedder, EvalOptions(unscored=True))
    assert len(answers) == 5
    assert all(answer.result.executed > 0 for answer in answers)
    assert sum(answer.result.repeated for answer in answers) == 0


def test_two_runs_are_equal(folder: Path, embedder: MiniLmEmbedder) -> None:
    """Everything but the clock: ids, order, scores, iterations, confidence.

    Proves: OPS-4, LOOP-9.
    """
    dataset = load_dataset(folder, "all")
    options = EvalOptions(limit=3, seed=7)
    first = evaluate(dataset, embedder, options)
    assert comparable(first) == comparable(evaluate(dataset, embedder, options))


def test_ingest_is_idempotent_and_refuses_foreign_records(folder: Path, store: MemoryStore) -> None:
    """A store that was filled with other kinds would be searched too.

    Proves: OPS-4, STORE-2.
    """
    told: list[tuple[str, int, int]] = []
    dataset = load_dataset(folder)
    names = list(dataset.collections)
    written = ingest(store, dataset, names, lambda *state: told.append(state))
    assert written == ingest(store, dataset, names)
    assert store.count(Scope(tenant="harbour")) == written["harbour"] == 6
    assert told[-1] == ("ingest", 10, 10)
    ingest_all = load_dataset(folder, "all")
    ingest(store, ingest_all, names)
    with pytest.raises(InvalidInputError, match="7 records in 'harbour'"):
        ingest(store, dataset, names)


def test_clock_changes_no_answer(folder: Path, embedder: MiniLmEmbedder) -> None:
    """A store under the clock gives what it gives without, and the time is taken.

    Proves: OPS-3.
    """
    clock, dataset, scope = Stopwatch(), load_dataset(folder), Scope(tenant="harbour")
    with MemoryStore.in_memory(embedder=timed_embedder(embedder, clock)) as store:
        ingest(store, dataset, ["harbour"])
        plain = store.view(scope)
        before = plain.top_by_stems([("telescop", 1.0)], 10).tolist(), plain.rowids().tolist(), store.count(scope)
        instrument(store, clock)
        timed = store.view(scope)
        assert (
            timed.top_by_stems([("telescop", 1.0)], 10).tolist(),
            timed.rowids().tolist(),
            store.count(scope),
        ) == before
    assert before[2] == 6
    assert set(clock.calls) == {"embed_documents", "view", "top_by_stems", "rowids", "count"}
    assert min(clock.seconds.values()) > 0


def test_command_prints_json_and_writes_lines(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: OPS-4."""
    lines = tmp_path / "lines.jsonl"
    arguments = ["eval", "--data", str(folder), "--json", "--k", "1,5", "--set", "max_iterations=1"]
    stored = ["--store", str(tmp_path / "store"), "--per-question", str(lines)]
    assert main([*arguments, *stored]) == 0
    printed = capsys.readouterr()
    figures = json.loads(printed.out)
    assert printed.err == ""
    assert figures["overall"]["questions"] == figures["asked"] == 4
    assert figures["overall"]["recall@5"] == 1.0
    assert figures["mean_iterations"] == 1.0
    assert figures["repeated_query_share"] == 0.0
    assert sum(figures["stop_reasons"].values()) == 4
    assert set(figures["categories"]) == {"one", "two"}
    assert [json.loads(line)["id"] for line in lines.read_text().splitlines()] == ["q0", "q1", "q2", "q3"]
    assert main([*arguments, *stored]) == 0, "the same store may be used again"


def test_command_warns_of_gold_that_is_not_loaded(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: OPS-4. One line, which names what would load it; a fact holds the turns that it was drawn from."""
    summaries = [
        {"id": "sum", "collection": "harbour", "kind": "session_summary", "text": "Tom helps Ines choose a telescope."}
    ]
    jsonl(folder / "summaries" / "all.jsonl", summaries)
    asked = json.loads((folder / "questions.jsonl").read_text().splitlines()[0])
    lines = [
        {**asked, "id": "s1", "question": "Who helps Ines?", "gold": ["sum"]},
        {**asked, "id": "s2", "question": "Who helps Tom?", "gold": ["nowhere", "harbour:1"]},
        {
            **asked,
            "id": "s3",
            "question": "Who helps Omar?",
            "gold": ["sum", "harbour:1"],
            "gold_groups": [["sum", "harbour:1"]],
        },
    ]
    with (folder / "questions.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    command = ["eval", "--data", str(folder), "--json", "--set", "max_iterations=1"]
    assert main(command) == 0
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert (
        "loaded with --kinds messages: gold evidence of 2 of 7 questions isn't loaded; --kinds all loads it; 1 "
        in said[0]
    )
    assert main([*command, "--kinds", "all"]) == 0
    assert "gold evidence of 1 of 7 questions isn't loaded; 1 name" in capsys.readouterr().err


def test_command_prints_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Plain text where stdout is no terminal.

    Proves: OPS-4.
    """
    assert main(["eval", "--data", str(folder), "--categories", "one", "--k", "5"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    rows = [line.split() for line in text.splitlines()]
    assert ["overall", "2", "1.000"] in [row[:3] for row in rows]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--k", "five"], "k: got 'five'"),
        (["--k", "0"], "k: got (0,)"),
        (["--limit", "0"], "--limit"),
        (["--categories", "odd"], "categories: got ['odd']"),
        (["--set", "max_facts=3"], "set: got 'max_facts=3'"),
        (["--kinds", "events"], "--kinds"),
        (["--foreign", "3"], "--foreign: got 3; allowed: a number together with --unscored"),
        (["--per-question", "."], "Is a directory"),
    ],
)
def test_command_refuses_in_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """Exit code 2, nothing on stdout, before any work is done.

    Proves: OPS-4.
    """
    assert main(["eval", "--data", str(folder), *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert len(printed.err.splitlines()) == 1


def test_help_loads_neither_chroma_nor_langgraph() -> None:
    """Proves: OPS-4."""
    import subprocess

    code = (
        "import sys; from recall_loop.cli.main import main; main(['eval', '--help']); "
        "sys.exit(any(name in sys.modules for name in ('chromadb', 'langgraph', 'numpy')))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "--per-question" in ran.stdout
