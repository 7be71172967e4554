"""Questions whose gold evidence isn't loaded: their figures say nothing about the retrieval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from recall_loop.evals.datasets.dataset_parts import SELECTED_KINDS, Dataset, DocumentSelection, LabelledQuestion


@dataclass(frozen=True)
class UnloadedGold:
    """The missing gold evidence.

    Attributes:
        questions: number of questions that lack some of their gold evidence.
        lost: those of them that name a document which no selection loads: the set doesn't hold it, or it has no text.
        kinds: the smallest selection that loads all available evidence; None if no other one would load more.
    """

    questions: int
    lost: int
    kinds: DocumentSelection | None


def unloaded_gold(dataset: Dataset, questions: Sequence[LabelledQuestion]) -> UnloadedGold:
    """Return which gold evidence of `questions` isn't loaded; of a group any document will do."""
    loaded = SELECTED_KINDS[dataset.kinds]
    needed, lacking, lost = set[str](loaded), 0, 0
    for question in questions:
        missing = [kinds for kinds in _kinds_of_parts(dataset, question) if not kinds & loaded]
        lacking += bool(missing)
        lost += not all(missing)
        needed.update(*missing)
    fitting = (selection for selection in DocumentSelection if SELECTED_KINDS[selection] >= needed)
    return UnloadedGold(lacking, lost, next(fitting) if needed > loaded else None)


def _kinds_of_parts(dataset: Dataset, question: LabelledQuestion) -> list[set[str]]:
    """Return for each part of the evidence the kinds of documents that hold it."""
    if not question.scored or dataset.gold_kinds is None:
        return []
    grouped = {name for group in question.gold_groups for name in group}
    parts = [*question.gold_groups, *((name,) for name in question.gold if name not in grouped)]
    found = dataset.gold_kinds
    return [{kind for name in part for kind in found.get((question.collection, name), ())} for part in parts]
