"""`recall-loop ablate`: the worth of each ingredient of retrieval on labelled data sets (OPS-4)."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.progress_bars import stage_progress
from recall_loop.cli.core.shared_options import comma_separated
from recall_loop.cli.evals.eval_options import (
    add_dataset_options,
    add_resamples_option,
    add_sample_options,
    add_setting_option,
    warn_of_unloaded_gold,
)

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Leave out each ingredient of retrieval in turn (a retriever, a prior, bridges, a strategy, a bonus, the
reranker) and print its contribution on each data set: the differences in All@10, Recall@10, nDCG@10,
iterations and latency, with 95 % intervals of a paired bootstrap. No language model is used. Every question
is asked once per ingredient: start with a few.
"""
_EXAMPLE = """\
examples:
  recall-loop ablate --data path/to/set --questions 100
  recall-loop ablate --data path/to/set other/set --only reranker,bridges --json report.json
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "ablate", help="measure the contribution of each ingredient", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    add = parser.add_argument
    add("--data", type=Path, nargs="+", required=True, metavar="PATH", help="data sets in a format of `eval`")
    add_dataset_options(parser)
    add_sample_options(parser, "--questions", "questions of each set")
    add_resamples_option(parser)
    add("--only", type=comma_separated, metavar="A,..", help="only these, as the report names them (default: all)")
    add_setting_option(parser)
    add("--stores", type=Path, metavar="DIR", help="keep the stores in this folder (default: in memory)")
    add("--json", type=Path, metavar="FILE", help="write the report")


def run(args: argparse.Namespace, _: Settings) -> int:
    """Measure, print the report, and return the exit code 0."""
    from recall_loop.cli.core.screen import make_console
    from recall_loop.evals.ablation.ablation import AblationPlan, ablate, build, show
    from recall_loop.evals.ablation.ingredients import select_ingredients
    from recall_loop.evals.datasets.datasets import load_dataset
    from recall_loop.evals.runs.prompts import EvalOptions, select_questions, settings_with
    from recall_loop.memory.store.files.store_files import write_atomically
    from recall_loop.state.errors import InvalidInputError

    options, settings = EvalOptions(limit=args.questions, seed=args.seed), settings_with(args.set)
    plan = AblationPlan(args.only, args.resamples, args.seed, args.stores)
    select_ingredients(plan.only)  # refuses unknown names before anything is read
    datasets = [load_dataset(folder, args.kinds, args.format) for folder in args.data]
    for dataset in datasets:
        warn_of_unloaded_gold(dataset, select_questions(dataset, options))
    if args.json is not None and not args.json.parent.is_dir():  # a bad path must not cost a run
        raise InvalidInputError("--json", str(args.json), "a file in an existing folder")
    sets = []
    for dataset in datasets:
        with stage_progress() as progress:
            sets.append(ablate(dataset, options, plan, settings, progress))
        report = build(sets, options, args.resamples)
        if args.json is not None:  # after each set: the next one may take long
            write_atomically(args.json, json.dumps(report, ensure_ascii=False, indent=1) + "\n")
    show(report, make_console(tables=True))
    return 0
