"""Prompts of one run: what a language model is shown, within the token budget of one prompt (LOOP-3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from recall_loop.llm.structured.output_schemas import reply_schema
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.prompting import briefing
from recall_loop.prompts.templates import RenderedPrompt, render_prompt, strategy_instructions, template_variables
from recall_loop.state.agent_state import AgentState, PoolEntry
from recall_loop.state.types import Strategy, ToolName
from recall_loop.text.words.token_budget import estimate_tokens

ANSWER_CHARACTERS = 600
# The most of a prompt that the question and the goal take.
QUESTION_SHARE, GOAL_SHARE = 0.12, 0.06
_TOOLS = {
    ToolName.ALL: "everything",
    ToolName.FACTS: "statements that were drawn from conversations",
    ToolName.MESSAGES: "what was said, turn by turn",
    ToolName.ARCHIVAL: "longer notes and passages",
    ToolName.TRAJECTORIES: "past runs of agents",
}


def build_prompt(
    name: str, state: AgentState, run: RunContext, ranked: Sequence[PoolEntry], schema: type[BaseModel], **more: str
) -> RenderedPrompt:
    """Return the prompt `name`, of at most `llm_prompt_tokens` tokens by estimate.

    Room is kept for the reply's `schema`, which stands in the prompt where an endpoint takes it no other way.
    `more` are the prompt's own variables.
    """
    values, open_values, room = _prompt_frame(name, run, schema, more)
    return render_prompt(name, **values, **_sections(open_values, state, run, ranked, room))


def build_answer_prompt(
    state: AgentState, run: RunContext, ranked: Sequence[PoolEntry], schema: type[BaseModel]
) -> tuple[RenderedPrompt, list[int]]:
    """Return the prompt of the answer, and the places in `ranked`, from 1, of the facts that stand in it."""
    values, open_values, room = _prompt_frame("answer", run, schema, {})
    said = briefing.render_conversation(
        run.request.messages, run.question.text, int(briefing.CONVERSATION_SHARE * room)
    )
    shown = briefing.render_facts(ranked, room - estimate_tokens(said), run.terms, ANSWER_CHARACTERS)
    sections = {**open_values, "conversation": said, "facts": "\n".join(shown.values())}
    return render_prompt("answer", **values, **sections), list(shown)


def _prompt_frame(
    name: str, run: RunContext, schema: type[BaseModel], more: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str], int]:
    """Return the fixed values of a prompt, its open ones, and the tokens that are left for these."""
    most = run.settings.llm_prompt_tokens
    values = {
        "question": briefing.fit_text(run.question.text, int(QUESTION_SHARE * most)),
        "now": run.reference_time.date().isoformat(),
        "goal": briefing.fit_text(run.request.goal or "", int(GOAL_SHARE * most)),
        **more,
    }
    open_values = dict.fromkeys(template_variables(name) - set(values), "")
    bare = render_prompt(name, **values, **open_values)
    room = most - estimate_tokens(bare.system) - estimate_tokens(bare.user) - reply_schema(schema).tokens
    return values, open_values, max(room, 0)


def _sections(
    wanted: Mapping[str, str], state: AgentState, run: RunContext, ranked: Sequence[PoolEntry], room: int
) -> dict[str, str]:
    """Fill the sections that a prompt has; what the first ones leave goes to what was found."""
    shares = {
        "conversation": briefing.CONVERSATION_SHARE,
        "uncovered": briefing.UNCOVERED_SHARE,
        "tried": briefing.TRIED_SHARE,
    }
    budgets = {section: int(share * room) for section, share in shares.items()}
    made = {
        "conversation": briefing.render_conversation(run.request.messages, run.question.text, budgets["conversation"]),
        "uncovered": briefing.render_uncovered([*state["judged_uncovered"], *state["uncovered"]], budgets["uncovered"]),
        "tried": briefing.render_tried(state["query_results"].values(), budgets["tried"]) if "tried" in wanted else "",
    }
    left = room - sum(map(estimate_tokens, made.values()))
    made["found"] = briefing.render_found(ranked, state["iteration"], left, run.terms)
    return {section: made[section] for section in wanted}


def tool_lines(tools: Sequence[ToolName]) -> str:
    """Return the tools that may be chosen, one a line."""
    return "\n".join(f"- {tool.value}: {_TOOLS[tool]}" for tool in tools)


def strategy_lines(strategies: Sequence[Strategy]) -> str:
    """Return the strategies that may be chosen with their instructions, one a line."""
    return "\n".join(f"- {strategy.value}: {strategy_instructions()[strategy]}" for strategy in strategies)
