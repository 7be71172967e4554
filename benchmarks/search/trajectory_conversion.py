"""Conversion of real agent runs (TRAJ-1): how many, how fast, and how they ended against what is recorded of them.

    python benchmarks/search/trajectory_conversion.py --runs ../shared/data/tau/trajectories.jsonl

Prints one table: execution status by the runs' own `termination` and by their `reward`. The reward is no input
of the conversion, and no status: a run that completed may have done the wrong thing. Conversion means messages in,
`RunData` out, masked; "record" adds the validated record that a store takes. The best of five passes counts, in
process time, since other work on the machine is not the converter's.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from recall_loop.memory.trajectories.capture.convert import RunInfo, convert_run
from recall_loop.memory.trajectories.capture.masking import MASK
from recall_loop.memory.trajectories.capture.runs_file import record_from_run
from recall_loop.state.records.trajectories import RunData
from recall_loop.state.scope import ExecutionStatus

RUNS = Path(__file__).resolve().parents[3] / "shared" / "data" / "tau" / "trajectories.jsonl"
PASSES = 5
GOAL = 500.0


def main() -> None:
    """Convert, check that nothing was dropped, and print."""
    parser = argparse.ArgumentParser(description="Conversion of real agent runs.")
    parser.add_argument("--runs", type=Path, default=RUNS, metavar="FILE", help="JSON Lines (default: %(default)s)")
    path = parser.parse_args().runs
    lines = path.read_text(encoding="utf-8").splitlines()
    given = [json.loads(line) for line in lines]
    runs = [to_run(one) for one in given]
    print(f"{len(runs)} of {len(given)} runs converted, {lost(given, runs)} messages or calls lost")
    print(f"{sum(run.model_dump_json().count(MASK) for run in runs)} secrets masked\n")
    print_table("termination", given, runs)
    print_table("reward", given, runs)
    rules = Counter(run.execution.confidence for run in runs)
    print("confidence:", ", ".join(f"{value:.2f} × {number}" for value, number in sorted(rules.items())), "\n")
    print_speed("convert", lambda: [to_run(one) for one in given], len(given), goal=True)
    print_speed("convert, as a record", lambda: [record_from_run(one) for one in given], len(given))
    print_speed(
        "json.loads of the same lines, for comparison", lambda: [json.loads(line) for line in lines], len(given)
    )


def to_run(given: dict[str, Any]) -> RunData:
    """Convert one run. What is recorded of its result stays out."""
    info = RunInfo(
        run_id=given["id"], task=given.get("task"), stop_reason=given.get("termination"), model=given.get("agent_model")
    )
    return convert_run(given["messages"], info)


def lost(given: Sequence[dict[str, Any]], runs: Sequence[RunData]) -> int:
    """Return how many messages and tool calls of the source the runs lack."""
    count = 0
    for source, run in zip(given, runs, strict=True):
        messages = [message for turn in run.turns for message in turn.messages]
        calls = sum(len(message.get("tool_calls") or ()) for message in source["messages"])
        count += len(source["messages"]) - len(messages)
        count += calls - sum(len(message.tool_calls) for message in messages)
    return count


def print_table(name: str, given: Sequence[dict[str, Any]], runs: Sequence[RunData]) -> None:
    """Print execution status against one recorded field."""
    cells = Counter((run.execution.status, str(one.get(name))) for one, run in zip(given, runs, strict=True))
    columns = sorted({value for _, value in cells})
    width = max(12, *(len(column) + 1 for column in columns))
    print(f"{'execution by ' + name:<26}" + "".join(f"{column:>{width}}" for column in columns))
    for status in ExecutionStatus:
        numbers = [cells[status, column] for column in columns]
        print(f"{status.value:<26}" + "".join(f"{number:>{width}}" for number in numbers))
    print()


def print_speed(name: str, work: Callable[[], object], number: int, *, goal: bool = False) -> None:
    """Print runs per second of the best pass, in process time and by the clock."""
    best, clock = float("inf"), float("inf")
    for _ in range(PASSES):
        began, began_clock = time.process_time(), time.perf_counter()
        work()
        best = min(best, time.process_time() - began)
        clock = min(clock, time.perf_counter() - began_clock)
    words = f" (goal: {GOAL:,.0f})" if goal else ""
    print(f"{name}: {number / best:,.0f} runs/s{words}; by the clock {number / clock:,.0f}")


if __name__ == "__main__":
    main()
