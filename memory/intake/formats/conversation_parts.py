"""The conversations of an export of ChatGPT or Claude: one file or several parts, in its ZIP or in its folder."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from recall_loop.memory.intake.formats.foreign_files import read_member
from recall_loop.memory.intake.formats.source_items import UnreadableFileError

# ChatGPT gives a large export in parts.
_PART = re.compile(r"conversations-\d+\.json")


def conversation_parts(names: Sequence[str]) -> list[str]:
    """Return which of an export's files hold its conversations, in their order; none where it is no such export."""
    whole = [name for name in names if PurePosixPath(name).name == "conversations.json"][:1]
    return whole or sorted(name for name in names if _PART.fullmatch(PurePosixPath(name).name))


def folder_parts(path: Path) -> list[str]:
    """Return which files of a folder, not of those in it, hold conversations.

    Raises:
        OSError: it can't be read.
    """
    return conversation_parts([file.name for file in path.iterdir() if file.is_file()])


def read_archive_parts(path: Path, parts: Sequence[str]) -> Any:
    """Return what parts in a ZIP hold, joined.

    Raises:
        UnreadableFileError: one can't be unpacked, or is not JSON.
        OSError: the ZIP can't be read.
    """
    with zipfile.ZipFile(path) as archive:
        return _joined(path, "a ZIP archive", parts, lambda name: read_member(archive, name))


def read_folder_parts(path: Path, parts: Sequence[str]) -> Any:
    """Return what parts in a folder hold, joined.

    Raises:
        UnreadableFileError: one is not JSON.
        OSError: one can't be read.
    """
    return _joined(path, "a folder", parts, lambda name: (path / name).read_bytes())


def _joined(path: Path, what: str, parts: Sequence[str], read: Callable[[str], bytes]) -> Any:
    documents = [_parsed(path, what, name, read(name)) for name in parts]
    if len(documents) == 1:
        return documents[0]
    return [item for one in documents for item in (one if isinstance(one, list) else [one])]


def _parsed(path: Path, what: str, name: str, data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        words = f"{what} whose {PurePosixPath(name).name} is not JSON ({error})"
        raise UnreadableFileError(path, words, "export it again") from error
