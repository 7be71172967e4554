"""Corrections detected in real conversations, which contain next to none: each counts as false (LIVE-4)."""

from __future__ import annotations

from typing import Any

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.runs.dataset_ingest import StageProgress, ingest
from recall_loop.evals.runs.prompts import EvalOptions, asked_collections, prompts_from_dataset
from recall_loop.evals.runs.runner import newest_time
from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.settings.settings import Settings

_FACTS = 10
_SHOWN = 50


def false_corrections(
    dataset: Dataset,
    questions: int,
    store: MemoryStore,
    *,
    settings: Settings | None = None,
    seed: int = 0,
    progress: StageProgress | None = None,
) -> dict[str, Any]:
    """Return how many of the first ten facts of a data set's own questions are marked as superseded by another one.

    Real people correct themselves, too: the share is an upper bound, and `examples` are for reading.

    Args:
        dataset: conversations with questions.
        questions: how many of them are asked, drawn with `seed`.
        store: without the tenants of the data set.
        settings: None = those of the environment.
        seed: of the draw.
        progress: called for both stages.

    Raises:
        InvalidInputError: no question can be asked, or a tenant of the store isn't empty.
    """
    chosen = settings or Settings.from_env()
    prompts = prompts_from_dataset(dataset, EvalOptions(ks=(_FACTS,), limit=questions, seed=seed))
    ingest(store, dataset, asked_collections(prompts), progress)
    facts, examples = 0, []
    for done, prompt in enumerate(prompts, 1):
        now = prompt.request.reference_time or newest_time(store, prompt.request.tenant)
        result = retrieve(prompt.request.model_copy(update={"reference_time": now}), store=store, settings=chosen)
        for fact in result.facts:
            facts += 1
            if hint := fact.model_dump(mode="json").get("superseded_by_hint"):
                examples.append({"question": prompt.request.question.content, "text": fact.text, "hint": hint})
        if progress:
            progress("ask", done, len(prompts))
    return {
        "dataset": dataset.name,
        "questions": len(prompts),
        "facts": facts,
        "marked": len(examples),
        "share": len(examples) / facts if facts else None,
        "examples": examples[:_SHOWN],
    }
