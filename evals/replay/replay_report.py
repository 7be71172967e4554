"""Reports of a replay: one JSON-able mapping, and the same as tables for people (OPS-4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console

from recall_loop.evals.replay.eval_report import counts_text, number, report_table
from recall_loop.evals.replay.policy_comparison import (
    COMPLETE_DESCRIPTION,
    RESAMPLES,
    Difference,
    differences,
    policy_figures,
)
from recall_loop.evals.runs.loop_policy import Policy
from recall_loop.evals.runs.prompts import changed_settings
from recall_loop.evals.runs.runner import ReplayRun

_TOTALS = ("queries_executed", "queries_repeated", "llm_calls", "llm_tokens", "gold_found", "relevant_facts")
MEASURE_LABELS = {
    "gold_found": "unique relevant facts found (gold)",
    "relevant_facts": "facts similar enough to count as relevant",
    "iterations": "iterations, mean",
    "queries_executed": "queries executed",
    "queries_repeated": "queries repeated",
    "latency_ms": "latency p50, ms",
    "llm_calls": "LLM calls",
    "llm_tokens": "LLM tokens",
    "mrr": "MRR",
}


@dataclass(frozen=True)
class ReplayOptions:
    """The source of the prompts, and the cuts, draw and resampling that figures depend on."""

    source: str
    ks: tuple[int, ...]
    limit: int | None = None
    seed: int = 0
    resamples: int = RESAMPLES


def build(asked: ReplayOptions, policies: Sequence[Policy], runs: Sequence[ReplayRun]) -> dict[str, Any]:
    """Return the report; the other policies are compared with the first.

    Shares and metrics lie in [0,1], latencies are milliseconds. Equal but for latencies each time it is made from
    the same prompts, store, policies and seed. `settings` names those that differ from their defaults, without
    secrets. `runs` has one line per prompt and policy.
    """
    by_policy = {policy.name: [run for run in runs if run.policy == policy.name] for policy in policies}
    first = policies[0].name
    return {
        "asked": asdict(asked) | {"ks": list(asked.ks)},
        "baseline": first,
        "policies": [
            {"name": each.name, "settings": changed_settings(each.settings)} | policy_figures(by_policy[each.name])
            for each in policies
        ],
        "differences": {
            policy.name: [
                asdict(each)
                for each in differences(
                    by_policy[first], by_policy[policy.name], resamples=asked.resamples, seed=asked.seed
                )
            ]
            for policy in policies[1:]
        },
        "runs": [run_line(run) for run in runs],
    }


def run_line(run: ReplayRun) -> dict[str, Any]:
    """Return one run as JSON-able values, with the inputs of a calibration."""
    done, prompt = run.result, run.prompt
    return {
        "id": prompt.request.id,
        "tenant": prompt.request.tenant,
        "category": prompt.category,
        "policy": run.policy,
        "gold": list(prompt.gold),
        "answerable": prompt.answerable,
        "complete": run.complete,
        "ids": run.ids,
        "scores": run.scores,
        "gold_found": run.gold_found,
        "relevant_facts": run.relevant,
        "iterations": done.iterations,
        "new_facts": list(done.new_facts),
        "queries_executed": done.executed,
        "queries_repeated": done.repeated,
        "stop_reason": done.stop_reason,
        "confidence": {
            "label": done.label,
            "score": done.score,
            "answerable": done.answerable,
            "raw_score": done.confidence.get("raw_score"),
            "components": done.confidence.get("components", {}),
        },
        "llm_calls": done.llm_calls,
        "llm_tokens": done.llm_tokens,
        "latency_ms": run.latency_ms,
    }


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print the report as tables."""
    first = report["policies"][0]
    words = f"{report['asked']['source']}: {first['prompts']:,} requests, {first['scored']:,} scored"
    parts = (
        (words, report_table(*comparison_headers(report), rows=comparison_rows(report), no_wrap=True)),
        ("stop reasons", report_table("policy", "reasons", rows=stop_rows(report), left=2)),
        (
            f"confidence: {COMPLETE_DESCRIPTION}",
            report_table("policy", "label", "yes", "no", "share", rows=confusion_rows(report), left=2),
        ),
    )
    for title, table in parts:
        console.print(title, markup=False, highlight=False)
        console.print(table)


def measure_label(measure: str) -> str:
    """Return the name of a measure for people."""
    metric, at, cut = measure.partition("@")
    heads = {"recall": "Recall", "all": "All", "ndcg": "nDCG"}
    return MEASURE_LABELS.get(measure) or heads.get(metric, metric) + at + cut


def comparison_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """Return the comparison as text: measure, each policy's figure, each other policy's difference with interval."""
    policies = report["policies"]
    found = []
    for measure in _measured(report):
        cells = [_figure(policy, measure) for policy in policies]
        cells += [_difference(parts, measure) for parts in report["differences"].values()]
        found.append([measure_label(measure), *cells])
    p95 = [f"{policy['latency_ms']['p95']:.1f}" for policy in policies]
    found.append(["latency p95, ms", *p95, *("" for _ in policies[1:])])
    for by in ("score", "answerable"):
        cells = [number(policy["answerable_auroc"][by]) for policy in policies]
        found.append([f"unanswerable against answerable, AUROC by {by}", *cells, *("" for _ in policies[1:])])
    return found


def comparison_headers(report: Mapping[str, Any]) -> list[str]:
    """Return the headers of `comparison_rows`."""
    names = [policy["name"] for policy in report["policies"]]
    return ["", *names, *(f"{name} − {names[0]} [95 %]" for name in names[1:])]


def _measured(report: Mapping[str, Any]) -> list[str]:
    first = report["policies"][0]
    metrics = [name for name in first if "@" in name or name == "mrr"]
    labelled = ["gold_found"] if first["scored"] else []
    searched = ("iterations", "queries_executed", "queries_repeated", "llm_calls", "llm_tokens", "latency_ms")
    return [*labelled, "relevant_facts", *metrics, *searched]


def _figure(policy: Mapping[str, Any], measure: str) -> str:
    if measure == "latency_ms":
        return f"{policy['latency_ms']['p50']:.1f}"
    value = policy[measure]
    if measure == "gold_found":
        return f"{value:,} of {policy['gold']:,}"
    if measure in _TOTALS:
        return f"{value:,}"
    return f"{value:.2f}" if measure == "iterations" else f"{value:.3f}"


def _difference(parts: Sequence[Mapping[str, Any]], measure: str) -> str:
    part = next((Difference(**each) for each in parts if each["measure"] == measure), None)
    if part is None:
        return ""
    digits = 1 if measure in ("latency_ms", "llm_tokens") else 3 if "@" in measure or measure == "mrr" else 2
    each = " per request" if measure in _TOTALS else ""
    return f"{part.difference:+.{digits}f} [{part.low:+.{digits}f}, {part.high:+.{digits}f}]{each}"


def stop_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """Return each policy with its stop reasons and how often each ended a run, as text."""
    return [[policy["name"], counts_text(policy["stop_reasons"])] for policy in report["policies"]]


def confusion_rows(report: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield policy and label, how many are complete and incomplete, and the share that is complete, as text."""
    for policy in report["policies"]:
        for label, counts in policy["confusion"].items():
            yes, no = counts["complete"], counts["incomplete"]
            yield [policy["name"], label, str(yes), str(no), number(yes / (yes + no) if yes + no else None)]
