"""The parts of a labelled data set: collections of records, and the questions asked of them (OPS-4)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from recall_loop.memory.intake.files.documents import record_from_document
from recall_loop.state.errors import NOTHING, InvalidInputError
from recall_loop.state.records.records import Record
from recall_loop.state.types import BodyText, ContentType, Identifier, Timestamp

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_WEEKDAY = re.compile(r"\s*\([^)]*\)\s*")


def question_date(value: Any) -> Any:
    """Read `2023/12/18 (Mon) 04:17` and `2023-12-18`; anything else is left to the RFC 3339 reader."""
    if isinstance(value, str) and _DAY.fullmatch(value):
        return datetime.fromisoformat(value)
    if not isinstance(value, str) or "/" not in value:
        return value
    plain = _WEEKDAY.sub(" ", value).strip()
    for form in ("%Y/%m/%d %H:%M", "%Y/%m/%d"):
        try:
            return datetime.strptime(plain, form)
        except ValueError:
            continue
    raise ValueError("a time such as 2023/12/18 (Mon) 04:17 or 2023-12-18T04:17:00Z")


GoldIds = Annotated[tuple[Identifier, ...], AfterValidator(lambda ids: tuple(dict.fromkeys(ids)))]
"""A set may name one twice; it counts once."""


class LabelledQuestion(BaseModel):
    """One labelled question. Fields of a line that aren't named here are left unread."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    id: Identifier
    collection: Identifier = Field(description="The pool that it is asked of.")
    question: BodyText
    category: str = "uncategorised"
    gold: GoldIds = Field((), description="Ids of the documents that hold the answer.")
    answerable: bool = True
    gold_groups: tuple[tuple[Identifier, ...], ...] = Field(
        (), description="Sets of documents that each hold one part of the answer; any document of a set will do."
    )
    before: Identifier | None = Field(None, description="The last document that was there when it was asked.")
    reference_time: Annotated[Timestamp | None, BeforeValidator(question_date)] = Field(
        None, validation_alias=AliasChoices("question_date", "asked_at"), description="When it is asked (UTC)."
    )

    @property
    def scored(self) -> bool:
        """Whether it counts for retrieval metrics: answerable, with at least one gold id."""
        return self.answerable and bool(self.gold)


# Record fields that documents name differently: an error uses the name in the file.
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
    """The role of a document in an evaluation; titled passages, summaries, events and runs are `other`."""

    MESSAGE = "message"
    FACT = "fact"
    OTHER = "other"


SELECTED_KINDS = {
    DocumentSelection.MESSAGES: frozenset({DocumentKind.MESSAGE}),
    DocumentSelection.FACTS: frozenset({DocumentKind.FACT}),
    DocumentSelection.MESSAGES_AND_FACTS: frozenset({DocumentKind.MESSAGE, DocumentKind.FACT}),
    DocumentSelection.ALL: frozenset(DocumentKind),
}


@dataclass(frozen=True)
class RecordPool:
    """The `size` records of one collection; each reading makes them again, so only one collection need be in memory.

    They come in the order of the files. A document that can't become a record raises `InvalidInputError`, which names
    file, line or item, and field.
    """

    size: int
    read: Callable[[], Iterator[Record]] = field(repr=False)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Record]:
        return self.read()


@dataclass(frozen=True)
class Dataset:
    """A labelled data set: its collections, and the questions asked of them.

    `blank` counts documents without text, of the chosen kinds: they are left out. `content_types` are what its
    questions search (None = what a request searches by itself), `gold_kinds` by collection and gold id the kinds of the
    documents that hold it, loaded or not; None = not known.
    """

    name: str
    kinds: DocumentSelection
    collections: Mapping[str, RecordPool]
    questions: list[LabelledQuestion]
    blank: int = 0
    content_types: tuple[ContentType, ...] | None = None
    gold_kinds: Mapping[tuple[str, str], Set[str]] | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Document:
    """One document of a file, at a `location` as errors name it: its fields, and what makes a record of them."""

    location: str
    fields: Mapping[str, Any]
    make: Callable[[Mapping[str, Any]], Record] = record_from_document

    @property
    def kind(self) -> DocumentKind:
        """Its role in an evaluation."""
        kind = self.fields.get("kind")
        if kind == "message":
            return DocumentKind.MESSAGE
        return DocumentKind.FACT if kind == "fact" and not self.fields.get("title") else DocumentKind.OTHER

    @property
    def blank(self) -> bool:
        """Whether there is no text in it."""
        text = self.fields.get("text")
        return isinstance(text, str) and not text.strip()

    @property
    def evidence_ids(self) -> list[str]:
        """Its own id, and those of what it was drawn from."""
        sources = self.fields.get("source_ids")
        names = (self.fields.get("id"), *(sources if isinstance(sources, list | tuple) else ()))
        return [name for name in names if isinstance(name, str)]

    def record(self) -> Record:
        """Return it as a record; raise `InvalidInputError`, which names place and field."""
        try:
            return self.make(self.fields)
        except InvalidInputError as error:
            top = error.field.partition(".")[0]
            name = DOCUMENT_FIELD_NAMES.get(top, top) if self.make is record_from_document else error.field
            raise InvalidInputError(f"{self.location}.{name}", self.fields.get(name), error.allowed) from error


