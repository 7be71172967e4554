"""Questions with a `before`, which see only earlier documents, through the real store and the real graph."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.runs.prompts import EvalOptions
from recall_loop.evals.runs.runner import run_evaluation
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings


def write_dialogue(folder: Path) -> Path:
    """One dialogue that goes on after its first question; either record of a pair tells the same."""
    told = ["I live in Porto.", "Noted: you live in Porto.", "I moved to Lisbon.", "Noted: you live in Lisbon."]
    (folder / "turns").mkdir(parents=True)
    lines = [
        {"id": f"t{at}", "collection": "one", "kind": "message", "turn_index": at, "speaker": "Ana", "text": text}
        for at, text in enumerate(told)
    ]
    (folder / "turns" / "one.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    asked = {"collection": "one", "question": "Where does Ana live?", "category": "home", "asked_at": "2024-03-01"}
    questions = [
        {**asked, "id": "late", "before": "t3", "gold": ["t3"], "gold_groups": [["t2", "t3"]]},
        {**asked, "id": "early", "before": "t1", "gold": ["t0"], "gold_groups": [["t0", "t1"]]},
    ]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, questions)), encoding="utf-8")
    return folder


def test_a_question_sees_only_earlier_documents(tmp_path: Path):
    """Proves: OPS-4."""
    dataset = load_dataset(write_dialogue(tmp_path))
    with MemoryStore.in_memory() as store:
        early, late = run_evaluation(dataset, EvalOptions(ks=(1, 10)), store, settings=Settings())
    assert set(early.ids) == {"t0", "t1"}
    assert set(late.ids) == {"t0", "t1", "t2", "t3"}
    assert early.scores["recall@1"] == 1.0
    assert late.scores["recall@10"] == 1.0


def test_a_question_before_an_unknown_document_is_refused(tmp_path: Path):
    """Proves: OPS-4."""
    dataset = load_dataset(write_dialogue(tmp_path))
    wrong = [each.model_copy(update={"before": "t9"}) for each in dataset.questions]
    with (
        MemoryStore.in_memory() as store,
        pytest.raises(InvalidInputError, match=r"late\.before.*t9.*a document of one"),
    ):
        list(run_evaluation(replace(dataset, questions=wrong), EvalOptions(), store, settings=Settings()))
