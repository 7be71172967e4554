"""`recall-loop eval --format living`: scripted lives, generated or from files (LIVE-8)."""

from __future__ import annotations

import argparse
import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.progress_bars import stage_progress
from recall_loop.cli.core.shared_options import Group, comma_separated, whole_numbers
from recall_loop.cli.evals.eval_options import DEFAULT_CUTS

if TYPE_CHECKING:  # loaded when the verb runs: `--help` waits for neither Chroma nor LangGraph
    from recall_loop.evals.datasets.dataset_parts import Dataset
    from recall_loop.evals.living.life import Life, LifeAnswer

LIVING = "living"
_SIZES = (0, 20, 200, 2000)
_PARTS = ("dev", "held")
_LIVING_ONLY = ("part", "sizes", "languages", "around", "conversations")
_OTHERS_ONLY = ("kinds", "categories", "foreign", "unscored", "store")
_CONVERSATION_QUESTIONS = 100


def add_living_options(parser: Any) -> None:
    """Add the options that only lives have."""
    group: Group = parser.add_argument_group("scripted lives (--format living)")
    group.add_argument("--part", choices=_PARTS, help="which half of the kinds and sentences to use (default: dev)")
    group.add_argument(
        "--sizes", type=whole_numbers, metavar="N,..", help="other records around each life (default: 0,20,200,2000)"
    )
    group.add_argument(
        "--languages", type=comma_separated, metavar="A,..", help="languages: en, de, es, fr, zh or ru (default: all)"
    )
    group.add_argument("--around", type=Path, metavar="PATH", help="data set whose messages surround the lives")
    group.add_argument(
        "--conversations", type=Path, metavar="PATH", help="data set to count false corrections in (100 questions)"
    )


def check_living_options(args: argparse.Namespace) -> None:
    """Refuse options for scripted lives without --format living, and the others with it."""
    from recall_loop.state.errors import NOTHING, InvalidInputError

    living = args.format == LIVING
    if living and args.k != DEFAULT_CUTS:
        raise InvalidInputError("--k", args.k, "only without --format living")
    for name in _OTHERS_ONLY if living else _LIVING_ONLY:
        if getattr(args, name) not in (None, False):
            allowed = "only without --format living" if living else "only with --format living"
            raise InvalidInputError(f"--{name}", getattr(args, name), allowed)
    if args.data is None and not living:
        raise InvalidInputError("--data", NOTHING, "the path of a data set; only --format living works without one")


def run_living(args: argparse.Namespace) -> int:
    """Ask the lives, print the report, and return the exit code 0."""
    from recall_loop.cli.core.screen import make_console, print_json
    from recall_loop.evals.living import life_report
    from recall_loop.evals.living.life_runner import LivingOptions, false_corrections, run_lives
    from recall_loop.evals.runs.dataset_ingest import open_eval_store
    from recall_loop.evals.runs.prompts import settings_with

    settings, lives = settings_with(args.set), _chosen_lives(args)
    options = LivingOptions(args.sizes or _SIZES, args.seed, _conversations(args.around))
    conversations, found = _conversations(args.conversations), None
    answers: list[LifeAnswer] = []
    with (
        args.per_question.open("w", encoding="utf-8") if args.per_question else nullcontext() as lines,
        open_eval_store(None, settings) as store,
        stage_progress() as progress,
    ):
        for answer in run_lives(lives, options, store, settings=settings, progress=progress):
            answers.append(answer)
            if lines:
                lines.write(json.dumps(life_report.life_line(answer), ensure_ascii=False) + "\n")
        if conversations:
            asked = _CONVERSATION_QUESTIONS
            found = false_corrections(conversations, asked, store, settings=settings, seed=args.seed, progress=progress)
    source = args.data.name if args.data else f"generated, part {args.part or _PARTS[0]}"
    report = life_report.build_living_report(source, lives, options, settings, answers, found)
    if args.json:
        print_json(report, indent=2)
    else:
        life_report.show(report, make_console(tables=True))
    return 0


def _chosen_lives(args: argparse.Namespace) -> list[Life]:
    """Return the lives of `--data`, or generated ones, in the languages that are wanted."""
    from recall_loop.evals.living.generated_lives import generate_lives
    from recall_loop.evals.living.grammar import LANGUAGES, load_grammar
    from recall_loop.evals.living.life_files import read_lives
    from recall_loop.evals.runs.prompts import draw_sample
    from recall_loop.state.errors import InvalidInputError

    languages = list(args.languages or LANGUAGES)
    for name in languages:
        load_grammar(name)  # refuses an unknown one
    part = args.part or _PARTS[0]
    if args.data is None:
        return generate_lives(languages, part, args.seed, args.limit)
    found = [life for life in read_lives(args.data, part, args.seed) if life.language in languages]
    if not found:
        raise InvalidInputError("--languages", ",".join(languages), f"a language of {args.data.name}")
    return draw_sample(found, args.limit, args.seed)


def _conversations(path: Path | None) -> Dataset | None:
    from recall_loop.evals.datasets.datasets import load_dataset

    return load_dataset(path, "messages") if path else None
