"""What is measured of one peer on one set."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jobs import EmbeddingCost, PeerJob

from recall_loop.evals.measures.quality_metrics import macro_average, percentile, score_ranking
from recall_loop.evals.runs.prompts import ReplayPrompt
from recall_loop.text.words.snippets import fit_to_budget

ASKED = 30  # what a request of Recall Loop asks for by itself
CONTEXT_TOKENS = 1000
KS = (5, 10, 20)
ANY, IN_CONTEXT = "any@10", "gold_in_context"


def any_at_10(ranked: Sequence[str], gold: Collection[str]) -> float:
    """Return 1.0 when some gold id is among the first ten, else 0.0."""
    return float(not set(gold).isdisjoint(ranked[:10]))


def gold_in_context(prompt: ReplayPrompt, ranked: Sequence[str], texts: Mapping[tuple[str, str], str]) -> float:
    """Return the share of gold that is found in the first 1,000 tokens, if the texts are read in order of rank.

    A text counts when it is there as a whole; the reading ends at the first that doesn't fit.
    """
    whole = fit_to_budget((texts[prompt.request.tenant, name] for name in ranked), CONTEXT_TOKENS)
    gold = set(prompt.counted(prompt.gold))
    return len(gold.intersection(prompt.counted(ranked[: len(whole)]))) / len(gold)


def peer_row(name: str, embedded: bool, result: Mapping[str, Any], job: PeerJob) -> dict[str, Any]:
    """Return a peer's figures; one that was given vectors is charged for embedding what it was given."""
    answers = {answer["id"]: answer for answer in result["answers"]}
    charged = job.embedding if embedded else EmbeddingCost(0.0, float("inf"))
    times = [answer["ms"] + charged.query_ms for answer in answers.values()]
    seconds = result["ingest_seconds"] + result["documents"] / charged.documents_per_second
    memory = result["memory_mb"]
    scores = macro_average([_scores(prompt, answers[prompt.request.id]["ids"], job) for prompt in job.prompts])
    return {
        "name": name,
        "versions": result["versions"],
        **{key: round(value, 4) for key, value in scores.items()},
        "latency_ms": {"p50": round(percentile(times, 0.5), 2), "p95": round(percentile(times, 0.95), 2)},
        "documents_per_second": round(result["documents"] / seconds, 1),
        "memory_mb": {key: round(value, 1) for key, value in memory.items()},
        "data_mb": round(memory["asked"] - memory["before"], 1),
    }


def _scores(prompt: ReplayPrompt, ranked: Sequence[str], job: PeerJob) -> dict[str, float]:
    ids, gold = prompt.counted(ranked), prompt.counted(prompt.gold)
    found = {ANY: any_at_10(ids, gold), IN_CONTEXT: gold_in_context(prompt, ranked, job.texts)}
    return score_ranking(ids, gold, KS) | found
