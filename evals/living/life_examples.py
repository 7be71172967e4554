"""Asked lives as labelled examples of confidence, beside those of archives (CONF-4, LIVE-3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from recall_loop.evals.confidence.calibration_examples import CalibrationExample
from recall_loop.evals.living.life import Life, LifeAnswer
from recall_loop.evals.living.life_runner import LivingOptions, run_lives
from recall_loop.evals.runs.dataset_ingest import StageProgress, open_eval_store
from recall_loop.evals.runs.prompts import COMPLETE_CUT
from recall_loop.policy.confidence.confidence_score import RAW_SCORE
from recall_loop.state.settings.settings import Settings

_SET = "lives"


def life_example(answer: LifeAnswer) -> CalibrationExample:
    """Return what a question measured, and whether its answer was said and is among the first ten.

    Its group is that of the life at every size: lives that share sentences are held out together.
    """
    detail: Any = answer.confidence
    return CalibrationExample(
        origin=_origin(answer),
        group=answer.life.group,
        id=_name(answer),
        values={RAW_SCORE: detail["raw_score"], **detail["components"], **detail["signals"]},
        answerable=answer.question.answerable,
        complete=answer.within(COMPLETE_CUT),
    )


def calibration_rows(
    lives: Sequence[Life],
    options: LivingOptions,
    *,
    settings: Settings | None = None,
    progress: StageProgress | None = None,
) -> Iterator[tuple[LifeAnswer, CalibrationExample]]:
    """Ask lives in a store in memory, and yield each answer with its example for `calibrate`.

    Raises:
        InvalidInputError: see `run_lives`.
    """
    chosen = settings or Settings.from_env()
    with open_eval_store(None, chosen) as store:
        for answer in run_lives(lives, options, store, settings=chosen, progress=progress):
            yield answer, life_example(answer)


def life_examples(answers: Iterable[LifeAnswer]) -> list[CalibrationExample]:
    """Return the examples of some answers."""
    return [life_example(answer) for answer in answers]


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
