"""`recall-loop trajectories search`: past runs, with or without contrasts (TRAJ-5, TRAJ-6)."""

from __future__ import annotations

import argparse

from recall_loop.cli.core.common import model_from, open_store, scope_from
from recall_loop.cli.core.safe_text import sanitize, shorten
from recall_loop.cli.core.screen import Screen, print_json
from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.memory.trajectories.contrast.labels import execution_text, learning_value_text
from recall_loop.memory.trajectories.contrast.results import TrajectoryItem, TrajectorySearchResult
from recall_loop.state.search import TrajectorySearchParams
from recall_loop.state.settings.settings import Settings

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
    """Search and print; 0, also where nothing was result."""
    scope, params = scope_from(args, settings), model_from(args, TrajectorySearchParams)
    with open_store(settings, read_only=True) as store:
        result = search_trajectories(store, args.query, scope=scope, params=params)
    if args.json:
        print_json({"query": result.query, **result.to_display()})
    else:
        print_trajectories(result)
    return 0


def print_trajectories(result: TrajectorySearchResult) -> None:
    """Write the runs that were found, each group under its heading."""
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


def _item(screen: Screen, item: TrajectoryItem) -> None:
    screen.line(f"{item.id} · similarity {item.similarity:.2f}", indent=2)
    screen.line(execution_text(item.details.status), indent=4)
    screen.line(learning_value_text(item.outcome_score, pending=item.scoring_pending), indent=4)
    screen.line(shorten(sanitize(item.summary), _SHOWN_SUMMARY), indent=4)
    if item.details.tools_used:
        screen.line(f"tools: {', '.join(item.details.tools_used)} · {item.details.step_count} steps", "dim", 4)
    screen.line(item.note, "dim", 4)
