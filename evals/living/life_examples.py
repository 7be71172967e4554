"""Lines of asked lives, which are labelled examples of confidence beside those of archives (CONF-4, LIVE-3)."""

from __future__ import annotations

from typing import Any

from recall_loop.evals.living.life import LifeAnswer

_SET = "lives"


def life_line(answer: LifeAnswer) -> dict[str, Any]:
    """Return one question's line of a `--per-question` file, which `recall-loop calibrate --replay` reads, too.

    `gold` names one record that holds the answer, the first that was found: any of them is enough.
    """
    question, rank = answer.question, answer.rank
    found = answer.ids[rank - 1] if rank else next(iter(question.gold), None)
    return {
        "id": _name(answer),
        "collection": answer.life.group,
        "set": _origin(answer),
        "category": question.scenario.value,
        "kind": question.kind,
        "form": question.form.value,
        "language": answer.life.language,
        "alone": answer.life.alone,
        "size": answer.size,
        "question": question.question,
        "ids": answer.ids,
        "gold": [found] if found else [],
        "answerable": question.answerable,
        "rank": rank,
        "older_rank": answer.older_rank,
        "superseded": sorted(answer.superseded),
        "counts": dict(answer.counts),
        "context": list(answer.context_ids),
        "all_gold": sorted(question.gold) if question.answerable else [],
        "facts": [[name, score, similarity, *alignment] for name, score, similarity, alignment in answer.facts],
        "confidence": answer.score,
        "confidence_label": answer.label,
        "confidence_detail": dict(answer.confidence),
        "latency_ms": answer.latency_ms,
    }


def _name(answer: LifeAnswer) -> str:
    return f"{answer.question.id}@{answer.size}"


def _origin(answer: LifeAnswer) -> str:
    return f"{_SET} among {answer.size}"
