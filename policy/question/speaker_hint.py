"""The speaker whom a question expects to have said the answer (RANK-3). English only.

What people ask about themselves ("When does my lease end?") they once said themselves; the assistant's answers repeat
it among general advice. What they ask about the assistant's own words ("What did you recommend?") the assistant said.
"""

from __future__ import annotations

import re

from recall_loop.state.types import Role
from recall_loop.text.words.grammatical_person import first_person_balance
from recall_loop.text.words.stop_words import STOP_WORDS

_SAY = "advise|describe|explain|give|list|mention|propose|recommend|say|show|suggest|tell|write"
_SAID = (
    "advised|described|explained|gave|given|listed|mentioned|proposed|recommended|said|showed|shown|suggested|told"
    "|written|wrote"
)
_BETWEEN = r"(?:\s+(?:also|already|ever|just|once|last|first|originally))?\s+"
_YOU_SAID = re.compile(
    rf"\bdid\s+(?:you|(?:my|our|the)\s+(?:ai\s+|chat)?(?:assistant|bot)){_BETWEEN}(?:{_SAY})\b"
    rf"|\b(?:have|had)\s+you{_BETWEEN}(?:{_SAID})\b"
    rf"|\bfrom\s+you\b|\byou(?:['\u2019](?:ve|d)|\s+have|\s+had)?{_BETWEEN}(?:{_SAID})\b",
    re.IGNORECASE,
)
_I_SAID = re.compile(
    rf"\bdid\s+I\b|\b(?:have|had)\s+I\b|\bI(?:['\u2019](?:ve|d)|\s+have|\s+had)?{_BETWEEN}(?:{_SAID}|asked)\b",
    re.IGNORECASE,
)
# Words of other languages look like English ones of the first person; a question in English has one of these.
_ENGLISH = re.compile(
    r"\b(?:who|whose|what|when|where|which|why|how|am|is|are|was|were|do|does|did|have|has|had|can|could|will|would"
    r"|should|my|the)\b",
    re.IGNORECASE,
)
_COUNTRY = re.compile(r"\bU\.?S\.?(?=\W|$)")
_NUMERAL = re.compile(r"\b([A-Z][a-z]+) I\b")
# A wish to be served tells nothing of the speaker.
_SERVE = re.compile(rf"\b(?:{_SAY}|help|teach|remind|let)\s+(?:me|us)\b", re.IGNORECASE)


def expected_speaker(question: str) -> Role | None:
    """Return the role that has probably said the answer; None if its wording doesn't show it."""
    if _YOU_SAID.search(question):
        return Role.ASSISTANT
    if _I_SAID.search(_NUMERAL.sub(_without_numeral, question)):
        return Role.USER
    if not _ENGLISH.search(question) or _SERVE.search(question):
        return None
    plain = _NUMERAL.sub(_without_numeral, _COUNTRY.sub("", question))
    return Role.USER if first_person_balance(plain) == 1.0 else None


def _without_numeral(match: re.Match[str]) -> str:
    """Keep "Did I", but take the numeral off "Elizabeth I"."""
    return match[0] if match[1].lower() in STOP_WORDS else match[1]
