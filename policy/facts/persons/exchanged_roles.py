"""Whether a text has the roles of a question exchanged: "I owe Ben 20" doesn't answer "who owes me?" (CONF-3)."""

from __future__ import annotations

from functools import lru_cache

from recall_loop.policy.facts.persons.mentioned_persons import BEING
from recall_loop.text.speech.first_person import opens_in_first_person
from recall_loop.text.words.languages import CHINESE, asking_words, stop_words
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.stop_words import word_set
from recall_loop.text.words.tokens import text_language, words

_SUBJECTS = word_set("i we ich wir yo nosotros nosotras je j nous я мы 我 我们")
_OBJECTS = word_set("me us mir mich uns nos m nous moi мне меня нам нас 我 我们")
_WHO = word_set("who whos wer quien quienes qui кто 谁")
_TOGETHER = word_set("with beside next to mit neben bei con avec chez с со рядом 和 跟 与")
# Verbs that go both ways: "I met Anna".
_MUTUAL = word_set(
    "meet meets met marry marries married traf trifft heiratet conocio encontro rencontre встретил встретила 认识"
)
_ADVERB = "ly"
# Words after the subject among which its verb is: "I still owe".
_NEAR = 3


@lru_cache(maxsize=4096)
def has_exchanged_roles(question: str, language: str, text: str) -> bool:
    """Tell whether a question asks who does something to the speaker, and in a text the speaker does it to others.

    Args:
        question: a single question.
        language: its language (ISO 639-1).
        text: a statement.
    """
    done = _done_to_asker(question, language)
    found = words(text)[: _NEAR + 1]
    if not done or not found or not BEING.isdisjoint(found):
        return False
    if found[0] in _SUBJECTS and language == CHINESE:
        return "".join(found[1:2]).startswith(tuple(done))  # a verb and its object may be one word there
    if found[0] in _SUBJECTS:
        left_out = stop_words(language)
        verb = next((word for word in found[1:] if word not in left_out and not word.endswith(_ADVERB)), "")
        return stem(verb, language) in done  # "I think Ben owes me" is about Ben
    return opens_in_first_person(text, text_language(text)) and stem(found[0], language) in done


@lru_cache(maxsize=256)
def _done_to_asker(question: str, language: str) -> frozenset[str]:
    """Return the stems of the words between "who" and "me"; empty for other questions, such as "who do I …?"."""
    found = words(question)
    who = next((at for at, word in enumerate(found) if word in _WHO), len(found))
    asker = next((at for at, word in enumerate(found) if at > who and word in _OBJECTS), 0)
    before = _SUBJECTS - _OBJECTS
    if not asker or not before.isdisjoint(found) or not _SUBJECTS.isdisjoint(found[:who]):
        return frozenset()
    if found[asker - 1] in _TOGETHER:
        return frozenset()  # "who lives with me?" asks the same as "who do I live with?"
    left_out = stop_words(language) | asking_words(language)
    asked = [word for word in found[who + 1 :] if word not in left_out]
    return frozenset() if not _MUTUAL.isdisjoint(asked) else frozenset(stem(word, language) for word in asked)
