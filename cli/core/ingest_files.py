"""The files that `recall-loop ingest` reads, of which a bad one stops no other, and what `--dry-run` shows of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from recall_loop.cli.core.common import ProblemReport
from recall_loop.cli.core.screen import Screen
from recall_loop.memory.intake.files.file_preview import preview_file
from recall_loop.memory.intake.files.folder_files import files_of_folder
from recall_loop.memory.intake.formats.source_items import UnreadableFileError
from recall_loop.memory.store.files.store_place import checked_place, is_address
from recall_loop.state.display import CONTENT_TYPE_TEXTS, format_count, truncate
from recall_loop.state.errors import InvalidInputError

if TYPE_CHECKING:
    from recall_loop.memory.intake.files.entries import FileOwner
    from recall_loop.memory.intake.files.file_preview import FilePreview
    from recall_loop.state.records.records import Record
    from recall_loop.state.settings.settings import Settings

_Read = TypeVar("_Read")
_TEXT_CHARS = 300
_SHOWN_FIELDS = (
    "id",
    "created_at",
    "author",
    "role",
    "user_id",
    "agent_id",
    "conversation_id",
    "session",
    "label",
    "language",
)


def find_files(given: Sequence[Path], settings: Settings, rejects_path: Path | None) -> list[Path]:
    """Return the files given, in place of a folder those in it, each once; raise `UnreadableFileError` for none."""
    store = settings.store_path
    own = [rejects_path, *([Path(checked_place(store))] if store and not is_address(store) else [])]
    without = {path.resolve() for path in own if path is not None}
    found = [file for path in given for file in (files_of_folder(path, without) if path.is_dir() else [path])]
    if not found:
        raise UnreadableFileError(given[0], "a folder without files to read", "name one that has some")
    return list(dict.fromkeys(found))


class FileRun:
    """Reads several files and reports unreadable ones with the reason; for a single file, that is an error."""

    def __init__(self, files: Sequence[Path]) -> None:
        self.skipped = 0
        self._files = files
        self._problems = ProblemReport("skipped file")

    def readable(self, examine: Callable[[Path], object]) -> list[Path]:
        """Return the files that `examine` lets pass; raise as `read_each`, or where none of several does."""
        passed = [path for path, _ in self.read_each(self._files, examine, "skipped")]
        if not passed:
            self._problems.close()
            raise InvalidInputError("FILE", f"{len(self._files)} files", "at least one that can be read")
        return passed

    def read_each(
        self, files: Sequence[Path], read: Callable[[Path], _Read], verdict: str = "not read to its end"
    ) -> list[tuple[Path, _Read]]:
        """Return the result of `read` for each file; an unreadable one of several is reported, with the verdict.

        Raises `UnreadableFileError` or `OSError` where the only file can't be read, or another one, such as of rejected
        lines, can't be written.
        """
        made: list[tuple[Path, _Read]] = []
        for path in files:
            try:
                made.append((path, read(path)))
            except (UnreadableFileError, OSError) as error:
                if len(self._files) == 1 or not _is_about(error, path):
                    raise
                self._report(path, verdict, error)
        return made

    def _report(self, path: Path, verdict: str, error: UnreadableFileError | OSError) -> None:
        self.skipped += 1
        reason = error.strerror if isinstance(error, OSError) else str(error).removeprefix(f"{path}: ")
        self._problems.add(str(path), verdict, reason or type(error).__name__)

    def close(self, read: int) -> None:
        """Print how many files were read and skipped, if any was skipped."""
        self._problems.close()
        if self.skipped:
            Screen().line(f"{format_count(read, 'file')} read, {self.skipped:,} skipped")


def _is_about(error: UnreadableFileError | OSError, path: Path) -> bool:
    """Return whether the error is about reading this file, or one in this folder, and not about writing another."""
    if isinstance(error, UnreadableFileError):
        return True
    return isinstance(error.filename, str) and Path(error.filename).is_relative_to(path)


def show_preview(path: Path, format_name: str, owner: FileOwner) -> FilePreview:
    """Print and return what ingest would do with a file; raises as `preview_file`."""
    preview = preview_file(path, format_name, owner)
    screen = Screen()
    screen.line(f"{path}: detected as {preview.detected.words}")
    for record in preview.first:
        screen.line(f"  {record.kind}: {truncate(' '.join(record.text.split()), _TEXT_CHARS)}")
        screen.line(f"    {_fields(record)}")
    kept = [format_count(number, CONTENT_TYPE_TEXTS[kind]) for kind, number in sorted(preview.kinds.items())]
    counts = [f"{', '.join(kept) or 'nothing'} would be kept", format_count(len(preview.rejected), "rejected item")]
    counts += [f"{format_count(preview.repeated, 'id')} given more than once"] if preview.repeated else []
    counts += [f"{number:,} left out ({why})" for why, number in sorted(preview.left_out.items())]
    counts += [format_count(len(preview.warnings), "warning")] if preview.warnings else []
    screen.line(f"  {'; '.join(counts)}")
    problems = ProblemReport()
    for number, reason in preview.rejected:
        problems.add(f"{path}:{number}", "rejected", reason)
    for number, reason in preview.warnings:
        problems.add(f"{path}:{number}", "warning", reason)
    problems.close()
    return preview


def _fields(record: Record) -> str:
    given = {name: value for name in _SHOWN_FIELDS if (value := getattr(record, name)) is not None}
    return ", ".join(f"{name}={value.isoformat() if name == 'created_at' else value}" for name, value in given.items())
