"""States implied by events: "I moved to Oslo" says where I live, if it is about the person in question (STOP-5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from recall_loop.policy.facts.persons.mentioned_persons import opens_with_another
from recall_loop.text.words.tokens import stem_line
from recall_loop.text.words.verb_forms import event_stems


class StateEvents:
    """The events by which the phrases of a question may be told, by the index of the phrase."""

    def __init__(self, phrases: Mapping[int, Sequence[str]], language: str, asked: Set[str], *, who: bool) -> None:
        """Work out the events.

        Args:
            phrases: the stems of each phrase; only phrases of one word are states.
            language: the language of the question.
            asked: the stems of the question.
            who: whether it asks for a person; what tells of none is no answer then.
        """
        self._language = language
        states = {index: terms[0] for index, terms in phrases.items() if len(terms) == 1}
        self._any = {index: event_stems(term, language) for index, term in states.items()}
        self._told = {index: event_stems(term, language, who=who) for index, term in states.items()}
        self._known = frozenset(asked).union(*self._any.values())

    def tells(self, phrases: Set[int], text: str) -> bool:
        """Tell whether a text tells all of some phrases by events, and of nobody but whom is asked for."""
        if not phrases or not all(self._told.get(index) for index in phrases):
            return False
        line = stem_line(text, self._language)
        return all(_has(line, self._told[index]) for index in phrases) and not self._is_of_another(text)

    def misleads(self, phrases: Set[int], text: str) -> bool:
        """Tell whether a text has an event of some phrases, but one of others, or one that isn't what is asked for."""
        events = [(self._any[index], self._told[index]) for index in phrases if self._any.get(index)]
        if not events:
            return False
        line = stem_line(text, self._language)
        found = [told for every, told in events if _has(line, every)]
        return bool(found) and (not all(found) or self._is_of_another(text))

    def _is_of_another(self, text: str) -> bool:
        # The name that a text seems to begin with may be the event's verb.
        return opens_with_another(text, self._known)


def _has(line: str, events: Set[str]) -> bool:
    return any(f" {event} " in line for event in events)
