"""What the verbs that measure share: cuts, and bars for their stages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recall_loop.evals.runs.dataset_ingest import StageProgress

PIPED_WIDTH = 200  # a pipe has no width: rows stay whole
KINDS = ("messages", "facts", "messages+facts", "all")
FORMATS = ("layout", "records", "locomo", "beam", "musique", "hotpotqa", "longmemeval", "tau")
MAX_QUESTIONS = 1_000_000


def parse_cutoffs(text: str) -> tuple[int, ...]:
    """Return the cuts that `--k` names.

    Raises:
        InvalidInputError: it isn't a list of whole numbers.
    """
    from recall_loop.state.errors import InvalidInputError

    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError("k", text, "whole numbers with commas between, such as 5,10,20") from None


def split_names(text: str | None) -> tuple[str, ...] | None:
    """Return the names with commas between that an option gives; None where it wasn't given."""
    return None if text is None else tuple(each.strip() for each in text.split(","))


@contextmanager
def stage_progress() -> Iterator[StageProgress]:
    """Show how far ingesting and asking are, on stderr; nothing where stderr is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console, disable=not console.is_terminal) as bars:
        tasks = {stage: bars.add_task(stage, total=None) for stage in ("ingest", "ask")}

        def tell(stage: str, done: int, total: int) -> None:
            bars.update(tasks[stage], completed=done, total=total)

        yield tell
