"""What every labelled data set is made of: collections of records, and the questions asked of them (OPS-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from recall_loop.evals.datasets.questions import LabelledQuestion
from recall_loop.memory.intake.files.documents import record_from_document
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record
from recall_loop.state.types import ContentType

# Record fields that documents call otherwise: an error names what stands in the file.
DOCUMENT_FIELD_NAMES = {
    "author": "speaker",
    "subject": "speaker",
    "conversation_id": "collection",
    "created_at": "timestamp",
    "label": "title",
}


class DocumentSelection(StrEnum):
    """Which documents of a data set are loaded."""

    MESSAGES = "messages"
    FACTS = "facts"
    MESSAGES_AND_FACTS = "messages+facts"
    ALL = "all"


class DocumentKind(StrEnum):
    """What a document is to an evaluation; titled passages, summaries, events and runs are `other`."""

    MESSAGE = "message"
    FACT = "fact"
    OTHER = "other"


SELECTED_KINDS = {
    DocumentSelection.MESSAGES: frozenset({DocumentKind.MESSAGE}),
    DocumentSelection.FACTS: frozenset({DocumentKind.FACT}),
    DocumentSelection.MESSAGES_AND_FACTS: frozenset({DocumentKind.MESSAGE, DocumentKind.FACT}),
    DocumentSelection.ALL: frozenset(DocumentKind),
}


class RecordSource(Protocol):
    """The records of one collection; each reading makes them anew, so only one collection need be in memory."""

    def __len__(self) -> int:
        """Return how many records there are, without making them."""
        ...

    def records(self) -> Iterator[Record]:
        """Yield the records, in the order of the files.

        Raises:
            InvalidInputError: a document can't become a record; names file, line or item, and field.
        """
        ...


@dataclass(frozen=True)
class Collections(Mapping[str, list[Record]]):
    """Records by collection."""

    _pools: Mapping[str, RecordSource] = field(repr=False)

    def __iter__(self) -> Iterator[str]:
        return iter(self._pools)

    def __len__(self) -> int:
        return len(self._pools)

    def __contains__(self, name: object) -> bool:
        return name in self._pools  # the inherited one would read the records

    def __getitem__(self, name: str) -> list[Record]:
        return list(self.records(name))

    def size(self, name: str) -> int:
        """Return how many documents the collection has, without reading them."""
        return len(self._pools[name])

    def records(self, name: str) -> Iterator[Record]:
        """Yield the records of one collection; see `Pool.records`.

        Raises:
            KeyError: the data set has no such collection.
            InvalidInputError: a document can't become a record.
        """
        yield from self._pools[name].records()


@dataclass(frozen=True)
class Dataset:
    """A labelled data set: its collections, and the questions asked of them.

    Attributes:
        blank: documents without text, of the chosen kinds: they are left out.
        content_types: what its questions search; None = what a request searches by itself.
    """

    name: str
    kinds: DocumentSelection
    collections: Collections
    questions: list[LabelledQuestion]
    blank: int = 0
    content_types: tuple[ContentType, ...] | None = None


@dataclass(frozen=True)
class Document:
    """One document of a file.

    Attributes:
        place: file and line, or item, as errors name it.
        fields: what it says, `kind` and `text` among it.
        make: makes the record.
    """

    location: str
    fields: Mapping[str, Any]
    make: Callable[[Mapping[str, Any]], Record] = record_from_document

    @property
    def kind(self) -> DocumentKind:
        """What it is to an evaluation."""
        kind = self.fields.get("kind")
        if kind == "message":
            return DocumentKind.MESSAGE
        return DocumentKind.FACT if kind == "fact" and not self.fields.get("title") else DocumentKind.OTHER

    @property
    def blank(self) -> bool:
        """Whether there is no text in it."""
        text = self.fields.get("text")
        return isinstance(text, str) and not text.strip()

    def record(self) -> Record:
        """Return it as a record.

        Raises:
            InvalidInputError: names place and field.
        """
        try:
            return self.make(self.fields)
        except InvalidInputError as error:
            top = error.field.partition(".")[0]
            name = DOCUMENT_FIELD_NAMES.get(top, top) if self.make is record_from_document else error.field
            raise InvalidInputError(f"{self.location}.{name}", self.fields.get(name), error.allowed) from error


DocumentReader = Callable[[], Iterable[Document]]


@dataclass(frozen=True)
class RawDataset:
    """A data set as its files have it.

    Attributes:
        collections: for each one a function that reads its documents; an id may come again with the same text.
        questions: with gold ids as documents have them.
        content_types: as in `Dataset`.
    """

    collections: Mapping[str, DocumentReader]
    questions: list[LabelledQuestion]
    content_types: tuple[ContentType, ...] | None = None


@dataclass(frozen=True)
class _SelectedDocuments:
    """The documents of one collection that count."""

    read: DocumentReader
    parts: frozenset[DocumentKind]
    size: int

    def __len__(self) -> int:
        return self.size

    def records(self) -> Iterator[Record]:
        """Yield the records."""
        return (document.record() for document in _distinct(self.read()) if document.kind in self.parts)


def _distinct(documents: Iterable[Document]) -> Iterator[Document]:
    """Yield documents that have text, each id once."""
    seen: set[object] = set()
    for document in documents:
        name = document.fields.get("id")
        if not document.blank and (name is None or name not in seen):
            seen.add(name)
            yield document


def build_dataset(name: str, source: RawDataset, kinds: DocumentSelection | str | None) -> Dataset:
    """Return the data set of a source. Without `kinds` it is the messages where there are any, else everything.

    Raises:
        InvalidInputError: `kinds` is unknown, or picks no document.
    """
    found = {part: False for part in DocumentKind}
    counts: dict[str, dict[DocumentKind, int]] = {}
    blanks = dict.fromkeys(DocumentKind, 0)
    for collection, read in source.collections.items():
        counts[collection] = dict.fromkeys(DocumentKind, 0)
        for part, empty in scan_documents(read):
            found[part] = True
            blanks[part] += empty
            counts[collection][part] += not empty
    chosen = parse_selection(kinds, messages=found[DocumentKind.MESSAGE])
    parts = SELECTED_KINDS[chosen]
    pools: dict[str, RecordSource] = {
        collection: _SelectedDocuments(source.collections[collection], parts, sum(each[part] for part in parts))
        for collection, each in counts.items()
        if any(each[part] for part in parts)
    }
    if not pools:
        raise selection_error(chosen, {part for part, there in found.items() if there})
    check_collections(source.questions, pools)
    blank = sum(blanks[part] for part in parts)
    return Dataset(name, chosen, Collections(pools), source.questions, blank, source.content_types)


def scan_documents(read: DocumentReader) -> Iterator[tuple[DocumentKind, bool]]:
    """Yield what each document is, and whether it is blank; a repeated one once."""
    seen: set[object] = set()
    for document in read():
        name = document.fields.get("id")
        if document.blank or name is None or name not in seen:
            seen.add(name)
            yield document.kind, document.blank


def parse_selection(kinds: DocumentSelection | str | None, *, messages: bool) -> DocumentSelection:
    """Return the kinds of this name; for None the messages where there are any, else everything.

    Raises:
        InvalidInputError: an unknown name.
    """
    if kinds is None:
        return DocumentSelection.MESSAGES if messages else DocumentSelection.ALL
    try:
        return DocumentSelection(kinds)
    except ValueError:
        raise InvalidInputError("kinds", kinds, " | ".join(DocumentSelection)) from None


def selection_error(kinds: DocumentSelection, seen: set[DocumentKind]) -> InvalidInputError:
    """Return the error for kinds that a data set lacks; `seen` are the parts that it has."""
    fitting = [each.value for each in DocumentSelection if SELECTED_KINDS[each] & seen]
    return InvalidInputError("kinds", kinds.value, f"one that this data set has: {' | '.join(fitting)}")


def check_collections(questions: Iterable[LabelledQuestion], known: Mapping[str, object]) -> None:
    """Refuse a question of a collection that has no documents.

    Raises:
        InvalidInputError: names the question.
    """
    for question in questions:
        if question.collection not in known:
            raise InvalidInputError(
                f"question {question.id}: collection", question.collection, f"one of {sorted(known)}"
            )
