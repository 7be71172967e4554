"""What a real language model adds to retrieval: its replies, its queries, its cost, beside the run without one.

    python benchmarks/loop/small_model.py --base-url http://127.0.0.1:8080/v1 --model NAME [--set name=value …] [--json]

Asks the same drawn questions of LoCoMo (messages) and MuSiQue with and without the model, and prints for each set
the share of calls that gave a valid reply by rung, how many of its queries survived the repeat filter, Recall@10 and
All@10 of both runs, and calls, tokens and seconds per request. A small model on a processor reads some hundred tokens
a second: `--set llm_prompt_tokens=2000` keeps a call below half a minute.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import Any

from recall_loop.evals.datasets.dataset_parts import LabelledQuestion
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.measures.quality_metrics import expand_to_sources, score_ranking
from recall_loop.evals.runs.dataset_ingest import ingest, open_eval_store
from recall_loop.evals.runs.prompts import EvalOptions, select_questions, settings_with
from recall_loop.evals.runs.runner import newest_time
from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.result import RetrieveResult
from recall_loop.state.settings.settings import Settings

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
CUT = 10


@dataclass
class ModelComparison:
    """What the questions of one set brought, with and without the model."""

    without: list[dict[str, float]] = field(default_factory=list)
    with_model: list[dict[str, float]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    requests: list[dict[str, float]] = field(default_factory=list)

    def report(self) -> dict[str, Any]:
        """Return the figures."""
        attempts = [(rung, outcome) for step in self.steps for rung, outcome in step["attempts"]]
        calls, valid = Counter(rung for rung, _ in attempts), Counter(rung for rung, said in attempts if said == "ok")
        plans = [step["detail"] for step in self.steps if "kept" in step["detail"]]
        offered, kept = sum(plan["queries"] for plan in plans), sum(plan["kept"] for plan in plans)
        return {
            "questions": len(self.with_model),
            "valid_by_rung": {rung: f"{valid[rung]}/{count}" for rung, count in calls.items()},
            "failures": Counter(step["failure"] for step in self.steps if step["failure"]),
            "queries_kept": f"{kept}/{offered}",
            "recall@10": [_mean(self.without, "recall@10"), _mean(self.with_model, "recall@10")],
            "all@10": [_mean(self.without, "all@10"), _mean(self.with_model, "all@10")],
            "iterations": [_mean(self.without, "iterations"), _mean(self.with_model, "iterations")],
            **{name: _mean(self.requests, name) for name in ("calls", "tokens", "seconds")},
        }


def _mean(rows: Sequence[dict[str, float]], name: str) -> float:
    return round(mean(row[name] for row in rows), 4) if rows else 0.0


def main() -> int:
    arguments = _arguments()
    base = {"llm_timeout_seconds": "300", "llm_total_seconds": "3600", "llm_temperature": "0"}
    given = [f"{name}={value}" for name, value in base.items()] + arguments.set
    plain = settings_with(given)
    model = settings_with([*given, f"llm_model={arguments.model}", f"llm_base_url={arguments.base_url}"])
    reports = {}
    for name, kinds, count in (("locomo", "messages", arguments.locomo), ("musique", "all", arguments.musique)):
        if count:
            reports[name] = _measure(arguments.data / name, kinds, count, plain, model).report()
    sys.stdout.write((json.dumps(reports, indent=2) if arguments.json else _table(reports)) + "\n")
    return 0


def _measure(folder: Path, kinds: str, count: int, plain: Settings, model: Settings) -> ModelComparison:
    dataset, tally = load_dataset(folder, kinds), ModelComparison()
    questions = select_questions(dataset, EvalOptions(limit=count))
    with open_eval_store(None, plain) as store:
        ingest(store, dataset, list(dict.fromkeys(question.collection for question in questions)))
        for done, question in enumerate(questions, 1):
            request = {
                "messages": [{"content": question.question}],
                "tenant": question.collection,
                "reference_time": question.reference_time or newest_time(store, question.collection) or "2026-01-01",
                "max_facts": 20,
                "debug": True,
                "write_answer": False,
            }
            tally.without.append(_scores(question, retrieve(request, store=store, settings=plain)))
            _with_model(tally, question, request, store, model)
            sys.stderr.write(f"{folder.name} {done}/{len(questions)}\n")
    return tally


def _with_model(
    tally: ModelComparison, question: LabelledQuestion, request: dict[str, Any], store: MemoryStore, settings: Settings
) -> None:
    result = retrieve(request, store=store, settings=settings)
    steps = result.metadata["trace"]["llm_steps"]
    tally.with_model.append(_scores(question, result))
    tally.steps += steps
    waited = sum(step["duration_ms"] for step in steps) / 1000
    tally.requests.append(
        {"calls": result.metadata["llm_calls"], "tokens": result.metadata["llm_tokens"], "seconds": waited}
    )


def _scores(question: LabelledQuestion, result: RetrieveResult) -> dict[str, float]:
    return score_ranking(expand_to_sources(result.facts), question.gold, (CUT,)) | {
        "iterations": float(result.stop.iteration)
    }


def _table(reports: dict[str, dict[str, Any]]) -> str:
    lines = []
    for name, report in reports.items():
        lines.append(f"{name}, {report['questions']} questions (without / with the model)")
        lines += [f"  {key:<14} {_cell(value)}" for key, value in report.items() if key != "questions"]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return " / ".join(f"{each:.3f}" for each in value)
    return (
        ", ".join(f"{key} {each}" for key, each in value.items()) or "none" if isinstance(value, dict) else str(value)
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", required=True, help="OpenAI-compatible API of the model")
    parser.add_argument("--model", default="local", help="its name there (default: %(default)s)")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets (default: %(default)s)")
    parser.add_argument("--locomo", type=int, default=30, help="questions of LoCoMo (default: %(default)s)")
    parser.add_argument("--musique", type=int, default=20, help="questions of MuSiQue (default: %(default)s)")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="a setting; may be repeated")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
