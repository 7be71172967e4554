"""Titles and speakers named in a question."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from heapq import nlargest

from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType, Role
from recall_loop.text.words.stop_words import STOP_WORDS, first_person_balance

_REFERRING_ENTRIES = 20
"""Number of best records whose texts are searched for titles."""
_READ_CHARACTERS = 4000
_MIN_LETTERS, _MAX_CHARACTERS = 3, 200
_PIECES = 2


def entry_title(entry: PoolEntry) -> str | None:
    """Return the label of an archival record if it is a title, else None.

    Lower-case labels are categories ("travel", "notes"), not titles. Labels with fewer than three letters or more than
    200 characters aren't titles either.
    """
    label = entry["record"].get("label")
    if entry["record"]["kind"] != ContentType.ARCHIVAL or not label or len(label) > _MAX_CHARACTERS or label.islower():
        return None
    return str(label).strip() if sum(map(str.isalpha, label)) >= _MIN_LETTERS else None


def without_qualifier(label: str) -> str:
    """Return a label without the bracketed qualifier at its end; the whole label if nothing else would be left."""
    at = label.rfind("(")
    return label[:at].rstrip() if at > 0 and label.endswith(")") else label


def title_references(pool: Collection[PoolEntry], question: str) -> dict[str, float]:
    """Return by key, for each titled entry that is referred to, the relevance of the best reference in [0,1].

    A reference in the question counts 1; other pieces of the same text don't count. A reference is the title as
    written, as whole words; if several records have it with different qualifiers, it counts for each of them.
    """
    titles = {entry["key"]: title for entry in pool if (title := entry_title(entry)) is not None}
    if not titles:
        return {}
    best = nlargest(_REFERRING_ENTRIES, pool, key=lambda entry: (entry["relevance"], entry["key"]))
    texts = [(titles.get(each["key"]), each["record"]["text"][:_READ_CHARACTERS], each["relevance"]) for each in best]
    texts.insert(0, (None, question, 1.0))
    values = {title: _reference_value(title, texts) for title in set(titles.values())}
    return {key: values[title] for key, title in titles.items() if values[title] > 0.0}


def crowded_titles(titles: Sequence[str | None]) -> list[bool]:
    """Tell for each record, best first, whether two of its title came before it."""
    seen: Counter[str] = Counter()
    crowded = []
    for title in titles:
        crowded.append(title is not None and seen[title] >= _PIECES)
        seen.update([] if title is None else [title])
    return crowded


def _reference_value(title: str, texts: Sequence[tuple[str | None, str, float]]) -> float:
    """Return the value of the first text of another title that names this one, else 0; `texts` are best first."""
    name = without_qualifier(title)
    return next((value for other, text, value in texts if other != title and _names(text, name)), 0.0)


def _names(text: str, name: str) -> bool:
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(name, at + 1)
    return False


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
# A request for help says nothing about the speaker.
_SERVE = re.compile(rf"\b(?:{_SAY}|help|teach|remind|let)\s+(?:me|us)\b", re.IGNORECASE)


def expected_speaker(question: str) -> Role | None:
    """Return the role that has probably said the answer; None if the question's wording doesn't show it."""
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
