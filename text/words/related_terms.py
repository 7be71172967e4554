"""Related terms for query expansion (QUERY-1, LOOP-7), from a small table written for this project.

A table is tab-separated UTF-8 text, one relation a line; blank lines and lines that begin with `#` are skipped:

    syn<TAB>head<TAB>member|member      head and members all mean about the same
    broader<TAB>head<TAB>member|member  each member is a broader term of head
    narrower<TAB>head<TAB>member|member each member is a narrower term of head

Terms are matched by the stems of their words, so `taught` needs an entry and `teachers` doesn't.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from recall_loop.state.errors import InvalidInputError
from recall_loop.text.words.tokens import fold, stem, words

RELATIONS = ("syn", "broader", "narrower")
_INVERSE = {"broader": "narrower", "narrower": "broader"}
_FIELDS = 3


@dataclass(frozen=True, slots=True)
class RelatedTerms:
    """Terms related to one term, as written in the table, each once and without the term itself."""

    synonyms: tuple[str, ...] = ()
    broader: tuple[str, ...] = ()
    narrower: tuple[str, ...] = ()


RelatedTermsTable = Mapping[str, RelatedTerms]
_NOTHING = RelatedTerms()


class _Relation(NamedTuple):
    relation: str
    head: str
    members: tuple[str, ...]


def term_key(term: str) -> str:
    """Return the key of `term` in a table: the stems of all its words, in order."""
    return " ".join(map(stem, words(term)))


def related_terms(term: str, table: RelatedTermsTable | None = None) -> RelatedTerms:
    """Return the related terms of `term` in `table` (default: the built-in one); empty if it has none."""
    return (_built_in() if table is None else table).get(term_key(term), _NOTHING)


def load_related_terms(extra: Path | None = None) -> RelatedTermsTable:
    """Return the built-in table, merged with the user's table in the file `extra` if given.

    Raises:
        InvalidInputError: `extra` can't be read as UTF-8 text, or a line is bad; names the file and the line number.
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


def _index(relations: Iterable[_Relation]) -> RelatedTermsTable:
    related: dict[str, dict[str, dict[str, str]]] = {}

    def relate(term: str, relation: str, others: Iterable[str]) -> None:
        slots = related.setdefault(term_key(term), {name: {} for name in RELATIONS})
        for other in others:
            slots[relation].setdefault(term_key(other), other)

    for relation, head, members in relations:
        if relation == "syn":
            for term in (head, *members):
                relate(term, relation, (head, *members))
        else:
            relate(head, relation, members)
            for member in members:
                relate(member, _INVERSE[relation], (head,))
    return MappingProxyType({key: _without_itself(key, slots) for key, slots in related.items()})


def _without_itself(key: str, slots: Mapping[str, Mapping[str, str]]) -> RelatedTerms:
    others = (tuple(term for other, term in slots[name].items() if other != key) for name in RELATIONS)
    return RelatedTerms(*others)
