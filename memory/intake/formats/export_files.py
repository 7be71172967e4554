"""The files of an export, in its ZIP or in its folder: each as JSON, and which hold conversations."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from recall_loop.memory.intake.formats.foreign_files import read_member
from recall_loop.memory.intake.formats.source_items import UnreadableFileError, as_list

# ChatGPT gives a large export in parts.
_PART = re.compile(r"conversations-\d+\.json")
# Claude has them beside its conversations.
_BESIDE = ("projects.json", "memories.json")


def conversation_parts(names: Sequence[str]) -> list[str]:
    """Return which of an export's files hold its conversations, and what belongs to them; none where it is none."""
    whole = [name for name in names if PurePosixPath(name).name == "conversations.json"][:1]
    if whole:
        beside = [PurePosixPath(whole[0]).with_name(name).as_posix() for name in _BESIDE]
        return [*whole, *(name for name in beside if name in names)]
    return sorted(name for name in names if _PART.fullmatch(PurePosixPath(name).name))


def folder_parts(path: Path) -> list[str]:
    """Return which files of a folder, not of those in it, hold conversations.

    Raises:
        OSError: it can't be read.
    """
    return conversation_parts([file.name for file in path.iterdir() if file.is_file()])


def read_conversations(path: Path, parts: Sequence[str]) -> Any:
    """Return what parts of an export hold, joined; raises as `opened_export`."""
    with opened_export(path) as read:
        documents = [read(name) for name in parts]
    return documents[0] if len(documents) == 1 else [item for one in documents for item in as_list(one)]


@contextmanager
def opened_export(path: Path) -> Iterator[Callable[[str], Any]]:
    """Give what reads a file of an export as JSON, by its name in the ZIP or folder.

    Raises:
        UnreadableFileError: one can't be unpacked, or is not JSON.
        OSError: one can't be read.
    """
    if path.is_dir():
        yield lambda name: _parsed(path, "a folder", name, (path / name).read_bytes())
        return
    with zipfile.ZipFile(path) as archive:
        yield lambda name: _parsed(path, "a ZIP archive", name, read_member(archive, name))


def _parsed(path: Path, what: str, name: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError(path, f"{what} whose {name} is not JSON ({error})", "export it again") from error
