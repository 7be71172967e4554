"""Whether the user asked the same question before and got no answer (LIVE-1, CONF-3).

If an assistant replied "you haven't told me the code" in March, what was said before that is an unlikely answer to the
same question in May; what was said since may be one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from recall_loop.policy.facts.supersession import said_at
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType, Role, SpeechAct
from recall_loop.text.speech.speech_acts import find_speech_acts, speech_acts

Moment = tuple[datetime, int]

# Minimum mean token match and similarity for two questions to be the same, measured on questions asked again in other
# words, against other questions of the same conversations.
_SAME_TOKENS, _SAME_SIMILARITY = 0.55, 0.4
# A reply follows at once.
_REPLY_WITHIN = timedelta(hours=1)
# A record at least this similar may be the answer, whatever the assistant replied.
_PLAIN = 0.6
_SAID = (ContentType.MESSAGE, ContentType.FACT)
_PLACE = ("user_id", "agent_id", "conversation_id", "session")


def last_unanswered(entries: Iterable[PoolEntry]) -> dict[str | None, Moment]:
    """Return for each user when they last asked the same and were told that it isn't known.

    The reply is the next message of the same conversation that the pool holds, within an hour.
    """
    messages = [each for each in entries if each["record"]["kind"] == ContentType.MESSAGE and _has_time(each)]
    found: dict[str | None, Moment] = {}
    for question in filter(_asks_the_same, messages):
        user, moment = question["record"].get("user_id"), said_at(question["record"])
        if _is_refusal(_reply_to(question, messages)):
            found[user] = max(moment, found.get(user, moment))
    return found


def was_unanswered(entry: PoolEntry, moments: Mapping[str | None, Moment]) -> bool:
    """Tell whether a message or fact already existed when its user last got no answer, and matches only weakly.

    `moments` are from `last_unanswered`. An assistant may have replied without searching, so close matches stay.
    """
    record = entry["record"]
    moment = moments.get(record.get("user_id"))
    if moment is None or record["kind"] not in _SAID or not _has_time(entry) or entry["similarity"] >= _PLAIN:
        return False
    return said_at(record) <= moment


def _has_time(entry: PoolEntry) -> bool:
    return bool(entry["record"].get("created_at"))


def _asks_the_same(entry: PoolEntry) -> bool:
    record = entry["record"]
    close = entry["alignment"][1:2] >= [_SAME_TOKENS] and entry["similarity"] >= _SAME_SIMILARITY
    return close and record.get("role") == Role.USER and SpeechAct.QUESTION in speech_acts(record["text"], Role.USER)


def _reply_to(question: PoolEntry, messages: Iterable[PoolEntry]) -> dict[str, Any] | None:
    record = question["record"]
    moment = said_at(record)
    later = (each["record"] for each in messages if said_at(each["record"]) > moment)
    near = [each for each in later if all(each.get(name) == record.get(name) for name in _PLACE)]
    reply = min(near, key=said_at, default=None)
    return reply if reply is not None and said_at(reply)[0] - moment[0] <= _REPLY_WITHIN else None


def _is_refusal(reply: dict[str, Any] | None) -> bool:
    """Tell whether a reply begins by saying that there is no answer."""
    if reply is None or reply.get("role") != Role.ASSISTANT:
        return False
    acts = find_speech_acts(reply["text"], Role.ASSISTANT)
    return bool(acts) and acts[0].act is SpeechAct.NON_ANSWER
