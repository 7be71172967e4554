"""Options that the measuring verbs share."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from recall_loop.cli.core.shared_options import Group, bounded_int, comma_separated, whole_numbers

if TYPE_CHECKING:  # loaded when a verb runs
    from recall_loop.evals.datasets.dataset_parts import Dataset, LabelledQuestion

KINDS = ("messages", "facts", "messages+facts", "all")
FORMATS = ("layout", "records", "locomo", "beam", "musique", "hotpotqa", "longmemeval", "tau")
DEFAULT_CUTS = (5, 10, 20)
_MAX_QUESTIONS = 1_000_000


def add_dataset_options(group: Group, *more: str) -> None:
    """Add `--format`, which may be one of `more`, too, and `--kinds`: how to read `--data`."""
    formats = (*FORMATS, *more)
    group.add_argument("--format", choices=formats, help="format of --data (default: recognised by its contents)")
    group.add_argument(
        "--kinds", choices=KINDS, help="documents of --data to load (default: messages if there are any, else all)"
    )


def add_setting_option(group: Group) -> None:
    """Add `--set`."""
    group.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting; may be repeated")


def add_question_options(group: Group) -> None:
    """Add the cuts and the choice of questions: `--k`, `--categories`, `--unscored`."""
    group.add_argument(
        "--k",
        type=whole_numbers,
        default=DEFAULT_CUTS,
        metavar="K,..",
        help="cutoffs of recall and all (default: 5,10,20)",
    )
    group.add_argument(
        "--categories", type=comma_separated, metavar="A,..", help="only questions of these categories (default: all)"
    )
    group.add_argument("--unscored", action="store_true", help="also ask unscored questions")


def add_sample_options(group: Group, option: str = "--limit", items: str = "questions") -> None:
    """Add the size of a sample of `items`, under the name `option`, and `--seed`."""
    group.add_argument(
        option, type=bounded_int(1, _MAX_QUESTIONS), metavar="N", help=f"ask N {items}, drawn by --seed (default: all)"
    )
    group.add_argument(
        "--seed", type=bounded_int(0, 2**31 - 1), default=0, metavar="N", help="random seed (default: %(default)s)"
    )


def add_resamples_option(group: Group) -> None:
    """Add `--resamples`."""
    group.add_argument(
        "--resamples",
        type=bounded_int(100, 100_000),
        default=2000,
        metavar="N",
        help="bootstrap resamples, drawn with --seed (default: %(default)s)",
    )


def add_cross_collection_option(group: Group, needed: str) -> None:
    """Add `--foreign`, which works together with the option `needed` only."""
    group.add_argument(
        "--foreign",
        type=bounded_int(1, _MAX_QUESTIONS),
        metavar="N",
        help=f"with {needed}: ask each collection N questions (or all) of another one too, which it can't answer "
        "(default: 0)",
    )


def warn_of_unloaded_gold(dataset: Dataset, questions: Sequence[LabelledQuestion]) -> None:
    """Warn on standard error if gold evidence isn't loaded, so that questions can't be answered well."""
    from recall_loop.cli.core.screen import sanitize
    from recall_loop.evals.datasets.datasets import unloaded_gold
    from recall_loop.state.display import format_count

    found = unloaded_gold(dataset, questions)
    if not found.questions:
        return
    parts = [f"gold evidence of {found.questions:,} of {format_count(len(questions), 'question')} isn't loaded"]
    parts += [f"--kinds {found.kinds.value} loads it"] if found.kinds else []
    parts += [f"{found.lost:,} name documents missing from {dataset.name} or without text"] if found.lost else []
    sys.stderr.write(
        sanitize(f"warning: {dataset.name}, loaded with --kinds {dataset.kinds.value}: {'; '.join(parts)}") + "\n"
    )
