"""Related terms for query expansion and coverage (QUERY-1, LOOP-7, STOP-5).

Two tables are built in: `related.tsv`, written for this project, and behind it `wordnet.tsv`, made from WordNet by
`benchmarks/words/make_related_words.py`. A table is tab-separated UTF-8 text, one relation a line; blank lines and
lines that begin with `#` are skipped:

    syn<TAB>head<TAB>member|member      head and members all mean about the same
    also<TAB>head<TAB>member|member     each member says much the same as head, but not as the other members
    form<TAB>head<TAB>member|member     each member is an irregular form of head, and goes with all that head goes with
    converse<TAB>head<TAB>verb from     what head says of one side, the member says of the other (sell: buy from)
    broader<TAB>head<TAB>member|member  each member is a broader term of head
    narrower<TAB>head<TAB>member|member each member is a narrower term of head

Terms are matched by the stems of their words, so `taught` needs an entry and `teachers` doesn't. Of two terms with one
stem (`develop`, `developer`) the one that is written counts.

Finding what goes with each term takes longer than a question does, so what it gives for the built-in tables is kept in
`related_index.tsv`, a line for each key. `make snapshots` writes it. It holds for one version of the stemmer; with
another the tables are read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import Stemmer

from recall_loop.state.errors import InvalidInputError
from recall_loop.text.packaged_data import packaged_text
from recall_loop.text.words.folding import fold
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import words

SYNONYM, ALSO, FORM, BROADER, NARROWER, CONVERSE = "syn", "also", "form", "broader", "narrower", "converse"
RELATIONS = (SYNONYM, ALSO, FORM, BROADER, NARROWER, CONVERSE)
_SLOTS = (SYNONYM, BROADER, NARROWER, ALSO, CONVERSE)
_INVERSE = {BROADER: NARROWER, NARROWER: BROADER, ALSO: ALSO}
_FIELDS = 3


@dataclass(frozen=True, slots=True)
class RelatedTerms:
    """Terms related to one term, as written in the table, each once and without the term itself.

    `also` are words of its family, and others by which the same may be told (own: owner, belongs to); `converse` are
    words, each with a preposition somewhere behind it, that tell it from the other side (sell: buy from).
    """

    synonyms: tuple[str, ...] = ()
    broader: tuple[str, ...] = ()
    narrower: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    converse: tuple[str, ...] = ()


RelatedTermsTable = Mapping[str, RelatedTerms]
_NOTHING = RelatedTerms()
# A line of a table: relation, head, members.
_Relation = tuple[str, str, tuple[str, ...]]


class _Table(RelatedTermsTable):
    """The terms of each entry by its key, as a line of the index has them; an object is made when one is asked for.

    Thousands of such objects would take memory, and each full run of Python's garbage collection would go through them.
    """

    def __init__(self, entries: Mapping[str, str]) -> None:
        self._entries = entries

    def __getitem__(self, key: str) -> RelatedTerms:
        return RelatedTerms(*(tuple(terms.split("|") if terms else ()) for terms in self._entries[key].split("\t")))

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def written(self) -> str:
        """Return the entries as a file holds them."""
        return "".join(f"{key}\t{terms}\n" for key, terms in sorted(self._entries.items()))

    @classmethod
    def read(cls, text: str) -> _Table:
        """Return what was written."""
        pairs = (line.partition("\t") for line in text.split("\n")[:-1])
        return cls({key: terms for key, _, terms in pairs})


_INFLECTIONS = ("ed", "ing")
_IES = re.compile(r"(?<=[^\Ws]{2})ies$")
_PLURAL = re.compile(r"(?<=[^\Ws]{3})s$")


def term_key(term: str) -> str:
    """Return the key of `term` in a table: the stems of all its words, in order."""
    return " ".join(map(stem, words(term)))


def _written_key(term: str) -> str:
    """Return the key of a term as it is written, but for the ending `s` or `ies`; it is no stem's key."""
    return "=" + _PLURAL.sub("", _IES.sub("y", " ".join(words(term))))


def related_terms(term: str, table: RelatedTermsTable | None = None) -> RelatedTerms:
    """Return the related terms of `term` in `table` (default: the built-in one); empty if it has none."""
    table = _built_in() if table is None else table
    return table.get(_written_key(term)) or table.get(term_key(term), _NOTHING)


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
    return _index([*_built_in_lines(), *_parse(text, str(extra)), *_wordnet_lines()])


