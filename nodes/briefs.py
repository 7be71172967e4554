"""Prompts of one run: what a language model is shown, within the token budget of one prompt (LOOP-3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from recall_loop.nodes.resources import Run
from recall_loop.policy import briefing
from recall_loop.prompts.templates import Prompt, render_prompt, strategy_instructions, variables
from recall_loop.state.agent_state import AgentState, PoolEntry
from recall_loop.state.types import Strategy, ToolName
from recall_loop.text.budget import estimate_tokens
from recall_loop.text.markup import as_data

GOAL_CHARACTERS = 500
ANSWER_CHARACTERS = 600
_TOOLS = {
    ToolName.ALL: "everything",
    ToolName.FACTS: "statements that were drawn from conversations",
    ToolName.MESSAGES: "what was said, turn by turn",
    ToolName.ARCHIVAL: "longer notes and passages",
    ToolName.TRAJECTORIES: "past runs of agents",
}


def brief(name: str, state: AgentState, run: Run, ranked: Sequence[PoolEntry], **more: str) -> Prompt:
    """Return the prompt `name`, of at most `llm_prompt_tokens` tokens by estimate; `more` are its own variables."""
    return render_prompt(name, **_values(name, state, run, ranked, more))


def answer_brief(state: AgentState, run: Run, ranked: Sequence[PoolEntry]) -> tuple[Prompt, int]:
    """Return the prompt of the answer, and how many of the facts stand in it, numbered from 1."""
    values = _values("answer", state, run, ranked, {})
    return render_prompt("answer", **values), len(values["facts"].splitlines())


def _values(
    name: str, state: AgentState, run: Run, ranked: Sequence[PoolEntry], more: Mapping[str, str]
) -> dict[str, str]:
    values = {
        "question": as_data(run.question.text),
        "now": run.reference.date().isoformat(),
        "goal": as_data((run.request.goal or "")[:GOAL_CHARACTERS]),
        **more,
    }
    open_values = dict.fromkeys(variables(name) - set(values), "")
    bare = render_prompt(name, **values, **open_values)
    room = run.settings.llm_prompt_tokens - estimate_tokens(bare.system) - estimate_tokens(bare.user)
    return values | _sections(open_values, state, run, ranked, max(room, 0))


def _sections(
    wanted: Mapping[str, str], state: AgentState, run: Run, ranked: Sequence[PoolEntry], room: int
) -> dict[str, str]:
    """Fill the sections that a prompt has; what the first ones leave goes to what was found."""
    shares = {
        "conversation": briefing.CONVERSATION_SHARE,
        "uncovered": briefing.UNCOVERED_SHARE,
        "tried": briefing.TRIED_SHARE,
    }
    budgets = {section: int(share * room) for section, share in shares.items()}
    made = {
        "conversation": briefing.conversation(run.request.messages, run.question.text, budgets["conversation"]),
        "uncovered": briefing.uncovered([*state["judged_uncovered"], *state["uncovered"]], budgets["uncovered"]),
        "tried": briefing.tried(state["query_results"].values(), budgets["tried"]) if "tried" in wanted else "",
    }
    left = room - sum(map(estimate_tokens, made.values()))
    made["found"] = briefing.found(ranked, state["iteration"], left, run.terms) if "found" in wanted else ""
    made["facts"] = briefing.facts(ranked, left, run.terms, ANSWER_CHARACTERS) if "facts" in wanted else ""
    return {section: made[section] for section in wanted}


def tool_lines(tools: Sequence[ToolName]) -> str:
    """Return the tools that may be chosen, one a line."""
    return "\n".join(f"- {tool.value}: {_TOOLS[tool]}" for tool in tools)


def strategy_lines(strategies: Sequence[Strategy]) -> str:
    """Return the strategies that may be chosen with their instructions, one a line."""
    return "\n".join(f"- {strategy.value}: {strategy_instructions()[strategy]}" for strategy in strategies)
