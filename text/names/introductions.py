"""Whether somebody tells their own name, in whatever words: "Hi, I'm Giulia", "Giulia here", "call me Jules" (OPEN-4).

Nothing of "what's my name?" stands in "Hi, I'm Giulia", which is how people tell it to whom they meet. The words stand
in `introductions.toml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import regex

from recall_loop.text.gloss.glosses import english_words, is_listed
from recall_loop.text.names.name_spans import CALENDAR, HONORIFICS
from recall_loop.text.names.proper_names import find_entities
from recall_loop.text.packaged_data import packaged_table
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import CHINESE, ENGLISH, JAPANESE, WITHOUT_BLANKS, stop_words

# People tell their name in the beginning.
_READ = 600
# Up to three words with capitals; in Chinese, which has none, signs up to the end of the clause or a particle.
_NAME = (
    r"(?P<name>\p{Lu}[\p{L}\p{M}'’-]*\p{L}(?: (?:de |van |von |de[nr] )*\p{Lu}[\p{L}\p{M}'’-]*\p{L}){0,2})"
    r"(?![\p{L}\p{M}])"
)
_SMALL = r"(?P<name>\p{Ll}[\p{Ll}\p{M}'’-]*\p{Ll})(?![\p{L}\p{M}])"
_SIGNS = (
    r"(?P<name>(?![了他她它你您我人上过个去来打做带把给买帮吃别先不快])[\p{Han}·]{1,6}?)(?=$|[^\p{Han}·]|吧|就|好了|的)"
)
# In Japanese the words around it bound a name; the family name may stand before a blank.
_KANA = (
    r"(?P<name>[\p{Han}々\p{Katakana}ー・]{1,10}(?:[ \u3000][\p{Han}々\p{Katakana}\p{Hiragana}]{1,6})?"
    r"|\p{Hiragana}{2,6}?)"
)


@dataclass(frozen=True)
class _Words:
    """The words of one language; see `introductions.toml`. Patterns are compiled when they are first asked for."""

    language: str
    lists: Mapping[str, str]

    @cached_property
    def told(self) -> tuple[regex.Pattern[str], regex.Pattern[str]]:
        """The pattern of a told name, and that of a small-lettered one."""
        named, small = self._names
        return _with_name(self.lists["told"], named), _with_name(self.lists["told"], small)

    @cached_property
    def being(self) -> tuple[regex.Pattern[str], regex.Pattern[str]]:
        """The same of a name that one is."""
        named, small = self._names
        being = self.lists["being"]
        greeted = rf"^(?i:{self.lists['greetings']})[\s,.!]*(?:(?:all|there|everyone)[\s,.!]*)?(?:{being})"
        return _with_name(being, named), _with_name(greeted, small)

    @cached_property
    def asked(self) -> regex.Pattern[str]:
        """The pattern of a question for the name by which one is called."""
        return regex.compile(self.lists["asked"])

    @cached_property
    def others(self) -> regex.Pattern[str]:
        """The pattern of a question for another name of one's own."""
        return regex.compile(self.lists["others"])

    @cached_property
    def peoples(self) -> frozenset[str]:
        """What people say they are that is no name."""
        return frozenset(self.lists.get("peoples", "").split())

    @property
    def _names(self) -> tuple[str, str]:
        unspaced = {CHINESE: _SIGNS, JAPANESE: _KANA}.get(self.language)
        return (unspaced, unspaced) if unspaced else (_NAME, _SMALL)


def _with_name(pattern: str, name: str) -> regex.Pattern[str]:
    return regex.compile(pattern.replace("{name}", name))


def with_plain_name(text: str) -> str:
    """Return a text with its speaker's name once more, in the words in which it is asked for, if it tells that."""
    plain = _plain_name(text[:_READ])
    return f"{text}\n{plain}" if plain else text


def tells_own_name(text: str) -> bool:
    """Tell whether somebody tells their own name in a text."""
    return bool(_plain_name(text[:_READ]))


@lru_cache(maxsize=256)
def asked_own_name(question: str) -> str | None:
    """Return which of their own names somebody asks for: "" = the one by which they are called; None = no name."""
    folded = fold(question)
    found = next(filter(None, (words.others.search(folded) for words in _languages())), None)
    if found is not None:
        return str(found[1])
    return "" if any(words.asked.search(folded) for words in _languages()) else None


@lru_cache(maxsize=4096)
def _plain_name(text: str) -> str:
    for words in _languages():
        for pattern in (*words.told, *words.being):
            for found in pattern.finditer(text):
                name = found["name"]
                # A Chinese nickname may be a word: who greets first says hardly anything else.
                greets = words.language == CHINESE and pattern in words.told and found[0][0] not in "我叫"
                if greets or _is_name(name, text, words, is_told=pattern in words.told):
                    return words.lists["plain"].format(name=name.title() if name.islower() else name)
    return ""


def _is_name(name: str, text: str, words: _Words, *, is_told: bool) -> bool:
    if words.language in WITHOUT_BLANKS or name.islower():
        return not _is_word(name, words.language)
    if fold(name.split(maxsplit=1)[0]) in CALENDAR | HONORIFICS:
        return False
    if is_told:
        return True
    return name not in words.peoples and any(fold(known).startswith(fold(name)) for known in find_entities(text))


def _is_word(name: str, language: str) -> bool:
    """Tell whether what may be a name is a word of its language."""
    word = fold(name)
    if language == ENGLISH:
        return word in stop_words(ENGLISH) or word.endswith("ing") or word in english_words()
    return word in stop_words(language) or is_listed(word, language)


@cache
def _languages() -> tuple[_Words, ...]:
    lists = packaged_table(__package__, "introductions.toml")
    return tuple(_Words(language, each) for language, each in lists.items())