DocumentReader = Callable[[], Iterable[Document]]


@dataclass(frozen=True)
class RawDataset:
    """A data set as its files have it: for each collection a function that reads its documents, and the questions.

    An id may come again with the same text; gold ids are as documents have them.
    """

    collections: Mapping[str, DocumentReader]
    questions: list[LabelledQuestion]
    content_types: tuple[ContentType, ...] | None = None


def _selected_records(read: DocumentReader, kinds: frozenset[DocumentKind]) -> Iterator[Record]:
    """Yield the documents of the chosen kinds that have text, as records."""
    for document in distinct_documents(read()):
        if document.kind in kinds and not document.blank:
            yield document.record()


def distinct_documents(documents: Iterable[Document]) -> Iterator[Document]:
    """Yield every blank document, and of those with text the first of each kind and id."""
    seen: set[object] = set()
    for document in documents:
        name = document.fields.get("id")
        if document.blank or name is None or (document.kind, name) not in seen:
            yield document
        if not document.blank:
            seen.add((document.kind, name))


def build_dataset(name: str, source: RawDataset, kinds: DocumentSelection | str | None) -> Dataset:
    """Return the data set of a source. Without `kinds` it is the messages where there are any, else everything.

    An unknown kind, and one that picks no document, raise `InvalidInputError`.
    """
    blanks: Counter[DocumentKind] = Counter()
    counts: dict[str, Counter[DocumentKind]] = {collection: Counter() for collection in source.collections}
    wanted = {
        (question.collection, name)
        for question in source.questions
        for group in (question.gold, *question.gold_groups)
        for name in group
    }
    gold_kinds: dict[tuple[str, str], set[str]] = {}
    for collection, read in source.collections.items():
        for document in distinct_documents(read()):
            (blanks if document.blank else counts[collection])[document.kind] += 1
            for place in ((collection, name) for name in ([] if document.blank else document.evidence_ids)):
                if place in wanted:
                    gold_kinds.setdefault(place, set()).add(document.kind)
    present = set(blanks).union(*counts.values())
    selection = parse_selection(kinds, messages=DocumentKind.MESSAGE in present)
    selected = SELECTED_KINDS[selection]
    pools = {
        collection: RecordPool(size, partial(_selected_records, source.collections[collection], selected))
        for collection, count in counts.items()
        if (size := sum(count[kind] for kind in selected))
    }
    if not pools:
        raise selection_error(selection, present)
    check_collections(source.questions, pools)
    blank = sum(blanks[kind] for kind in selected)
    return Dataset(name, selection, pools, source.questions, blank, source.content_types, gold_kinds)


def parse_selection(kinds: DocumentSelection | str | None, *, messages: bool) -> DocumentSelection:
    """Return the kinds of this name, if there are such; for None the messages where there are any, else everything."""
    if kinds is None:
        return DocumentSelection.MESSAGES if messages else DocumentSelection.ALL
    try:
        return DocumentSelection(kinds)
    except ValueError:
        raise InvalidInputError("kinds", kinds, " | ".join(DocumentSelection)) from None


def selection_error(kinds: DocumentSelection, seen: set[DocumentKind]) -> InvalidInputError:
    """Return the error for kinds that a data set lacks; `seen` are the parts that it has."""
    if not seen:
        return InvalidInputError("data", NOTHING, "a data set with at least one document")
    fitting = [each.value for each in DocumentSelection if SELECTED_KINDS[each] & seen]
    return InvalidInputError("kinds", kinds.value, f"one that this data set has: {' | '.join(fitting)}")


def check_collections(questions: Iterable[LabelledQuestion], known: Mapping[str, object]) -> None:
    """Refuse a question of a collection that has no documents; the `InvalidInputError` names the question."""
    for question in questions:
        if question.collection not in known:
            place = f"question {question.id}: collection"
            raise InvalidInputError(place, question.collection, f"one of {sorted(known)}")
