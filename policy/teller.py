"""Who has said what a question asks for, as its own words tell (RANK-3). English only.

What people ask of themselves ("When does my lease end?") they once said themselves; the assistant's answers repeat it
among general advice. What they ask the assistant about its own words ("What did you recommend?") the assistant said.
"""

from __future__ import annotations

import re

from recall_loop.state.types import Role
from recall_loop.text.voice import voice

_SAY = "advise|describe|explain|give|list|mention|propose|recommend|say|show|suggest|tell|write"
_SAID = (
    "advised|described|explained|gave|given|listed|mentioned|proposed|recommended|said|showed|shown|suggested|told"
    "|written|wrote"
)
_BETWEEN = r"(?:\s+(?:also|already|ever|just|once|last|first|originally))?\s+"
_YOU_SAID = re.compile(
    rf"\bdid\s+you{_BETWEEN}(?:{_SAY})\b|\b(?:have|had)\s+you{_BETWEEN}(?:{_SAID})\b"
    rf"|\byou(?:['\u2019](?:ve|d)|\s+have|\s+had)?{_BETWEEN}(?:{_SAID})\b",
    re.IGNORECASE,
)
_I_SAID = re.compile(
    rf"\bdid\s+I\b|\b(?:have|had)\s+I\b|\bI(?:['\u2019](?:ve|d)|\s+have|\s+had)?{_BETWEEN}(?:{_SAID}|asked)\b",
    re.IGNORECASE,
)
# Somebody wants to be served, which says nothing of himself.
_SERVE = re.compile(rf"\b(?:{_SAY}|help|teach|remind|let)\s+(?:me|us)\b", re.IGNORECASE)


def teller(question: str) -> Role | None:
    """Return the role of whoever has said what is asked for; None where the words don't tell."""
    if _YOU_SAID.search(question):
        return Role.ASSISTANT
    if _I_SAID.search(question):
        return Role.USER
    return Role.USER if voice(question) == 1.0 and not _SERVE.search(question) else None
