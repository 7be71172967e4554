"""Policies that a replay compares: `old`, `new`, and settings of one's own in a TOML file (OPS-4)."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from recall_loop.evals.replay.old_policy import label_by_counts, run_old_policy, to_recalled_fact
from recall_loop.evals.runs.repeated_runs import CallLog
from recall_loop.graph.builder import build_graph
from recall_loop.graph.graph_tracing import TracedGraph
from recall_loop.graph.run import stream_graph
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.retrieval_parts import DEFAULT_RETRIEVAL_PARTS, RetrievalParts
from recall_loop.nodes.runtime.run_context import RunInputs
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import RecalledFact, RetrieveResult
from recall_loop.state.run.events import ProgressEvent
from recall_loop.state.settings.settings import Settings

OLD, NEW = "old", "new"
_ALLOWED = "old, new, or a TOML file with a table [settings], and a name where the file's isn't it"
# What all policies of a replay share, or they would not answer the same request from the same store.
_SHARED = {
    **dict.fromkeys(
        (name for name in Settings.model_fields if name.startswith(("chroma_", "openai_"))),
        "left out: the store and its embedder are the same for all policies",
    ),
    "store_path": "left out: --store names the store",
    **dict.fromkeys(
        ("embedder", "minilm_weights"), "left out: the store and its embedder are the same for all policies"
    ),
    "tenant": "left out: each request names its own",
    "max_facts": "left out: the request, or the largest of --k, decides it",
}


@dataclass(frozen=True)
class PolicyResult:
    """What one policy did with one request.

    Attributes:
        facts: returned facts, best first.
        found_in: for each fact, the iteration that found it first, from 1.
        new_facts: for each iteration, the relevant facts that it added.
        executed: queries that were executed, repeats included.
        repeated: those of them that repeated an earlier one.
        score: confidence in [0,1]; None where the policy gives a label alone.
        answerable: probability in [0,1] that memory holds an answer; None where the policy doesn't tell.
    """

    facts: Sequence[RecalledFact]
    found_in: Sequence[int]
    new_facts: Sequence[int]
    iterations: int
    executed: int
    repeated: int
    stop_reason: str
    label: str
    score: float | None = None
    raw_score: float | None = None
    answerable: float | None = None
    components: dict[str, float] = field(default_factory=dict)
    llm_calls: int = 0
    llm_tokens: int = 0


class Policy(Protocol):
    """A way to answer requests from a store."""

    @property
    def name(self) -> str:
        """Name that reports use."""

    @property
    def settings(self) -> Settings:
        """Settings that it runs with."""

    def run(self, request: RetrieveRequest, store: MemoryStore) -> PolicyResult:
        """Answer one request."""


@dataclass(frozen=True)
class OldPolicy:
    """See `recall_loop.evals.replay.old_policy`."""

    settings: Settings
    name: str = OLD

    def run(self, request: RetrieveRequest, store: MemoryStore) -> PolicyResult:
        """Answer one request."""
        ran = run_old_policy(request, store, self.settings)
        kept = list(ran.facts.values())[: request.max_facts or self.settings.max_facts]
        return PolicyResult(
            facts=[to_recalled_fact(hit) for hit, _ in kept],
            found_in=[iteration for _, iteration in kept],
            new_facts=ran.new_facts,
            iterations=len(ran.result_counts),
            executed=len(ran.result_counts),
            repeated=len(ran.result_counts) - 1,
            stop_reason=ran.stop_reason,
            label=label_by_counts(ran.result_counts, [hit.record.confidence for hit, _ in ran.facts.values()]).value,
        )


@dataclass(frozen=True)
class LoopPolicy:
    """The product's own loop, with the given settings, and for ablations with parts other than its own."""

    settings: Settings
    name: str = NEW
    on_event: Callable[[ProgressEvent], None] | None = None  # is told every event
    parts: RetrievalParts = DEFAULT_RETRIEVAL_PARTS

    def run(self, request: RetrieveRequest, store: MemoryStore) -> PolicyResult:
        """Answer one request; its trace is on, since it tells which iteration found what.

        A written answer is left out where there is no language model, so that a log of requests that asked for
        one can be replayed.
        """
        calls, result = CallLog(self.settings.repeat_similarity), None
        unanswered = {"write_answer": None} if self.settings.llm_model is None else {}
        traced = request.model_copy(update={"debug": True, **unanswered})
        for item in stream_graph(self._graph, RunInputs(traced, store)):
            if isinstance(item, RetrieveResult):
                result = item
            else:
                calls.note(item)
                if self.on_event:
                    self.on_event(item)
        if result is None:
            raise RuntimeError(f"request {request.id}: the run ended without a result")
        confidence, metadata = result.confidence, result.metadata
        return PolicyResult(
            facts=result.facts,
            found_in=[int((fact.debug or {})["first_iteration"]) for fact in result.facts],
            new_facts=metadata["new_facts_by_iteration"],
            iterations=result.stop.iteration,
            executed=calls.executed,
            repeated=calls.repeats(),
            stop_reason=result.stop.reason.value,
            label=confidence.label.value,
            score=confidence.score,
            raw_score=confidence.raw_score,
            answerable=confidence.answerable,
            components=confidence.components,
            llm_calls=metadata["llm_calls"],
            llm_tokens=metadata["llm_tokens"],
        )

    @cached_property
    def _graph(self) -> TracedGraph:
        return build_graph(settings=self.settings, output="state", parts=self.parts)


def read_policies(named: Sequence[str]) -> list[Policy]:
    """Return the policies that `named` asks for, each `old`, `new` or the path of a TOML file.

    All take their settings from the environment, a language model apart: only a file that sets `llm_model`
    uses one.

    Raises:
        InvalidInputError: an unknown policy, a file that isn't one, a setting that is unknown, out of its range or
            shared by all policies, or a name that comes twice.
        OSError: a file can't be read.
    """
    policies = [_read_policy(name) for name in named]
    names = [policy.name for policy in policies]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError("policy", name, "policies with different names")
    return policies


def _read_policy(named: str) -> Policy:
    if named == OLD:
        return OldPolicy(Settings(llm_model=None))
    if named == NEW:
        return LoopPolicy(Settings(llm_model=None))
    if not named.endswith(".toml"):
        raise InvalidInputError("policy", named, _ALLOWED)
    path = Path(named)
    values, name = _overrides(path)
    return LoopPolicy(Settings(**({"llm_model": None} | values)), name)


def _overrides(path: Path) -> tuple[dict[str, Any], str]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(path.name, str(error), "a file in TOML") from None
    values, name = content.get("settings"), content.get("name", path.stem)
    if set(content) - {"name", "settings"} or not isinstance(values, dict):
        raise InvalidInputError(path.name, sorted(content), "a name and a table [settings]")
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"{path.name}.name", name, "a text")
    for key in values:
        if key in _SHARED:
            raise InvalidInputError(f"{path.name}.settings.{key}", values[key], _SHARED[key])
    return values, name.strip()
