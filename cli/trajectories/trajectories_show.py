"""Past runs on the terminal: searched, listed, shown and counted."""

from __future__ import annotations

import argparse
import json
from collections import Counter

from recall_loop.cli.core.common import model_from, open_store, scope_from, trajectory_of
from recall_loop.cli.core.run_rendering import format_minute
from recall_loop.cli.core.screen import Screen, dotted, print_json, sanitize, shorten
from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.memory.trajectories.contrast.results import (
    TrajectoryItem,
    execution_text,
    execution_tooltip,
    format_execution,
    format_stars,
    learning_value_text,
    learning_value_tooltip,
    run_texts,
)
from recall_loop.state.display import format_count
from recall_loop.state.records.legacy_trajectories import is_legacy
from recall_loop.state.records.records import Record
from recall_loop.state.records.trajectories import RunData, ToolUse, TurnMessage, run_from_record
from recall_loop.state.scope import ExecutionStatus, Scope
from recall_loop.state.search import TrajectorySearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType, Role

_SHOWN_TEXT = 600
_SHOWN_ARGUMENTS = 200
_SHOWN_TOOLS = 15
_SPEAKERS = {Role.USER: "user", Role.ASSISTANT: "agent", Role.TOOL: "tool", Role.SYSTEM: "system"}


def show(args: argparse.Namespace, settings: Settings) -> int:
    """Print a run; 0."""
    with open_store(settings, read_only=True) as store:
        record = trajectory_of(store, args.id, settings.tenant)
    run = run_from_record(record)
    if args.json:
        print_json({"id": record.id, **run.model_dump(mode="json", exclude_none=True)})
    else:
        _RunScreen(None if args.full else _SHOWN_TEXT).write(record, run)
    return 0


class _RunScreen(Screen):
    """Writes one run; texts have at most `limit` characters, or all where it is None."""

    def __init__(self, limit: int | None) -> None:
        super().__init__()
        self._limit = limit

    def write(self, record: Record, run: RunData) -> None:
        """Write the task, the execution, the learning value, and then the turns."""
        line = self.line
        line(self._cut(run.task) or record.id, "bold")
        line(_about(record, run), "dim")
        line()
        self._labels(run)
        if run.summary:
            line(f"Summary: {self._cut(run.summary)}")
        if run.metadata.error:
            line(f"Error: {self._cut(run.metadata.error)}", "red")
        for number, turn in enumerate(run.turns, start=1):
            line()
            step = f"step {turn.step_id}" if turn.step_id else None
            line(dotted(f"Turn {number}", step, turn.model), "bold cyan")
            for message in turn.messages:
                self._message(message)

    def _labels(self, run: RunData) -> None:
        execution, learning = run_texts(run)
        self.line(execution, "bold")
        reason = f"{run.execution.reasoning} " if run.execution.reasoning else ""
        self.line(f"{reason}(confidence {run.execution.confidence:.2f})", indent=3)
        self.line(execution_tooltip(run.execution.status), "dim", 3)
        self.line(learning, "bold")
        scoring = run.scoring
        if scoring is not None:
            if scoring.sub_scores is not None:
                self.bars(scoring.sub_scores.model_dump(), 3, "cyan")
            self.line(f"{self._cut(scoring.reasoning)} (by {scoring.scorer})".strip(), indent=3)
        if run.scoring_error:
            self.line(f"scoring failed: {run.scoring_error}", "yellow", 3)
        self.line(learning_value_tooltip(run.outcome_score), "dim", 3)

    def _message(self, message: TurnMessage) -> None:
        name = f" {message.name}" if message.name else ""
        text = message.content if message.content.strip() else ""
        if text or not message.tool_calls:
            style = "red" if message.error else ""
            self.line(f"{_SPEAKERS[message.role]}{name}: {self._cut(text) or '(no text)'}", style, 3)
        for call in message.tool_calls:
            self.line(f"{_SPEAKERS[message.role]} calls {self._call(call)}", "yellow", 3)
        if message.error and message.error not in text:
            self.line(f"error: {self._cut(message.error)}", "red", 3)

    def _call(self, call: ToolUse) -> str:
        arguments = call.arguments
        if not isinstance(arguments, str):
            arguments = ", ".join(f"{name}={json.dumps(arguments[name], ensure_ascii=False)}" for name in arguments)
        if self._limit is not None:
            arguments = shorten(sanitize(arguments), _SHOWN_ARGUMENTS)
        return f"{call.name}({arguments}){f' error: {call.error}' if call.error else ''}"

    def _cut(self, text: str) -> str:
        return text if self._limit is None else shorten(sanitize(text), self._limit)


def _about(record: Record, run: RunData) -> str:
    metadata, seconds = run.metadata, run.metadata.duration_seconds
    tokens = metadata.input_tokens or metadata.output_tokens
    return dotted(
        record.id,
        f"agent {record.agent_id}" if record.agent_id else None,
        format_minute(record.created_at),
        None if seconds is None else f"{seconds:.1f} s",
        f"{format_count(metadata.step_count, 'step')}, {format_count(metadata.message_count, 'message')}",
        f"tools: {', '.join(metadata.tools_used)}" if metadata.tools_used else None,
        f"model: {', '.join(metadata.models)}" if metadata.models else None,
        f"tokens: {metadata.input_tokens or 0:,} in, {metadata.output_tokens or 0:,} out" if tokens else None,
        f"complexity: {run.complexity_level.value}" if run.complexity_level else None,
        f"category: {run.task_category}" if run.task_category else None,
        f"tags: {', '.join(record.tags)}" if record.tags else None,
    )


