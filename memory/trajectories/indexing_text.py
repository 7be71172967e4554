"""The indexed text of a run: the task in the users' words, then the work (TRAJ-5).

Whoever searches describes a situation, so the users' messages come first: an embedder reads only the first few hundred
tokens. The tools follow as words, in the order of their first use, and how it ended comes last. Replies and tool
results stay out: they are many times as long, and much the same in every run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from recall_loop.state.records.records import Record
from recall_loop.state.records.trajectories import RunData, run_from_record
from recall_loop.state.types import Role

# Characters of one message, and of the whole: a pasted document must not push everything else out.
_MAX_MESSAGE_CHARS = 300
_MAX_CHARS = 20_000
# A name such as `get_userDetails.v2` is words for a reader, and has to be words for the index.
_JOINTS = re.compile(r"[\W_]+|(?<=[a-z0-9])(?=[A-Z])")
_RULES = "rules"


def searchable_text(run: RunData) -> str:
    """Return what is indexed, embedded and shown of a run; never blank."""
    parts = list(dict.fromkeys(_short(text) for text in _user_texts(run)))
    if run.metadata.tools_used:
        parts.append("Tools: " + ", ".join(split_identifier(name) for name in run.metadata.tools_used))
    parts.append(f"Execution: {run.execution.status.value}")
    return "\n".join(part for part in parts if part)[:_MAX_CHARS]


def _user_texts(run: RunData) -> Iterator[str]:
    """Yield the task, the summary and the users' messages; a summary by rules would only repeat the rest."""
    yield run.task
    if run.summary and not (run.scoring and run.scoring.scorer.startswith(_RULES)):
        yield run.summary
    yield from (message.content for message in run.messages() if message.role is Role.USER)


def _short(text: str) -> str:
    return " ".join(text.split())[:_MAX_MESSAGE_CHARS]


def split_identifier(name: str) -> str:
    """Return the name of a tool as words."""
    return " ".join(part for part in _JOINTS.split(name) if part) or name


def updated_text(record: Record, run: RunData) -> str:
    """Return the text of a record whose run has become `run`; a text from elsewhere stays."""
    return searchable_text(run) if record.text == searchable_text(run_from_record(record)) else record.text