def written_index() -> str:
    """Return what `related_index.tsv` has to hold: the version of the stemmer, and the built-in table."""
    return f"{Stemmer.version()}\n{_from_tables().written()}"


def _from_tables() -> _Table:
    return _index([*_built_in_lines(), *_wordnet_lines()])


@cache
def common_terms() -> frozenset[str]:
    """Return the built-in table's one-word terms in lower case, folded."""
    return frozenset(fold(term) for term in _built_in_terms() if term.isalpha() and term.islower())


@cache
def proper_terms() -> frozenset[str]:
    """Return the built-in table's terms with a capital letter (technologies, languages), folded."""
    return frozenset(fold(term) for term in _built_in_terms() if not term.islower())


def _built_in_terms() -> Iterator[str]:
    return (term for _, head, members in _built_in_lines() for term in (head, *members))


@cache
def _built_in_lines() -> tuple[_Relation, ...]:
    return tuple(_packaged("related.tsv"))


def _wordnet_lines() -> list[_Relation]:
    return _packaged("wordnet.tsv")


def _packaged(name: str) -> list[_Relation]:
    return _parse(packaged_text(__package__, name), name)


@cache
def _built_in() -> RelatedTermsTable:
    version, _, entries = packaged_text(__package__, "related_index.tsv").partition("\n")
    return _Table.read(entries) if version == Stemmer.version() else _from_tables()


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
    return relation, head, members


# By relation and key of the related term: that term, and the written terms that it is related to.
_Slots = dict[str, dict[str, tuple[str, set[str]]]]


class _Index:
    """A table in the making."""

    def __init__(self) -> None:
        self._related: dict[str, _Slots] = defaultdict(lambda: {name: {} for name in _SLOTS})
        self._key, self._written = lru_cache(None)(term_key), lru_cache(None)(_written_key)

    def add(self, relation: str, head: str, members: Sequence[str]) -> None:
        """Add one line of a table; lines of forms come last."""
        if relation == SYNONYM:
            for term in (head, *members):
                self._relate(term, relation, (head, *members))
        elif relation == FORM:
            slots = self._related[self._key(head)]
            known = [other for name in (SYNONYM, ALSO) for other, _ in slots[name].values()]
            for term in (head, *members, *known):
                self._relate(term, ALSO, members)
            converse = [other for other, _ in slots[CONVERSE].values()]
            for form in members:
                self._relate(form, ALSO, (head, *known))
                self._relate(form, CONVERSE, converse)
        elif relation == CONVERSE:
            self._relate(head, relation, members)
        else:
            self._relate(head, relation, members)
            for member in members:
                self._relate(member, _INVERSE[relation], (head,))

    def _relate(self, term: str, relation: str, others: Iterable[str]) -> None:
        related, written = self._related[self._key(term)][relation], self._written(term)
        for other in others:
            key = self._key(other)
            if key not in related:
                related[key] = (other, set())
            related[key][1].add(written)

    def table(self) -> _Table:
        """Return the table: an entry for each key, and one for each of several words that share a key."""
        table = {key: _entry(key, slots, None) for key, slots in self._related.items()}
        for key, slots in self._related.items():
            written = {exact for others in slots.values() for _, exacts in others.values() for exact in exacts}
            inflected = {exact for exact in written if exact.endswith(_INFLECTIONS)}
            if len(written - inflected) > 1:
                table |= {exact: _entry(key, slots, {exact} | inflected) for exact in written - inflected}
        return _Table(table)


def _entry(key: str, slots: _Slots, written: Set[str] | None) -> str:
    """Return the terms related to a key, or of these to some written terms, by `_SLOTS`; never itself."""
    found = []
    for name in _SLOTS:
        known = slots[SYNONYM] if name == ALSO else {}
        others = [pair for other, pair in slots[name].items() if other != key and other not in known]
        found.append("|".join(term for term, exacts in others if written is None or exacts & written))
    return "\t".join(found)


def _index(relations: Iterable[_Relation]) -> _Table:
    index = _Index()
    for line in sorted(relations, key=lambda line: line[0] == FORM):
        index.add(*line)
    return index.table()
