"""The files of a folder that ingest reads: an export as one, of any other folder all files in it."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from recall_loop.memory.intake.exports.slack_export import is_slack_folder
from recall_loop.memory.intake.exports.whatsapp import is_whatsapp
from recall_loop.memory.intake.formats.foreign_files import folder_parts

REJECTS_SUFFIX = ".rejects.jsonl"


def files_of_folder(path: Path, without: Collection[Path] = ()) -> Iterator[Path]:
    """Yield the files of a folder and of the folders in it, by their names; a folder that is an export as one.

    Left out are names that begin with a period, files of rejected lines, and what is among `without`, whose paths are
    resolved. A link to a folder is yielded as it is and not followed, as it could lead in a circle; so is a folder that
    can't be listed: whoever reads it is told why.
    """
    try:
        entries = None if folder_parts(path) or is_slack_folder(path) or is_whatsapp(path) else _listed(path)
    except OSError:
        entries = None
    if entries is None:
        yield path
    for entry in entries or ():
        place = Path(entry.path)
        if entry.name.startswith(".") or entry.name.endswith(REJECTS_SUFFIX) or place.resolve() in without:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from files_of_folder(place, without)
        elif entry.is_file() or entry.is_symlink():
            yield place


def _listed(path: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder, by name, files before folders."""
    with os.scandir(path) as found:
        return sorted(found, key=lambda one: (one.is_dir(), one.name))
