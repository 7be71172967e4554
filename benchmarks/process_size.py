"""What a process costs before and while it works: seconds to start and to answer first, and resident memory (COST-2).

    python benchmarks/process_size.py [--messages N] [--questions N] [--json]

Each figure is of a fresh process. One imports the package, one shows `recall-loop --help`, one writes a thousand
messages to a new store and then answers, one opens that store for reading only and answers. Starts are given as
processor time beside that of an empty Python, the best of five, and first calls beside later ones of the same process;
sizes in MB of 1,048,576 bytes, as the system counts them at that moment, the model and Python itself included.
benchmarks/README.md explains the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from measuring import machine, print_report, resident_mb
from rich import box
from rich.console import Console
from rich.table import Table

STARTS = 5
GOALS = {"import recall_loop": 0.3, "recall-loop --help": 0.4}
MOST_READING, MOST_WRITING = 220, 400
MOST_BEFORE_FIRST = 0.3
_COMMAND_LINE = "import sys; from recall_loop.cli.main import main; sys.exit(main())"


def start_seconds(command: Sequence[str]) -> float:
    """Return the least processor time of a process that does nothing but start."""

    def spent() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    found = []
    for _ in range(STARTS):
        before = spent()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        found.append(spent() - before)
    return min(found)


def write(folder: str, messages: int, questions: int) -> dict[str, float]:
    """Write invented messages, then answer; return the sizes."""
    from recall_loop import Memory

    draw = random.Random(7)
    words = [f"{start}{end}" for start in ("har", "bel", "mon", "tri", "vas") for end in ("our", "ine", "eto", "ung")]
    said = [" ".join(draw.choices(words, k=draw.randint(6, 40))) for _ in range(messages)]
    turns = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(said)]
    with Memory(folder) as memory:
        sizes = {"opened": resident_mb()}
        memory.add(turns, user_id="ada", conversation_id="talk")
        sizes["written"] = resident_mb()
        for text in said[:questions]:
            memory.recall(f"Who said {text[:40]}?", user_id="ada")
        return sizes | {"answered": resident_mb(), "most ever": _most_mb()}


def read(folder: str, messages: int, questions: int) -> dict[str, float]:
    """Open the store for reading and answer; return the sizes. `messages` is how many it holds."""
    from recall_loop import MemoryStore, retrieve

    with MemoryStore.open(folder, create=False, read_only=True) as store:
        sizes = {"opened": resident_mb()}
        for number in range(questions):
            asked = f"Who said harour belung {number % max(1, messages)}?"
            retrieve({"id": f"r{number}", "messages": [{"content": asked}], "user_id": "ada"}, store=store)
        return sizes | {"answered": resident_mb(), "most ever": _most_mb()}


def first_answer(folder: str, messages: int, questions: int) -> dict[str, float]:
    """Open the store for reading, ask question after question; return processor seconds, imports left out."""
    from recall_loop import MemoryStore, retrieve

    with MemoryStore.open(folder, create=False, read_only=True) as store:

        def ask(number: int) -> None:
            asked = f"Who said harour belung {number % max(1, messages)}?"
            retrieve({"id": f"r{number}", "messages": [{"content": asked}], "user_id": "ada"}, store=store)

        return _first_and_later(ask, range(questions))


def first_write(folder: str, messages: int, questions: int) -> dict[str, float]:
    """Write message after message to a new store; return processor seconds. `messages` is ignored."""
    from recall_loop import Memory

    with tempfile.TemporaryDirectory(dir=Path(folder).parent) as new, Memory(new) as memory:
        said = [f"I moved to house number {number} in May." for number in range(questions)]
        return _first_and_later(lambda text: memory.add(text, user_id="ada"), said)


def _first_and_later(work: Callable[[Any], object], items: Iterable[Any]) -> dict[str, float]:
    found = []
    for item in items:
        started = process_time()
        work(item)
        found.append(process_time() - started)
    return {"first": found[0], "later": median(found[1:])}


def _most_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


PARTS = {"write": write, "read": read, "first answer": first_answer, "first write": first_write}


def _least_seconds(part: str, folder: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Return the least of what several fresh processes say of themselves, figure by figure."""
    found = [_figures_of(part, folder, arguments) for _ in range(STARTS)]
    return {name: min(each[name] for each in found) for name in found[0]}


def _figures_of(part: str, folder: str, arguments: argparse.Namespace) -> dict[str, float]:
    """Return what a fresh process says of itself."""
    counts = ["--messages", str(arguments.messages), "--questions", str(arguments.questions)]
    command = [sys.executable, __file__, "--part", part, "--folder", folder, *counts]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return figures


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure, and return the figures."""
    empty = start_seconds([sys.executable, "-c", "pass"])
    starts = {
        "import recall_loop": start_seconds([sys.executable, "-c", "import recall_loop"]),
        "recall-loop --help": start_seconds([sys.executable, "-c", _COMMAND_LINE, "--help"]),
        "from recall_loop import Memory": start_seconds([sys.executable, "-c", "from recall_loop import Memory"]),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = str(Path(name) / "store")
        writing = _figures_of("write", folder, arguments)
        reading = _figures_of("read", folder, arguments)
        firsts = {part: _least_seconds(part, folder, arguments) for part in ("first answer", "first write")}
    return {
        "machine": machine(),
        "messages": arguments.messages,
        "empty_python_s": empty,
        "start_s": starts,
        "first_s": firsts,
        "reading_mb": reading | {"goal": MOST_READING},
        "writing_mb": writing | {"goal": MOST_WRITING},
    }


def show(figures: dict[str, Any], console: Console) -> None:
    """Print the figures as a table."""
    table = Table(title_justify="left", caption=figures["machine"], box=box.SIMPLE_HEAD)
    for heading in ("figure", "value", "goal"):
        table.add_column(heading, justify="left" if heading == "figure" else "right")
    empty = figures["empty_python_s"]
    for name, seconds in figures["start_s"].items():
        goal = f"{GOALS[name]:.1f} s" if name in GOALS else ""
        table.add_row(name, f"{seconds:.2f} s, {seconds / empty:.1f} × an empty Python", goal)
    for part, seconds in figures["first_s"].items():
        first, later = seconds["first"], seconds["later"]
        said = f"{first:.2f} s, {first / later:.1f} × a later one"
        table.add_row(part, said, f"{MOST_BEFORE_FIRST + later:.2f} s")
    for part in ("reading", "writing"):
        table.add_section()
        sizes = figures[f"{part}_mb"]
        for name in [name for name in sizes if name != "goal"]:
            goal = f"{sizes['goal']} MB" if name in ("answered", "written") else ""
            table.add_row(f"{part}: {name}", f"{sizes[name]:.0f} MB", goal)
    console.print(table)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="What a process costs before and while it works.")
    parser.add_argument("--messages", type=int, default=1000, help="messages that are written (default: %(default)s)")
    parser.add_argument("--questions", type=int, default=20, help="questions that are asked (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        print(json.dumps(PARTS[arguments.part](arguments.folder, arguments.messages, arguments.questions)))
    else:
        print_report(arguments, run, show)


if __name__ == "__main__":
    main()
