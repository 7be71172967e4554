"""The output of `recall-loop ingest --dry-run`: the detected format of each file, its first records, and counts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from recall_loop.state.display import CONTENT_TYPE_TEXTS, format_count, truncate

if TYPE_CHECKING:  # loaded when the verb runs
    from recall_loop.memory.intake.files.entries import FileOwner
    from recall_loop.memory.intake.files.file_preview import FilePreview
    from recall_loop.state.records.records import Record

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


def show_preview(path: Path, format_name: str, owner: FileOwner) -> FilePreview:
    """Print and return what ingest would do with a file.

    Raises:
        InvalidInputError: the whole file is of another kind.
        OSError: it can't be read.
    """
    from recall_loop.memory.intake.files.file_preview import preview_file

    preview = preview_file(path, format_name, owner)
    _show(path, preview)
    return preview


def _show(path: Path, preview: FilePreview) -> None:
    from recall_loop.cli.core.common import ProblemReport
    from recall_loop.cli.core.screen import Screen

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


def _fields(record: Record) -> str:
    given = {name: value for name in _SHOWN_FIELDS if (value := getattr(record, name)) is not None}
    return ", ".join(f"{name}={value.isoformat() if name == 'created_at' else value}" for name, value in given.items())
