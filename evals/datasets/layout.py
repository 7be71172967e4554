"""The layout of a folder with `questions.jsonl` and documents in files of JSON Lines (OPS-4).

Documents are in `docs.jsonl`, and in `*.jsonl` under `turns`, `facts`, `summaries` and `events`. `read_layout`
reads every document once and keeps only its position; records are created when a collection is requested.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from recall_loop.evals.datasets.dataset_parts import (
    SELECTED_KINDS,
    Dataset,
    Document,
    DocumentKind,
    DocumentSelection,
    LabelledQuestion,
    RecordPool,
    check_collections,
    gold_places,
    parse_selection,
    selection_error,
)
from recall_loop.evals.datasets.gold_places import GoldPlaces
from recall_loop.evals.datasets.json_files import JsonItem, iter_lines, reread_items
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import Record

QUESTIONS_FILE = "questions.jsonl"
DOCS_FILE = "docs.jsonl"
FOLDERS = ("turns", "facts", "summaries", "events")
LAYOUT_DESCRIPTION = (
    f"a folder with {QUESTIONS_FILE}, and documents in {DOCS_FILE} or in {'/, '.join(FOLDERS)}/ (*.jsonl)"
)


def read_layout(folder: Path, kinds: DocumentSelection | str | None) -> Dataset:
    """Load the data set in `folder`.

    Without `kinds`, a set that has dialogue turns of its own (`turns/`) is loaded with its messages
    only, as recall of gold turns is usually reported, and any other set completely.

    Raises:
        InvalidInputError: `folder` isn't of this layout, `kinds` is unknown or picks no document, or a
            line is malformed; names file, line and field.
    """
    if not folder.is_dir() or not (folder / QUESTIONS_FILE).is_file():
        raise InvalidInputError("data", str(folder), LAYOUT_DESCRIPTION)
    chosen = parse_selection(kinds, messages=any((folder / "turns").glob("*.jsonl")))
    questions = read_questions(folder / QUESTIONS_FILE)
    names = list(dict.fromkeys(question.collection for question in questions))
    gold = gold_places(questions)
    pools, blank = _scan(folder, chosen, names, gold)
    check_collections(questions, pools)
    return Dataset(folder.resolve().name, chosen, pools, questions, blank, gold_kinds=gold.kinds)


def read_questions(path: Path) -> list[LabelledQuestion]:
    """Return the questions of a file, one a line; `InvalidInputError` names file, line and field."""
    return [validate_model(LabelledQuestion, line.value, line.location) for line in iter_lines(path)]


def _scan(
    folder: Path, kinds: DocumentSelection, names: list[str], gold: GoldPlaces
) -> tuple[dict[str, RecordPool], int]:
    """Return the positions of the chosen documents, by collection, and the number without text."""
    chosen: dict[str, list[JsonItem]] = {}
    seen: set[DocumentKind] = set()
    blank = 0
    only = names[0] if len(names) == 1 else ""
    for path in _files(folder):
        for line in iter_lines(path):
            document = Document(line.location, line.value)
            seen.add(document.kind)
            if not document.blank:
                gold.note(str(line.value.get("collection") or only), line.value, document.kind)
            if document.kind not in SELECTED_KINDS[kinds]:
                continue
            if document.blank:
                blank += 1
            else:
                chosen.setdefault(collection_of(line, names), []).append(line.without_value())
    if not seen:
        raise InvalidInputError("data", str(folder), LAYOUT_DESCRIPTION)
    if not chosen:
        raise selection_error(kinds, seen)
    return {name: RecordPool(len(lines), partial(_records, lines)) for name, lines in chosen.items()}, blank


def _records(lines: Sequence[JsonItem]) -> Iterator[Record]:
    return (Document(line.location, fields).record() for line, fields in reread_items(lines))


def _files(folder: Path) -> Iterator[Path]:
    if (folder / DOCS_FILE).is_file():
        yield folder / DOCS_FILE
    for name in FOLDERS:
        yield from sorted((folder / name).glob("*.jsonl"))


def collection_of(line: JsonItem, names: list[str]) -> str:
    """Return the collection of a line's document; without one, that of the questions if they have only one.

    Raises:
        InvalidInputError: it names none, and the questions name several; includes the location.
    """
    named = line.value.get("collection")
    if named is None and len(names) == 1:
        return names[0]
    if not isinstance(named, str) or not named.strip():
        raise InvalidInputError(f"{line.location}.collection", named, "the name of the collection it belongs to")
    return named
