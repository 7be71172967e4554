"""`recall-loop eval`: measure retrieval on a labelled data set (OPS-4)."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from recall_loop.cli.core.common import bounded_int
from recall_loop.cli.evals.eval_options import (
    FORMATS,
    KINDS,
    MAX_QUESTIONS,
    PIPED_WIDTH,
    parse_cutoffs,
    split_names,
    stage_progress,
)

if TYPE_CHECKING:  # loaded when the verb runs: `--help` waits for neither Chroma nor LangGraph
    from recall_loop.evals.runs.runner import EvalOptions, QuestionResult

_DESCRIPTION = """\
Measure retrieval on a labelled data set: recall, all, nDCG and MRR by category, iterations, repeated
queries, stop reasons and latency. PATH is a file or folder of LoCoMo, BEAM, MuSiQue, HotpotQA,
LongMemEval or tau-bench as published; or a folder with questions.jsonl, and records.jsonl or documents
in docs.jsonl, turns/, facts/, summaries/ and events/. Each collection is searched by its own questions only.
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser("eval", help="measure retrieval on a labelled data set", description=_DESCRIPTION)
    add = parser.add_argument
    add("--data", type=Path, required=True, metavar="PATH", help="the data set")
    add("--format", choices=FORMATS, help="its format (default: the one that it looks like)")
    add("--kinds", choices=KINDS, help="documents to load (default: messages if there are any, else all)")
    add("--k", default="5,10,20", metavar="K,..", help="cuts of recall and all (default: %(default)s)")
    add("--categories", metavar="A,..", help="only questions of these categories")
    add(
        "--limit",
        type=bounded_int(1, MAX_QUESTIONS),
        metavar="N",
        help="ask N questions, drawn with --seed",
    )
    add("--seed", type=int, default=0, metavar="N", help="seed of that draw (default: %(default)s)")
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting; may be repeated")
    add("--store", type=Path, metavar="PATH", help="keep the store in this folder (default: in memory)")
    add("--unscored", action="store_true", help="also ask questions that count for no recall")
    add(
        "--foreign",
        type=bounded_int(1, MAX_QUESTIONS),
        metavar="N",
        help="with --unscored: also ask each collection N questions of another one, which it can't answer",
    )
    add("--per-question", type=Path, metavar="FILE", help="write one JSON line per question")
    add("--json", action="store_true", help="print the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Evaluate, print the report, and return the exit code 0.

    Raises:
        InvalidInputError: an argument or the data set is wrong; names it, its value and what is allowed.
        StoreError: the store can't be opened or is in use.
        OSError: a file can't be read or written.
    """
    from recall_loop.evals.datasets.datasets import load_dataset
    from recall_loop.evals.runs import eval_report
    from recall_loop.evals.runs.cross_collection import with_cross_collection_questions
    from recall_loop.evals.runs.dataset_ingest import open_eval_store
    from recall_loop.evals.runs.runner import run_evaluation as evaluate
    from recall_loop.evals.runs.runner import select_questions, settings_with
    from recall_loop.state.errors import InvalidInputError

    options, settings = _options(arguments), settings_with(arguments.set)
    if arguments.foreign and not arguments.unscored:
        raise InvalidInputError("--foreign", arguments.foreign, "a number together with --unscored")
    dataset = load_dataset(arguments.data, arguments.kinds, arguments.format)
    if arguments.foreign:
        dataset = with_cross_collection_questions(dataset, arguments.foreign, arguments.seed)
    select_questions(dataset, options)  # refuses bad options before the store is made
    answers: list[QuestionResult] = []
    with (
        _opened(arguments.per_question) as lines,
        open_eval_store(arguments.store, settings) as store,
        stage_progress() as progress,
    ):
        for answer in evaluate(dataset, options, store, settings=settings, progress=progress):
            answers.append(answer)
            if lines:
                lines.write(json.dumps(eval_report.question_line(answer), ensure_ascii=False) + "\n")
    _print(eval_report.build(dataset, options, settings, answers), as_json=arguments.json)
    return 0


def _options(arguments: argparse.Namespace) -> EvalOptions:
    from recall_loop.evals.runs.runner import EvalOptions

    return EvalOptions(
        ks=parse_cutoffs(arguments.k),
        categories=split_names(arguments.categories),
        limit=arguments.limit,
        seed=arguments.seed,
        unscored=arguments.unscored,
    )


def _opened(path: Path | None) -> AbstractContextManager[TextIO | None]:
    """Open the per-question file before any work is done, so that a bad path costs nothing."""
    return nullcontext() if path is None else path.open("w", encoding="utf-8")


def _print(report: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(report, ensure_ascii=False, indent=2) + "\n")
        return
    from rich.console import Console

    from recall_loop.evals.runs.eval_report import show

    console = Console()
    show(report, console if console.is_terminal else Console(width=PIPED_WIDTH))
