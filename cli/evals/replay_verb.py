"""`recall-loop replay`: the same requests under several policies, side by side (OPS-4)."""

from __future__ import annotations

import argparse
import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.cli.core.progress_bars import stage_progress
from recall_loop.cli.evals.eval_options import (
    add_dataset_options,
    add_question_options,
    add_resamples_option,
    add_sample_options,
    warn_of_unloaded_gold,
)

if TYPE_CHECKING:  # loaded when the verb runs: `--help` waits for neither Chroma nor LangGraph
    from recall_loop.evals.replay.replay_report import ReplayOptions
    from recall_loop.evals.runs.dataset_ingest import StageProgress
    from recall_loop.evals.runs.prompts import ReplayPrompt
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.state.settings.settings import Settings

_DESCRIPTION = """\
Answer the same requests from the same store under several policies, and print their figures side by side:
recall, iterations, queries, latency and the reliability of the confidence, with 95 % intervals of the
differences from the first policy. `old` is the policy that this project replaces: one broad query, stop
at any result. `new` is the loop with the settings of the environment. A TOML file defines your own policy: a
table [settings], and optionally a name (default: the file's). No language model is used unless such a file
sets llm_model.
"""
_EXAMPLE = """\
examples:
  recall-loop replay --requests log.jsonl --store ./my-memory
  recall-loop replay --data path/to/set --policy old --policy new --json report.json --html report.html
"""
_DATASET_OPTIONS = ("format", "kinds", "categories", "unscored")
_REQUEST_OPTIONS = ("gold", "tenant")


def add_parser(subparsers: Any) -> None:
    """Add the verb and its options."""
    parser = subparsers.add_parser(
        "replay", help="compare policies on the same requests", description=_DESCRIPTION, epilog=_EXAMPLE
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--requests", type=Path, metavar="FILE", help="JSON Lines of requests, such as a log")
    source.add_argument("--data", type=Path, metavar="PATH", help="labelled data set in a format of `eval`")
    add = parser.add_argument
    add("--policy", action="append", metavar="P", help="old, new or a TOML file; may be repeated (default: old, new)")
    add(
        "--store",
        dest="store_path",
        metavar="PATH",
        help="folder or address of the store; needed with --requests, in memory by default with --data",
    )
    add("--gold", type=Path, metavar="FILE", help="labels of --requests: JSON Lines of id, gold, answerable, category")
    add("--tenant", metavar="T", help="tenant of --requests that don't name one (default: $RECALL_LOOP_TENANT)")
    add_dataset_options(parser)
    add_question_options(parser)
    add_sample_options(parser, items="requests")
    add_resamples_option(parser)
    add("--json", type=Path, metavar="FILE", help="write the report with one entry per run")
    add("--html", type=Path, metavar="FILE", help="write the report with plots; needs recall-loop[eval]")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Replay, print the report, and return the exit code 0."""
    from recall_loop.cli.core.screen import make_console
    from recall_loop.evals.replay import replay_report
    from recall_loop.evals.replay.replay_policies import read_policies
    from recall_loop.evals.runs.runner import replay

    _check(args)
    policies = read_policies(args.policy or ["old", "new"])
    with ExitStack() as stack:
        progress = stack.enter_context(stage_progress())
        options, prompts, store = _load_prompts(args, settings, stack, progress)
        runs = list(replay(prompts, policies, store, options.ks, progress))
        report = replay_report.build(options, policies, runs)
    if args.json:
        args.json.write_text(json.dumps(report, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if args.html:
        from recall_loop.evals.replay.replay_page import render_page

        args.html.write_text(render_page(report), encoding="utf-8")
    replay_report.show(report, make_console(tables=True))
    return 0


def _check(args: argparse.Namespace) -> None:
    """Refuse an option that would have no effect."""
    from recall_loop.state.errors import InvalidInputError

    for options, source in ((_DATASET_OPTIONS, "data"), (_REQUEST_OPTIONS, "requests")):
        for option in options:
            if getattr(args, option) and getattr(args, source) is None:
                raise InvalidInputError(f"--{option}", getattr(args, option), f"only with --{source}")
    if args.html is not None:
        from recall_loop.evals.replay.replay_page import check_plotting

        check_plotting("--html", args.html)
    for path in (args.json, args.html):
        if path is not None:
            path.open("ab").close()  # a bad path must not cost a replay, and a failed replay keeps an earlier report


def _load_prompts(
    args: argparse.Namespace, settings: Settings, stack: ExitStack, progress: StageProgress
) -> tuple[ReplayOptions, list[ReplayPrompt], MemoryStore]:
    from recall_loop.cli.core.common import open_store
    from recall_loop.evals.datasets.datasets import load_dataset
    from recall_loop.evals.replay.replay_policies import read_requests
    from recall_loop.evals.replay.replay_report import ReplayOptions
    from recall_loop.evals.runs.dataset_ingest import ingest, open_eval_store
    from recall_loop.evals.runs.prompts import (
        EvalOptions,
        asked_collections,
        draw_sample,
        prompts_from_dataset,
        select_questions,
    )

    choice = EvalOptions(args.k, args.categories, args.limit, args.seed, args.unscored)
    options = ReplayOptions((args.data or args.requests).name, choice.ks, args.limit, args.seed, args.resamples)
    if args.requests:
        requests = read_requests(args.requests, settings.tenant, args.gold)
        prompts = draw_sample(requests, args.limit, args.seed)
        return options, prompts, stack.enter_context(open_store(settings, read_only=True))
    dataset = load_dataset(args.data, args.kinds, args.format)
    warn_of_unloaded_gold(dataset, select_questions(dataset, choice))
    prompts = prompts_from_dataset(dataset, choice)
    store = stack.enter_context(open_eval_store(args.store_path or None, settings))
    ingest(store, dataset, asked_collections(prompts), progress)
    return options, prompts, store
