"""Which scorer a surface uses: the rules, or the language model of the settings (TRAJ-2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from recall_loop.memory.trajectories.scoring.outcome_scoring import score_by_rules
from recall_loop.state.errors import InvalidInputError

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from recall_loop.memory.trajectories.scoring.outcome_scoring import Scorer
    from recall_loop.state.settings.settings import Settings


def make_scorer(option: str, name: str, settings: Settings, model: BaseChatModel | None = None) -> Scorer:
    """Return the scorer `auto`, `rules` or `llm` that `option` names; `auto` asks a model only where there is one.

    The model is the handed-in one, else that of the settings.

    Raises:
        InvalidInputError: `llm` without a model in the settings.
    """
    if name == "rules" or (name == "auto" and model is None and not settings.llm_model):
        return score_by_rules
    if model is None and not settings.llm_model:
        raise InvalidInputError(option, name, "rules; or set RECALL_LOOP_LLM_MODEL")
    from recall_loop.llm.chat_models import make_chat_client
    from recall_loop.llm.endpoint.call_limits import Limits
    from recall_loop.memory.trajectories.scoring.llm_scoring import llm_scorer

    # One run is one question: the limits of a request hold for each.
    limits = Limits(settings.llm_max_calls, settings.llm_max_tokens, settings.llm_total_seconds)
    return llm_scorer(make_chat_client(settings, model), lambda: limits, prompt_tokens=settings.llm_prompt_tokens)
