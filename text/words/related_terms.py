"""Related terms for query expansion (QUERY-1, LOOP-7), from a small table written for this project.

A table is tab-separated UTF-8 text, one relation a line; blank lines and lines that begin with `#` are
skipped:

    syn<TAB>head<TAB>member|member      head and members all mean about the same
    broader<TAB>head<TAB>member|member  each member is a broader term of head
    narrower<TAB>head<TAB>member|member each member is a narrower term of head

Terms are matched by the stems of their words, so `taught` needs its own entry and
`teachers` doesn't.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType

from recall_loop.state.errors import InvalidInputError
from recall_loop.text.words.tokens import fold, stem, words

RELATIONS = ("syn", "broader", "narrower")
_FIELDS = 3


@dataclass(frozen=True, slots=True)
class RelatedTerms:
    """Terms related to one term, as the table writes them; never the term itself, each once."""

    synonyms: tuple[str, ...] = ()
    broader: tuple[str, ...] = ()
    narrower: tuple[str, ...] = ()


RelatedTermsTable = Mapping[str, RelatedTerms]
_NOTHING = RelatedTerms()


@dataclass(frozen=True, slots=True)
class _Relation:
    relation: str
    head: str
    members: tuple[str, ...]


def term_key(term: str) -> str:
    """Return the key by which a table finds `term`: the stems of all its words, in order."""
    return " ".join(map(stem, words(term)))


def related_terms(term: str, table: RelatedTermsTable | None = None) -> RelatedTerms:
    """Return what `table` (default: the built-in one) knows about `term`; empty tuples for nothing."""
    known = load_related_terms() if table is None else table
    return known.get(term_key(term), _NOTHING)


def load_related_terms(extra: Path | None = None) -> RelatedTermsTable:
    """Return the built-in table, merged with the user's own in `extra` where given.

    Raises:
        InvalidInputError: `extra` can't be read as UTF-8 text, or names the file and number of a bad line.
    """
    if extra is None:
        return _built_in()
    try:
        text = extra.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError("related terms", str(extra), f"a readable UTF-8 file ({error})") from error
    return _index([*_built_in_lines(), *_parse(text, str(extra))])


@cache
def common_terms() -> frozenset[str]:
    """Return the built-in table's one-word terms in lower case, folded."""
    return frozenset(fold(term) for term in _built_in_terms() if term.isalpha() and term.islower())


@cache
def proper_terms() -> frozenset[str]:
    """Return the built-in table's terms with a capital letter (technologies, languages), folded."""
    return frozenset(fold(term) for term in _built_in_terms() if not term.islower())


def _built_in_terms() -> Iterator[str]:
    return (term for line in _built_in_lines() for term in (line.head, *line.members))


@cache
def _built_in_lines() -> tuple[_Relation, ...]:
    source = resources.files("recall_loop.text.words").joinpath("related.tsv")
    return tuple(_parse(source.read_text("utf-8"), "related.tsv"))


@cache
def _built_in() -> RelatedTermsTable:
    return _index(_built_in_lines())


def _parse(text: str, name: str) -> list[_Relation]:
    lines = enumerate(text.removeprefix("\ufeff").splitlines(), start=1)
    return [_line(raw, f"{name}, line {at}") for at, raw in lines if raw.strip() and not raw.startswith("#")]


def _line(raw: str, place: str) -> _Relation:
    fields = [field.strip() for field in raw.split("\t")]
    if len(fields) != _FIELDS:
        raise InvalidInputError(place, raw, "three fields with tabs between: relation, head, members")
    relation, head, listed = fields
    if relation not in RELATIONS:
        raise InvalidInputError(f"{place}: relation", relation, " or ".join(RELATIONS))
    members = tuple(member.strip() for member in listed.split("|"))
    for term in (head, *members):
        if not words(term):
            raise InvalidInputError(f"{place}: term", term, "a term with at least one letter or digit")
    return _Relation(relation, head, members)


def _index(lines: Iterable[_Relation]) -> RelatedTermsTable:
    found: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str]]] = {}

    def add(term: str, slot: int, others: Iterable[str]) -> None:
        key = term_key(term)
        slots = found.setdefault(key, ({}, {}, {}))
        for other in others:
            other_key = term_key(other)
            if other_key != key:
                slots[slot].setdefault(other_key, other)

    for line in lines:
        if line.relation == "syn":
            group = (line.head, *line.members)
            for term in group:
                add(term, 0, group)
        else:
            here = RELATIONS.index(line.relation)
            add(line.head, here, line.members)
            for member in line.members:
                add(member, 3 - here, (line.head,))
    return MappingProxyType(
        {key: RelatedTerms(*(tuple(slot.values()) for slot in slots)) for key, slots in found.items()}
    )
