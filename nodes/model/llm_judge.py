"""A language model's judgement of the evidence: stop or go on (STOP-2, `llm_confident`).

The model is asked only where the metrics agree that stopping may be right. So a model that is talked into stopping
ends a run no earlier than they allow.
"""

from __future__ import annotations

from dataclasses import replace

from recall_loop.nodes.model.llm_step import ask_model
from recall_loop.nodes.model.prompt_builder import build_prompt
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.stopping import RunProgress, metrics_agree, stop_figures, stop_reason
from recall_loop.prompts.replies import EvaluateReply
from recall_loop.state.agent_state import AgentState, LlmStep
from recall_loop.state.types import ConfidenceLabel, StopReason


def judge_evidence(
    state: AgentState, run: RunContext, progress: RunProgress
) -> tuple[StopReason | None, EvaluateReply | None, LlmStep | None]:
    """Return the reason to stop, the judgement, and the step that asked for it; None where there is none.

    Judgement, metrics and decision stand together in the step.
    """
    reason = stop_reason(progress, run.settings)
    if reason is not None or run.chat_client is None or not metrics_agree(progress, run.settings):
        return reason, None, None
    ranked = run.ranked_entries(state)
    reply, step = ask_model(
        run, state, "evaluate", build_prompt("evaluate", state, run, ranked, EvaluateReply), EvaluateReply
    )
    if reply is None:
        return None, None, step
    sure = list(ConfidenceLabel).index(reply.confidence) >= list(ConfidenceLabel).index(
        run.settings.stop_confidence_required
    )
    reason = stop_reason(replace(progress, judged_enough=reply.stop and sure), run.settings)
    step["detail"] = {
        "judgement": reply.model_dump(mode="json"),
        "metrics": stop_figures(progress),
        "metrics_agree": True,
        "decision": reason.value if reason else "go_on",
    }
    return reason, reply, step
