"""Whether the user asked the same question before and got no answer (LIVE-1, CONF-3).

If an assistant replied "you haven't told me the code" in March, what was said before that is an unlikely answer to the
same question in May; what was said since may be one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from recall_loop.policy.facts.supersession import said_at
from recall_loop.state.run.state_entries import PoolEntry
from recall_loop.state.types import ContentType, Role, SpeechAct
from recall_loop.text.speech.negations import is_negated
from recall_loop.text.speech.person_words import person_stem, person_words
from recall_loop.text.speech.speech_acts import find_speech_acts, speech_acts
from recall_loop.text.words.tokens import text_language, words

Moment = tuple[datetime, int]
Predicate = Callable[[PoolEntry], bool]

# Minimum mean token match and similarity for two questions to be the same, measured on questions asked again in other
# words, against other questions of the same conversations.
_SAME_TOKENS, _SAME_SIMILARITY = 0.55, 0.4
# A reply follows at once.
_REPLY_WITHIN = timedelta(hours=1)
# A record at least this similar may be the answer, whatever the assistant replied.
_PLAIN = 0.6
_SAID = (ContentType.MESSAGE, ContentType.FACT)
_PLACE = ("user_id", "agent_id", "conversation_id", "session")


@dataclass(frozen=True)
class Unanswered:
    """When each user last asked the same and got no answer, and the keys of the replies that gave none."""

    moments: dict[str | None, Moment]
    replies: frozenset[str]

    def includes(self, entry: PoolEntry) -> bool:
        """Tell whether a record gave no answer, or already existed then and matches only weakly.

        An assistant may have replied without searching, so close matches stay.
        """
        record = entry["record"]
        if entry["key"] in self.replies:
            return True
        moment = self.moments.get(record.get("user_id"))
        if moment is None or record["kind"] not in _SAID or not _has_time(entry) or entry["similarity"] >= _PLAIN:
            return False
        return said_at(record) <= moment


NOTHING_UNANSWERED = Unanswered({}, frozenset())


def find_unanswered(entries: Iterable[PoolEntry], holds_name: Predicate | None) -> Unanswered:
    """Return when each user last asked the same and was told that it isn't known.

    The reply is the next message of the same conversation that the pool holds, within an hour.

    Args:
        entries: everything that was found.
        holds_name: tells whether a record has a name that may be the answer; None = no name is asked for. "No name has
            come up" has none, in whatever words. Of other kinds a negation may be the answer: "you have no siblings".
    """
    messages = [each for each in entries if each["record"]["kind"] == ContentType.MESSAGE and _has_time(each)]
    moments: dict[str | None, Moment] = {}
    replies: set[str] = set()
    for question in filter(_asks_the_same, messages):
        user, moment = question["record"].get("user_id"), said_at(question["record"])
        reply = _reply_to(question, messages)
        if reply is not None and _is_refusal(reply, holds_name):
            moments[user] = max(moment, moments.get(user, moment))
            replies.add(reply["key"])
    return Unanswered(moments, frozenset(replies))


def _has_time(entry: PoolEntry) -> bool:
    return bool(entry["record"].get("created_at"))


def _asks_the_same(entry: PoolEntry) -> bool:
    record = entry["record"]
    close = entry["alignment"][1:2] >= [_SAME_TOKENS] and entry["similarity"] >= _SAME_SIMILARITY
    return close and record.get("role") == Role.USER and SpeechAct.QUESTION in speech_acts(record["text"], Role.USER)


def _reply_to(question: PoolEntry, messages: Iterable[PoolEntry]) -> PoolEntry | None:
    record = question["record"]
    moment = said_at(record)
    later = (each for each in messages if said_at(each["record"]) > moment)
    near = [each for each in later if all(each["record"].get(name) == record.get(name) for name in _PLACE)]
    reply = min(near, key=lambda each: said_at(each["record"]), default=None)
    in_time = reply is not None and said_at(reply["record"])[0] - moment[0] <= _REPLY_WITHIN
    return reply if in_time and reply is not None and reply["record"].get("role") == Role.ASSISTANT else None


def _is_refusal(reply: PoolEntry, holds_name: Predicate | None) -> bool:
    """Tell whether a reply first says that there is no answer, or is negated and names nobody."""
    text = reply["record"]["text"]
    acts = find_speech_acts(text, Role.ASSISTANT)
    if acts and acts[0].act is SpeechAct.NON_ANSWER:
        return True
    known = person_words().get(text_language(text))
    if holds_name is None or known is None or text.islower() or not is_negated(text):
        return False
    someone = any(person_stem(word, text_language(text), known) for word in words(text))
    return not someone and not holds_name({**reply, "window": text})
