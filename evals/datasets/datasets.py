"""Labelled data sets in several formats, recognised by their contents (OPS-4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recall_loop.evals.datasets.dataset_parts import (
    SELECTED_KINDS,
    Dataset,
    DocumentSelection,
    LabelledQuestion,
    RawDataset,
    build_dataset,
)
from recall_loop.evals.datasets.format_beam import is_beam, read_beam
from recall_loop.evals.datasets.format_conversations import read_locomo, read_longmemeval
from recall_loop.evals.datasets.format_passages import read_hotpotqa, read_musique
from recall_loop.evals.datasets.format_tau import read_tau
from recall_loop.evals.datasets.json_files import first_byte, iter_items, read_json
from recall_loop.evals.datasets.layout import (
    LAYOUT_DESCRIPTION,
    QUESTIONS_FILE,
    RECORDS_FILE,
    read_layout,
    read_records_folder,
)
from recall_loop.memory.parsing.foreign_json import parse_object, raw_lines
from recall_loop.memory.store.files.store_place import checked_file
from recall_loop.state.errors import NOTHING, InvalidInputError

LAYOUT = "layout"
_READERS: Mapping[str, Callable[[Path], RawDataset]] = {
    "records": read_records_folder,
    "locomo": read_locomo,
    "beam": read_beam,
    "musique": read_musique,
    "hotpotqa": read_hotpotqa,
    "longmemeval": read_longmemeval,
    "tau": read_tau,
}
FORMATS = (LAYOUT, *_READERS)
# Fields that the first object of a file has only in this format.
_SIGNATURES = {
    "locomo": {"conversation", "qa"},
    "hotpotqa": {"supporting_facts", "context"},
    "longmemeval": {"haystack_sessions", "question_id"},
    "tau": {"traj", "reward"},
    "musique": {"paragraphs", "question"},
}
_ALLOWED = f"{LAYOUT_DESCRIPTION}; or a file or folder of {', '.join(_READERS)}"
_FOLDER_FORMATS = (LAYOUT, "records", "beam")


def load_dataset(
    path: str | Path, kinds: DocumentSelection | str | None = None, format_name: str | None = None
) -> Dataset:
    """Load the data set in `path`, a file or a folder; a folder may hold the one file of a set.

    Args:
        path: see `docs/evaluation.md`.
        kinds: documents to load; None = the messages of a conversation set, everything of any other.
        format_name: one of `FORMATS`; None = the one that the files look like.

    Raises:
        InvalidInputError: there is no known data set, `kinds` is unknown or selects no document, or
            something in a file is wrong; names file, line or item, and field.
        OSError: a file can't be read.
    """
    if format_name is not None and format_name not in FORMATS:
        raise InvalidInputError("format", format_name, " | ".join(FORMATS))
    place = checked_file(path)
    name = format_name or _detect_format(place)
    if name == LAYOUT:
        return read_layout(place, kinds)
    if name == "records" and kinds is None:
        kinds = DocumentSelection.ALL  # figures over the messages of such a set alone are never reported
    file = _only_file(place) if place.is_dir() and name not in (*_FOLDER_FORMATS, "tau") else place
    if not file.is_file() and not place.is_dir():
        raise InvalidInputError("data", str(place), "an existing file or folder")
    title = place.resolve().stem if place.is_file() else place.resolve().name
    return build_dataset(title, _READERS[name](file), kinds)


def _detect_format(path: Path) -> str:
    """Return the format of a file or folder."""
    if path.is_file():
        return _format_of_file(path)
    if not path.is_dir():
        raise InvalidInputError("data", str(path), _ALLOWED)
    if (path / QUESTIONS_FILE).is_file():
        return "records" if (path / RECORDS_FILE).is_file() else LAYOUT
    if is_beam(path):
        return "beam"
    files = _json_files(path)
    if not files:
        raise InvalidInputError("data", str(path), _ALLOWED)
    return _format_of_file(files[0])


def _json_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix in (".json", ".jsonl") and path.is_file())


def _only_file(folder: Path) -> Path:
    files = _json_files(folder)
    if len(files) != 1:
        raise InvalidInputError("data", str(folder), f"one file in it, or the file itself; there are {len(files)}")
    return files[0]


def _format_of_file(path: Path) -> str:
    first = _first_object(path)
    for name, signs in _SIGNATURES.items():
        if signs <= set(first):
            return name
    if not first and _is_tau2(path):
        return "tau"  # tau2-bench: one object over many lines
    raise InvalidInputError(
        path.name, sorted(first) or NOTHING, f"a data set of {', '.join(_READERS)}; --format names one"
    )


def _first_object(path: Path) -> dict[str, Any]:
    """Return the first object of a list or of the first line; {} where there is none."""
    if first_byte(path) == b"[":
        return next((item.value for item in iter_items(path)), {})
    line = next(raw_lines(path), None)
    found = parse_object(line) if line else {}
    return found if isinstance(found, dict) else {}


def _is_tau2(path: Path) -> bool:
    try:
        value = read_json(path) if first_byte(path) == b"{" else None
    except InvalidInputError:
        return False
    return isinstance(value, dict) and {"tasks", "simulations"} <= set(value)


@dataclass(frozen=True)
class UnloadedGold:
    """The number of questions that lack some of their gold evidence, and which selection of `kinds` loads it.

    `lost` are those of them that name a document which no selection loads: the set doesn't hold it, or it has no text.
    `kinds` is the smallest selection that loads all available evidence; None if no other one would load more.
    """

    questions: int
    lost: int
    kinds: DocumentSelection | None


def unloaded_gold(dataset: Dataset, questions: Sequence[LabelledQuestion]) -> UnloadedGold:
    """Return which gold evidence of `questions` isn't loaded; of a group any document will do."""
    loaded = SELECTED_KINDS[dataset.kinds]
    needed, lacking, lost = set[str](loaded), 0, 0
    for question in questions:
        missing = [kinds for kinds in _kinds_of_parts(dataset, question) if not kinds & loaded]
        lacking += bool(missing)
        lost += not all(missing)
        needed.update(*missing)
    fitting = (selection for selection in DocumentSelection if SELECTED_KINDS[selection] >= needed)
    return UnloadedGold(lacking, lost, next(fitting) if needed > loaded else None)


def _kinds_of_parts(dataset: Dataset, question: LabelledQuestion) -> list[set[str]]:
    """Return for each part of the evidence the kinds of documents that hold it."""
    if not question.scored or dataset.gold_kinds is None:
        return []
    grouped = {name for group in question.gold_groups for name in group}
    parts = [*question.gold_groups, *((name,) for name in question.gold if name not in grouped)]
    found = dataset.gold_kinds
    return [{kind for name in part for kind in found.get((question.collection, name), ())} for part in parts]
