"""Labelled examples of confidence: measurements of runs, and whether all gold was in the first ten (CONF-4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.datasets.json_files import PublishedModel, iter_lines
from recall_loop.evals.measures.quality_metrics import all_at_k
from recall_loop.evals.replay.eval_report import question_line
from recall_loop.evals.runs.dataset_ingest import CROSS_COLLECTION
from recall_loop.evals.runs.prompts import COMPLETE_CUT
from recall_loop.evals.runs.runner import ReplayRun
from recall_loop.policy.confidence.confidence_score import COMPONENT_WEIGHTS, RAW_SCORE
from recall_loop.policy.confidence.confidence_signals import SIGNALS
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.types import Identifier, UnitFloat


@dataclass(frozen=True)
class CalibrationExample:
    """One question of the set `origin`; `values` are raw score, components and signals by name.

    `group` must not be split between fitting and measuring: its collection. `answerable` is whether the memory holds an
    answer, `complete` whether all gold evidence is among the first ten ids; never where there is no answer. A
    `cross_collection` question is about another collection than the one that is asked.
    """

    origin: str
    group: str
    id: str
    values: dict[str, float]
    answerable: bool
    complete: bool
    cross_collection: bool = False


class _Detail(PublishedModel):
    raw_score: UnitFloat
    components: dict[str, UnitFloat]
    signals: dict[str, float]


class _PerQuestionLine(PublishedModel):
    """One line of `recall-loop eval --per-question`."""

    id: Identifier
    collection: Identifier
    ids: list[str]
    gold: list[str] = Field(default_factory=list)
    answerable: bool = True
    category: str | None = None
    set: str | None = None
    complete: bool | None = Field(None, description="Whether all evidence is in the first ten, where groups decide.")
    confidence_detail: _Detail


def examples_from_answers(answers: Iterable[ReplayRun], dataset: Dataset) -> list[CalibrationExample]:
    """Return the examples of a data set that was asked; answerable questions without gold are left out."""
    origin = f"{dataset.name} ({dataset.kinds.value})"
    return list(_examples((_PerQuestionLine.model_validate(question_line(answer)) for answer in answers), origin))


def read_examples(path: Path) -> list[CalibrationExample]:
    """Read a file of `recall-loop eval --unscored --per-question`; its name is the set's if a line names none.

    A line that is malformed, or lacks what confidence is computed from, raises `InvalidInputError`.
    """
    return list(_examples(_lines(path), path.stem))


def _lines(path: Path) -> Iterator[_PerQuestionLine]:
    for line in iter_lines(path):
        read = validate_model(_PerQuestionLine, line.value, line.location)
        for part, given, known in (
            ("components", read.confidence_detail.components, COMPONENT_WEIGHTS),
            ("signals", read.confidence_detail.signals, SIGNALS),
        ):
            if set(given) != set(known):
                allowed = f"exactly {', '.join(known)}; ask the questions again with this version"
                raise InvalidInputError(f"{line.location}.confidence_detail.{part}", sorted(given), allowed)
        yield read


def _examples(lines: Iterable[_PerQuestionLine], origin: str) -> Iterator[CalibrationExample]:
    found = [line for line in lines if line.gold or not line.answerable]
    pools = {(line.set or origin, line.collection) for line in found}
    for line in found:
        dataset, detail = line.set or origin, line.confidence_detail
        # A set with one pool has no conversations to keep apart: there, each question stands for itself.
        alone = sum(name == dataset for name, _ in pools) == 1
        yield CalibrationExample(
            origin=f"{dataset}, {CROSS_COLLECTION}" if line.category == CROSS_COLLECTION else dataset,
            group=f"{line.collection}\n{line.id}" if alone else line.collection,
            id=line.id,
            values={RAW_SCORE: detail.raw_score, **detail.components, **detail.signals},
            answerable=line.answerable,
            complete=line.answerable and _is_complete(line),
            cross_collection=line.category == CROSS_COLLECTION,
        )


def _is_complete(line: _PerQuestionLine) -> bool:
    """Return whether all evidence is in the first ten, from the line, which knows the groups that count as one."""
    return bool(all_at_k(line.ids, line.gold, COMPLETE_CUT)) if line.complete is None else line.complete


def count_by_set(examples: Iterable[CalibrationExample]) -> dict[str, dict[str, Any]]:
    """Return questions, answerable and complete ones, and groups, by set."""
    table: dict[str, dict[str, Any]] = {}
    groups: dict[str, set[str]] = {}
    for example in examples:
        row = table.setdefault(example.origin, {"questions": 0, "answerable": 0, "complete": 0, "groups": 0})
        groups.setdefault(example.origin, set()).add(example.group)
        row["questions"] += 1
        row["answerable"] += example.answerable
        row["complete"] += example.complete
        row["groups"] = len(groups[example.origin])
    return table
