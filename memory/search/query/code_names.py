"""Names in code are found in any spelling: `parseConfig`, `parse_config`, "parse config", v1.10 and 1.10 (OPEN-4).

The memory isn't searched for parts of its words, only for whole words formed by neighbours in a query: few look-ups,
however large it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from recall_loop.memory.search.query.lexical import TermGroup
from recall_loop.text.names.identifiers import spelt_apart
from recall_loop.text.words.languages import stop_words
from recall_loop.text.words.stemming import stem as stem_of
from recall_loop.text.words.tokens import words

JOINED_WEIGHT = 0.8
_MAX_JOINED, _MAX_WORDS = 4, 64
_NAME = re.compile(r"[A-Za-z0-9]+")
_VERSION = re.compile(r"(?<!\w)(?<!\d\.)(v?)(\d+)(?=\.\d)", re.IGNORECASE)


def with_spellings(
    groups: Sequence[TermGroup], text: str, language: str, count: Callable[[Collection[str]], Mapping[str, int]]
) -> list[TermGroup]:
    """Return groups of stems with other spellings of names in code and of versions.

    The parts of a name with inner capitals are looked up one by one, and each also as the whole name. Two to four
    neighbours also find the word that they form together, if the memory has it.

    Args:
        groups: the groups of a query.
        text: the query.
        language: the language by which its words are stemmed.
        count: returns the number of readable rows with each stem.
    """
    groups = _split_names(groups, text, language)
    made = _joined(words(spelt_apart(text))[:_MAX_WORDS], {group.stem for group in groups}, language)
    rows = count(list(made)) if made else {}
    more = [(joined, JOINED_WEIGHT, parts) for joined, parts in made.items() if rows[joined]]
    more += [(other, 1.0, [own]) for own, other in _versions(text)]
    return [
        group._replace(
            variants=(*group.variants, *((one, weight) for one, weight, parts in more if _is_new(one, parts, group)))
        )
        for group in groups
    ]


def _is_new(variant: str, parts: Collection[str], group: TermGroup) -> bool:
    return group.stem in parts and all(variant != known for known, _ in group.variants)


def _split_names(groups: Sequence[TermGroup], text: str, language: str) -> list[TermGroup]:
    """Return groups with the parts of each name in place of the name, whose stems count for each part."""
    apart: dict[str, list[str]] = {}
    for name in _NAME.findall(text):
        parts = [stem_of(word, language) for word in words(spelt_apart(name)) if word not in stop_words(language)]
        if len(words(spelt_apart(name))) > 1 and parts:
            apart[stem_of(name.lower(), language)] = parts
    if not apart:
        return list(groups)
    found: dict[str, TermGroup] = {}
    for group in groups:
        for part in apart.get(group.stem, [group.stem]):
            own = group.variants if part == group.stem else ((part, 1.0), *group.variants)
            known = found.get(part)
            found[part] = TermGroup(part, own if known is None else (*known.variants, *own), group.dated)
    return list(found.values())


def _versions(text: str) -> list[tuple[str, str]]:
    """Return the beginnings of versions in a text, each with its other spelling, with or without a "v"."""
    found = ((prefix.lower(), number) for prefix, number in _VERSION.findall(text))
    return [(prefix + number, number if prefix else f"v{number}") for prefix, number in found]


def _joined(names: Sequence[str], looked_up: Collection[str], language: str) -> dict[str, list[str]]:
    """Return, by the stem of each word formed by two to four neighbours, those of their stems that count.

    Numbers are left out (1.10 is not 110), and so are scripts without case, such as Chinese: nobody joins words there.
    """
    stems = [stem_of(word, language) for word in names]
    cased = [word.isalpha() and word != word.upper() for word in names]
    made: dict[str, list[str]] = {}
    for length in range(2, _MAX_JOINED + 1):
        for at in range(len(names) - length + 1):
            parts = [stem for stem in stems[at : at + length] if stem in looked_up]
            if len(parts) > 1 and all(cased[at : at + length]):
                made[stem_of("".join(names[at : at + length]), language)] = parts
    return made
