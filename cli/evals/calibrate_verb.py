"""`recall-loop calibrate`: calibrate the confidence score on labelled questions (CONF-4)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.shared_options import bounded_int, given_fields
from recall_loop.cli.evals.eval_options import (
    add_cross_collection_option,
    add_dataset_options,
    add_setting_option,
    warn_of_unloaded_gold,
)

if TYPE_CHECKING:  # loaded when the verb runs: `--help` waits for neither Chroma nor scikit-learn
    from recall_loop.evals.confidence.calibration_examples import CalibrationExample
    from recall_loop.policy.confidence.confidence_mapping import Calibration
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Fit a mapping from the measurements of a run to the probability that all of the evidence is among the first
ten facts, and to the probability that memory holds an answer at all, and write it as a small JSON file.
Questions come from files written by `recall-loop eval --unscored --foreign N --per-question FILE` (--replay)
or are asked now (--data). Figures are out of fold: no conversation is measured by a mapping that was
fitted on it. Needs the extra `eval` (pip install "recall-loop[eval]"). RECALL_LOOP_CALIBRATION_FILE selects the
file to use.
"""


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "calibrate", help="calibrate the confidence score on labelled questions", description=_DESCRIPTION
    )
    add = parser.add_argument
    add("--replay", type=Path, nargs="+", default=[], metavar="FILE", help="files of questions asked earlier")
    add("--data", type=Path, nargs="+", default=[], metavar="PATH", help="data sets to ask now")
    add_dataset_options(parser)
    add_setting_option(parser)
    add("-o", "--output", type=Path, required=True, metavar="FILE", help="file to write")
    add("--id", metavar="NAME", help="name of the mapping, which results carry (default: the file's name)")
    add("--date", metavar="DATE", help="date of the fit, noted in the file")
    add("--folds", type=bounded_int(2, 1000), metavar="N", help="folds of the cross-validation (default: 6)")
    add("--balance", type=float, metavar="X", help="0 = equal weight per question, 1 = per set (default: 0.5)")
    add("--high", type=float, metavar="P", help="target precision of `high` (default: 0.85)")
    add("--medium", type=float, metavar="P", help="target precision of `medium` (default: 0.6)")
    add("--wrongly", type=float, metavar="P", help="share of answerable questions to abstain on (default: 0.05)")
    add(
        "--each-set", action="store_true", help="choose the threshold of `high` so that its precision holds in each set"
    )
    add_cross_collection_option(parser, "--data")
    add(
        "--attributed",
        type=Path,
        metavar="FILE",
        help="a mapping for questions that name the speaker of a found message",
    )
    add(
        "--method",
        metavar="NAME",
        help="how to fit the score, by a name in the report's table of candidates (default: best)",
    )
    add("--plot", type=Path, metavar="FILE", help="draw the reliability before and after, as .svg, .png or .html")
    add("--json", action="store_true", help="print the file's content instead of tables")


def run(args: argparse.Namespace, _: Settings) -> int:
    """Fit, write the file, print the figures, and return the exit code 0."""
    from recall_loop.cli.core.screen import make_console
    from recall_loop.state.errors import InvalidInputError

    _require_extra()
    from recall_loop.evals.confidence.calibration_fit import CalibrationPlan, calibrate
    from recall_loop.evals.confidence.calibration_report import check_plot, draw_reliability, show
    from recall_loop.nodes.runtime.resources import load_calibration

    _check_questions(args)
    fields = given_fields(args, ("date", "folds", "balance", "high", "medium", "method", "wrongly"))
    plan = CalibrationPlan(args.id or args.output.stem, each_set=args.each_set, **fields)
    # A bad path must not cost any questions.
    if args.output.is_dir() or not args.output.parent.is_dir():
        raise InvalidInputError("--output", str(args.output), "a file in an existing folder")
    if args.plot:
        check_plot(args.plot)
    other = load_calibration(args.attributed) if args.attributed else None
    mapping = calibrate(list(_examples(args)), plan)
    if other:
        mapping = mapping.model_copy(update={"attributed": other.attributed or other})
    text = _as_json(mapping)
    args.output.write_text(text, encoding="utf-8")
    if args.plot:
        draw_reliability(mapping, args.plot)
    if args.json:
        sys.stdout.write(text)
    else:
        console = make_console(tables=True)
        show(mapping, console)
        console.print(f"Written to {args.output}.", markup=False)
    return 0


def _require_extra() -> None:
    from importlib.util import find_spec

    from recall_loop.state.errors import InvalidInputError

    missing = [name for name in ("sklearn", "scipy") if find_spec(name) is None]
    if missing:
        raise InvalidInputError("calibrate", f"no {' and no '.join(missing)}", 'pip install "recall-loop[eval]"')


def _check_questions(args: argparse.Namespace) -> None:
    from recall_loop.state.errors import NOTHING, InvalidInputError

    if not args.replay and not args.data:
        raise InvalidInputError("calibrate", NOTHING, "--replay FILE or --data PATH")
    if args.foreign and not args.data:
        raise InvalidInputError("--foreign", args.foreign, "a number together with --data")


def _as_json(mapping: Calibration) -> str:
    """Return a mapping as its file holds it: what it is comes before its figures."""
    content = mapping.model_dump(mode="json")
    head = {name: content[name] for name in ("version", "id", "method", "event")}
    return json.dumps(head | content, ensure_ascii=False, indent=1) + "\n"


def _examples(args: argparse.Namespace) -> Iterator[CalibrationExample]:
    from recall_loop.evals.confidence.calibration_examples import read_examples

    for path in args.replay:
        yield from read_examples(path)
    for folder in args.data:
        yield from _run_questions(folder, args)


def _run_questions(folder: Path, args: argparse.Namespace) -> list[CalibrationExample]:
    """Ask the questions of a data set, the unanswerable ones too."""
    from recall_loop.evals.confidence.calibration_examples import examples_from_answers
    from recall_loop.evals.datasets.datasets import load_dataset
    from recall_loop.evals.runs.dataset_ingest import open_eval_store, with_cross_collection_questions
    from recall_loop.evals.runs.prompts import EvalOptions, settings_with
    from recall_loop.evals.runs.runner import run_evaluation

    settings, dataset = settings_with(args.set), load_dataset(folder, args.kinds, args.format)
    if args.foreign:
        dataset = with_cross_collection_questions(dataset, args.foreign)
    warn_of_unloaded_gold(dataset, dataset.questions)
    with open_eval_store(None, settings) as store:
        answers = run_evaluation(dataset, EvalOptions(unscored=True), store, settings=settings)
        return examples_from_answers(answers, dataset)
