"""Markdown, a note for each heading, and plain text, in pieces of whole paragraphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from recall_loop.memory.intake.formats.source_items import SourceItem, UnreadableFileError, epoch_time, file_title
from recall_loop.memory.store.encoding.indexing import digest

# Longer notes are split: a search compares only a passage of a long text.
NOTE_CHARS = 4_000
PIECE_CHARS = 1_500
# Lines of YAML between two rules; rules around other lines are Markdown's. Each line is read in one way
# only, or a file that never closes its front matter would take time without end.
_FRONT = re.compile(
    r"\A---[ \t]*\n(?>(?:[\w.\- ]+:(?:[ \t].*)?|[ \t]*-[ \t].*|[ \t]+\S.*|#.*|[ \t]*)\n)*?(?:---|\.\.\.)[ \t]*(?:\n|\Z)"
)
_ENTRY = re.compile(r"^(title|date|created|tags):[ \t]*(.+?)[ \t]*$", re.MULTILINE | re.IGNORECASE)
# Tags one a line, as Obsidian writes them.
_TAG_LINES = re.compile(r"^tags:[ \t]*\n((?:[ \t]*-[ \t].*\n)+)", re.MULTILINE | re.IGNORECASE)
_BREAK = re.compile(r"\n[ \t]*\n")
_BETWEEN = " > "


def read_markdown(path: Path, owner: tuple[str | None, ...] = ()) -> Iterator[SourceItem]:
    """Yield a note for each heading that has text below it, labelled with the title and the headings above it.

    A note keeps its id while its file's path, its `owner` and its headings stay: reading the file again replaces what
    has changed. Of front matter the title, the date and the tags are used. Raises as `read_text`.
    """
    text = _read(path)
    front = _FRONT.match(text)
    title, fixed, warning = _front_matter(front[0]) if front else (None, {}, None)
    offset = text[: front.end()].count("\n") if front else 0
    lines = text.split("\n")[offset:]
    seen: dict[str, int] = {}
    for headings, start, end in _sections("\n".join(lines)):
        label = _label(title, headings) or file_title(path)
        body = "\n".join(lines[start:end]).strip()
        for part, piece in enumerate(_pieces(body, NOTE_CHARS) if len(body) > NOTE_CHARS else [body] if body else []):
            # Without the title: otherwise, a changed title would give new ids to all notes below its headings.
            key = f"{_BETWEEN.join(headings) or label}\n{part}"
            seen[key] = seen.get(key, -1) + 1
            note_id = f"note-{digest(str(path.resolve()), *owner, key, str(seen[key]))}"
            fields = {"id": note_id, "kind": "archival", "text": piece, "label": label, **fixed}
            yield SourceItem(offset + start + 1, fields, piece, warning)
            warning = None  # once for a file


def read_text(path: Path) -> Iterator[SourceItem]:
    """Yield a text's paragraphs, short ones joined to 1,500 characters; raise `UnreadableFileError` if not UTF-8."""
    for number, piece in enumerate(_pieces(_read(path), PIECE_CHARS), start=1):
        yield SourceItem(number, {"kind": "archival", "text": piece, "label": file_title(path)}, piece)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig").replace("\x00", "\ufffd")
    except UnicodeDecodeError as error:
        words = "save it as UTF-8 first, such as with `iconv -f latin1 -t utf-8`"
        raise UnreadableFileError(path, f"not UTF-8 text (byte {error.start:,})", words) from error


def _front_matter(front: str) -> tuple[str | None, dict[str, Any], str | None]:
    """Return the title, what front matter says of all notes of a file (tags, and when it was written), and a warning.

    The warning names a time that can't be read.
    """
    found = {key.lower(): value.strip("\"'") for key, value in _ENTRY.findall(front)}
    if listed := _TAG_LINES.search(front):
        found["tags"] = ",".join(line.strip().removeprefix("-") for line in listed[1].splitlines())
    tags = tuple(filter(None, (tag.strip(" \"'#") for tag in found.get("tags", "").strip("[]").split(","))))
    written = found.get("date") or found.get("created")
    moment = epoch_time(written)
    warning = f"date: got {written!r}, which is no date or time: left out" if written and moment is None else None
    fixed = {"tags": tags, "created_at": moment}
    return found.get("title"), {name: value for name, value in fixed.items() if value}, warning


def _label(title: str | None, headings: list[str]) -> str:
    """Return the title and the headings below it; a heading that only repeats the title is named once."""
    repeated = bool(title and headings and title.casefold() == headings[0].casefold())
    return _BETWEEN.join([title, *headings[repeated:]] if title else headings)


def _sections(text: str) -> Iterator[tuple[list[str], int, int]]:
    """Yield the headings above and the lines (from, to) of the text before the first heading, and below each."""
    tokens = MarkdownIt("commonmark").parse(text)
    above: list[tuple[int, str]] = []
    headings: list[str] = []
    start = 0
    for token, inner in pairwise(tokens):
        if token.type != "heading_open" or token.map is None or token.level:
            continue
        yield headings, start, token.map[0]
        level = int(token.tag[1:])
        above = [*((depth, words) for depth, words in above if depth < level), (level, inner.content.strip())]
        headings, start = [words for _, words in above if words], token.map[1]
    yield headings, start, text.count("\n") + 1


def _pieces(text: str, most: int) -> list[str]:
    """Return paragraphs, joined while they are not longer than `most` together; a longer one is cut between words."""
    pieces: list[str] = []
    for given in _BREAK.split(text.replace("\r\n", "\n")):
        paragraph = given.strip()
        if paragraph and pieces and len(pieces[-1]) + len(paragraph) + 2 <= most:
            pieces[-1] += f"\n\n{paragraph}"
        elif paragraph:
            pieces += _cut(paragraph, most)
    return pieces


def _cut(paragraph: str, most: int) -> list[str]:
    parts: list[str] = []
    while len(paragraph) > most:
        found = (paragraph.rfind(mark, most // 2, most) for mark in (". ", "\n", " "))
        at = next((place + 1 for place in found if place >= 0), most)
        parts.append(paragraph[:at].strip())
        paragraph = paragraph[at:].strip()
    return [*parts, paragraph] if paragraph else parts