def stats(args: argparse.Namespace, settings: Settings) -> int:
    """Count a tenant's runs by execution and by learning value; 0."""
    counts = _RunStats()
    with open_store(settings, read_only=True) as store:
        for record in store.scan(Scope(tenant=settings.tenant), content_types=[ContentType.TRAJECTORY]):
            counts.old += is_legacy(record.attributes)
            counts.add(run_from_record(record))
    if args.json:
        print_json(counts.as_json())
    else:
        counts.show()
    return 0


class _RunStats:
    """Counts of runs."""

    def __init__(self) -> None:
        self.runs = self.pending = self.old = 0
        self.cells: Counter[tuple[ExecutionStatus, int | None]] = Counter()
        self.tools: Counter[str] = Counter()
        self.categories: Counter[str] = Counter()
        self.levels: Counter[str] = Counter()

    def add(self, run: RunData) -> None:
        self.runs += 1
        self.pending += run.scoring_pending
        full = None if run.outcome_score is None else format_stars(run.outcome_score).count("⭐")
        self.cells[run.execution.status, full] += 1
        self.tools.update(run.metadata.tools_used)
        self.categories.update([run.task_category] if run.task_category else [])
        self.levels.update([run.complexity_level.value] if run.complexity_level else [])

    def show(self) -> None:
        screen = Screen()
        screen.line(format_count(self.runs, "run"), "bold")
        columns: list[int | None] = [0, 1, 2, 3, 4, 5, None]
        heads = [f"{full} ⭐" if full is not None else "not scored" for full in columns]
        screen.line(f"{'Execution':<14} {' '.join(f'{head:>10}' for head in heads)}   (learning value)", "dim")
        for status in ExecutionStatus:
            numbers = [self.cells[status, full] for full in columns]
            if any(numbers):
                screen.line(f"{format_execution(status):<14} {' '.join(f'{number:>10,}' for number in numbers)}")
        for name, counts in (("complexity", self.levels), ("category", self.categories), ("tool", self.tools)):
            if counts:
                most = ", ".join(f"{sanitize(word)} {number:,}" for word, number in counts.most_common(_SHOWN_TOOLS))
                screen.line(f"{name + ':':<12} {most}")
        if self.old:
            screen.line(f"{format_count(self.old, 'old record')}: `recall-loop trajectories migrate`", "yellow")
        if self.pending:
            runs = format_count(self.pending, "run")
            screen.line(f"{runs} queued: `recall-loop trajectories score --pending`", "yellow")

    def as_json(self) -> dict[str, object]:
        by_status: Counter[str] = Counter()
        by_stars: Counter[str] = Counter()
        for (status, full), number in self.cells.items():
            by_status[status.value] += number
            by_stars["unscored" if full is None else str(full)] += number
        return {
            "runs": self.runs,
            "execution": by_status,
            "learning_value_stars": by_stars,
            "pending": self.pending,
            "old": self.old,
            "complexity_levels": self.levels,
            "task_categories": self.categories,
            "tools": self.tools,
        }


_SHOWN_SUMMARY = 320
_HEADINGS = {
    "trajectories": "Past runs, best match first",
    "successes": "High learning value",
    "moderate": "Moderate learning value",
    "failures": "Low learning value",
    "unscored": "Not scored",
    "relevant_experiences": "Relevant experiences",
}


def search(args: argparse.Namespace, settings: Settings) -> int:
    """Search and print; 0, also where nothing was found."""
    scope, params = scope_from(args, settings), model_from(args, TrajectorySearchParams)
    with open_store(settings, read_only=True) as store:
        result = search_trajectories(store, args.query, scope=scope, params=params)
    if args.json:
        print_json({"query": result.query, **result.to_display()})
        return 0
    screen = Screen()
    if result.degraded_reason:
        screen.line(f"warning: {result.degraded_reason}", "yellow")
    screen.line(result.message, "bold")
    for name, heading in _HEADINGS.items():
        items: tuple[TrajectoryItem, ...] = getattr(result, name)
        if items:
            screen.line()
            screen.line(f"{heading} ({len(items)})", "bold cyan")
            for item in items:
                _item(screen, item)
    return 0


def _item(screen: Screen, item: TrajectoryItem) -> None:
    screen.line(f"{item.id} · similarity {item.similarity:.2f}", indent=2)
    screen.line(execution_text(item.details.status), indent=4)
    screen.line(learning_value_text(item.outcome_score, pending=item.scoring_pending), indent=4)
    for text in (item.summary, *item.errors):
        screen.line(shorten(sanitize(text), _SHOWN_SUMMARY), indent=4)
    if item.details.tools_used:
        screen.line(f"tools: {', '.join(item.details.tools_used)} · {item.details.step_count} steps", "dim", 4)
    screen.line(item.note, "dim", 4)
