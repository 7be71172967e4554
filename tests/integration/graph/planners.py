"""What a chat endpoint answers in tests of the graph: a sensible planner, and ones that are none."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from recall_loop.state.settings.settings import Settings
from tests.llm_endpoint import RecordedRequest

FIELDS = ("whole", "first_part", "next_part", "statement", "other_words", "names")
# Short waits between tries, but a long one for a reply: a busy machine may take seconds over the first call.
QUICK = {"llm_timeout_seconds": 30.0, "llm_backoff_seconds": 0.01, "llm_retries": 1}


def quick_settings(**values: Any) -> Settings:
    """Return settings with short waits."""
    return Settings(**{**QUICK, **values})


def query_fields(*texts: str) -> dict[str, str]:
    """Return search texts as the fields of a plan."""
    return {name: texts[at] if at < len(texts) else "" for at, name in enumerate(FIELDS)}


def prompt_section(asked: RecordedRequest, tag: str) -> str:
    """Return what stands between two tags of a prompt."""
    return asked.user.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0].strip()


class ScriptedPlanner:
    """Answers by prompt; each part may be replaced."""

    def __init__(
        self,
        plan: Sequence[str] = ("owner of the granary", "quartet rehearsal place"),
        refine: Sequence[str] = ("Pelle Lund granary owner",),
        evaluate: Mapping[str, Any] | None = None,
        answer: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        self.plan, self.refine, self.more = plan, refine, more
        self.evaluate = evaluate or {"uncovered": ["the owner"], "reason": "", "confidence": "low", "stop": False}
        self.answer = answer

    def __call__(self, asked: RecordedRequest) -> Any:
        """Return the reply to one prompt."""
        if asked.schema == "plan":
            return {"tool": "search_all", "strategy": "direct", "queries": query_fields(*self.plan), **self.more}
        if asked.schema == "refine":
            return {
                "missing": ["the owner"],
                "tool": "search_all",
                "strategy": "people",
                "queries": query_fields(*self.refine),
                "wider": True,
                "fuzzy": 1,
                "role": "",
                "start_date": "",
                "end_date": "",
                **self.more,
            }
        if asked.schema == "evaluate":
            return dict(self.evaluate)
        return dict(self.answer) if self.answer is not None else answer_citing_first(asked)


def answer_citing_first(asked: RecordedRequest) -> dict[str, Any]:
    """Answer with the first memory, cited, and with a sentence that cites nothing."""
    first = re.search(r"\[1\] (.*)", prompt_section(asked, "memories"))
    said = {"cites": [1], "text": first[1] if first else "Nothing."}
    return {"found": True, "sentences": [said, {"cites": [], "text": "The moon is made of cheese."}]}
