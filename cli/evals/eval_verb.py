"""`recall-loop eval`: measure retrieval on a labelled data set (OPS-4)."""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.progress_bars import stage_progress
from recall_loop.cli.evals.eval_options import (
    add_cross_collection_option,
    add_dataset_options,
    add_question_options,
    add_sample_options,
    add_setting_option,
    warn_of_unloaded_gold,
)
from recall_loop.cli.evals.living_eval import LIVING, add_living_options, check_living_options, run_living

if TYPE_CHECKING:  # loaded when the verb runs: `--help` waits for neither Chroma nor LangGraph
    from recall_loop.evals.runs.runner import ReplayRun
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Measure retrieval on a labelled data set: Recall@K, All@K, nDCG and MRR by category, iterations, repeated
queries, stop reasons and latency. PATH is a file or folder of LoCoMo, BEAM, MuSiQue, HotpotQA,
LongMemEval or tau-bench as published; or a folder with questions.jsonl, and records.jsonl or documents
in docs.jsonl, turns/, facts/, summaries/ and events/. Each collection is searched only by its own questions.
--format living asks questions about scripted lives instead: generated ones, or those of PATH.
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser("eval", help="measure retrieval on a labelled data set", description=_DESCRIPTION)
    add = parser.add_argument
    add("--data", type=Path, metavar="PATH", help="the data set; if absent, --format living generates lives")
    add_dataset_options(parser, LIVING)
    add_question_options(parser)
    add_sample_options(parser)
    add_setting_option(parser)
    add("--store", type=Path, metavar="PATH", help="keep the store in this folder (default: in memory)")
    add_cross_collection_option(parser, "--unscored")
    add("--per-question", type=Path, metavar="FILE", help="write one JSON line per question")
    add("--json", action="store_true", help="print the report as JSON")
    add_living_options(parser)


def run(args: argparse.Namespace, _: Settings) -> int:
    """Evaluate, print the report, and return the exit code 0."""
    check_living_options(args)
    if args.format == LIVING:
        return run_living(args)
    return _run_dataset(args)


def _run_dataset(args: argparse.Namespace) -> int:
    from recall_loop.cli.core.screen import make_console, print_json
    from recall_loop.evals.datasets.datasets import load_dataset
    from recall_loop.evals.replay import eval_report
    from recall_loop.evals.runs.dataset_ingest import open_eval_store, with_cross_collection_questions
    from recall_loop.evals.runs.prompts import EvalOptions, select_questions, settings_with
    from recall_loop.evals.runs.runner import run_evaluation
    from recall_loop.state.errors import InvalidInputError

    options = EvalOptions(args.k, args.categories, args.limit, args.seed, args.unscored)
    settings = settings_with(args.set)
    if args.foreign and not args.unscored:
        raise InvalidInputError("--foreign", args.foreign, "a number together with --unscored")
    dataset = load_dataset(args.data, args.kinds, args.format)
    if args.foreign:
        dataset = with_cross_collection_questions(dataset, args.foreign, args.seed)
    # Rejects bad options before the store is created.
    warn_of_unloaded_gold(dataset, select_questions(dataset, options))
    answers: list[ReplayRun] = []
    with (  # the per-question file first, so that a bad path wastes no work
        args.per_question.open("w", encoding="utf-8") if args.per_question else nullcontext() as lines,
        open_eval_store(args.store, settings) as store,
        stage_progress() as progress,
    ):
        for answer in run_evaluation(dataset, options, store, settings=settings, progress=progress):
            answers.append(answer)
            if lines:
                lines.write(json.dumps(eval_report.question_line(answer), ensure_ascii=False) + "\n")
    report = eval_report.build_eval_report(dataset, options, settings, answers)
    if args.json:
        print_json(report, indent=2)
    else:
        eval_report.show(report, make_console(tables=True))
    return 0
