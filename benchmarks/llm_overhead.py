"""The overhead of the client of a chat model.

    python benchmarks/llm_overhead.py [--asks N] [--prompt-tokens N] [--json]

The model answers at once, inside the process, so the time of a request is that of the client and of LangChain around
the model; the model's own time is measured inside the model and subtracted. For comparison, LangChain alone asks the
same model, `model.with_structured_output(schema, include_raw=True).invoke(messages)`, without limits, timeout,
validation or fallback: created for each request, as a script would, and created once. `native` is LangChain's
structured output by a tool call, `prompt` a model without it. The goal is a p50 of the client below 5 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["LANGSMITH_TRACING"] = "false"
sys.path.insert(0, str(Path(__file__).resolve().parent))

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.evals.measures.quality_metrics import percentile
from recall_loop.llm.client import ChatClient
from recall_loop.llm.endpoint.circuit_breaker import Limits
from recall_loop.llm.structured.output_methods import reply_schema
from recall_loop.prompts.replies import PlanReply
from recall_loop.prompts.templates import RenderedPrompt, load_template, render_prompt
from recall_loop.text.words.snippets import estimate_tokens

GOAL_MS = 5.0
WARM = 20
LIMITS = Limits(calls=10, tokens=1_000_000, seconds=60.0)
VALUE: dict[str, Any] = {
    "tool": "search_all",
    "strategy": "direct",
    "queries": {
        "whole": "who leads Atlas",
        "first_part": "Atlas lead",
        "next_part": "lead since when",
        "statement": "Ann has led Atlas since May",
        "other_words": "head of Atlas",
        "names": "Atlas",
    },
}


class InstantModel(BaseChatModel):
    """A model that answers at once, and notes how long it took itself."""

    own: list[float] = []  # noqa: RUF012 - pydantic copies it for each model

    @property
    def _llm_type(self) -> str:
        return "at-once"

    def _message(self, tools: object) -> AIMessage:
        if not tools:
            return AIMessage(json.dumps(VALUE))
        return AIMessage("", tool_calls=[{"name": "PlanReply", "args": VALUE, "id": "1"}])

    def _generate(self, messages, stop=None, run_manager=None, **kwargs) -> ChatResult:
        began = time.perf_counter()
        result = ChatResult(generations=[ChatGeneration(message=self._message(kwargs.get("tools")))])
        self.own.append(time.perf_counter() - began)
        return result


class InstantToolModel(InstantModel):
    """The same with tools, by which LangChain makes structured output of it."""

    def bind_tools(self, tools, **kwargs):
        return self.bind(tools=tools)


def prompt_of(tokens: int) -> RenderedPrompt:
    """Return the plan prompt, filled up to about that many tokens in all."""
    line = "(fact-12) Ann: the Atlas review moved to Thursday, said Ben on 3 May.\n"
    blank = dict.fromkeys(load_template("plan").variables, "")
    empty = render_prompt("plan", **blank)
    missing = tokens - estimate_tokens(empty.system) - estimate_tokens(empty.user)
    filled = dict.fromkeys(load_template("plan").variables, "") | {
        "found": line * max(0, missing // estimate_tokens(line))
    }
    return render_prompt("plan", **filled)


def timed(model: InstantModel, ask: Callable[[], Any], asks: int) -> list[float]:
    """Return milliseconds of each ask without the model's own time."""
    taken = []
    for _ in range(asks + WARM):
        model.own.clear()
        began = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - began - sum(model.own)) * 1000)
    return taken[WARM:]


def measure(asks: int, tokens: int) -> dict[str, list[float]]:
    """Return the milliseconds of every way of asking."""
    prompt, schema = prompt_of(tokens), reply_schema(PlanReply).schema
    messages = [SystemMessage(prompt.system), HumanMessage(prompt.user)]
    tools, plain = InstantToolModel(), InstantModel()
    once = tools.with_structured_output(schema, include_raw=True)

    def through(client: ChatClient) -> None:
        reply = client.ask(prompt, PlanReply, LIMITS)
        assert reply.value is not None, reply.failure

    by_tools, by_prompt = ChatClient(tools), ChatClient(plain)
    return {
        "client.ask, native": timed(tools, lambda: through(by_tools), asks),
        "client.ask, prompt": timed(plain, lambda: through(by_prompt), asks),
        "LangChain alone, made for each ask": timed(
            tools, lambda: tools.with_structured_output(schema, include_raw=True).invoke(messages), asks
        ),
        "LangChain alone, made once": timed(tools, lambda: once.invoke(messages), asks),
        "bare model.invoke": timed(plain, lambda: plain.invoke(messages), asks),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Overhead of the client of a chat model.")
    parser.add_argument("--asks", type=int, default=300)
    parser.add_argument("--prompt-tokens", type=int, default=2000)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    found = measure(given.asks, given.prompt_tokens)
    rows = {name: {"p50": percentile(ms, 0.5), "p95": percentile(ms, 0.95)} for name, ms in found.items()}
    if given.json:
        print(json.dumps({"asks": given.asks, "prompt_tokens": given.prompt_tokens, "milliseconds": rows}))
        return
    title = f"Own time per ask, {given.prompt_tokens} tokens of prompt, {given.asks} asks (goal: p50 < {GOAL_MS:g} ms)"
    table = Table("way", "p50 ms", "p95 ms", title=title, box=box.SIMPLE)
    for name, row in rows.items():
        table.add_row(name, f"{row['p50']:.2f}", f"{row['p95']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
