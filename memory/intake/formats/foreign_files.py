"""Files of other programs: those that hold no text, with what to do instead, and exports in a ZIP or folder."""

from __future__ import annotations

import codecs
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from recall_loop.memory.intake.formats.source_items import UnreadableFileError, as_list

HEAD_BYTES = 65_536
WINDOWS = "cp1252"
_LEAST_PLAIN = 4  # maps accented letters to plain ones
_FOREIGN_BYTE = re.compile("[\udc80-\udcff]")
_PLAIN_LETTER = re.compile("[A-Za-z]")
_UTF8_CHARACTER = re.compile("[^\x00-\x7f\udc80-\udcff]")
_CONVERT = "save or convert it as text, Markdown or CSV first"
_UNPACK = "unpack it first"
_IMAGE = "extract its text first (OCR)"
_SOUND = "transcribe it first"
_SIGNATURES: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"%PDF-", "a PDF document", "convert it to text first, such as with `pdftotext FILE.pdf`"),
    (0, b"{\\rtf", "a rich text document", _CONVERT),
    (0, b"\xd0\xcf\x11\xe0", "an Office or Outlook file in an old format", _CONVERT),
    (0, b"SQLite format 3\x00", "an SQLite database", "`recall-loop import` reads those of mem0 and LangGraph"),
    (0, b"PAR1", "a Parquet table", "export it as CSV or JSON Lines first"),
    (0, b"ARROW1", "an Arrow table", "export it as CSV or JSON Lines first"),
    (0, b"\x1f\x8b", "compressed by gzip", _UNPACK),
    (0, b"BZh", "compressed by bzip2", _UNPACK),
    (0, b"\xfd7zXZ\x00", "compressed by xz", _UNPACK),
    (0, b"\x28\xb5\x2f\xfd", "compressed by zstd", _UNPACK),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", _UNPACK),
    (0, b"Rar!", "a RAR archive", _UNPACK),
    (257, b"ustar", "a tar archive", _UNPACK),
    (0, b"\x89PNG", "an image", _IMAGE),
    (0, b"\xff\xd8\xff", "an image", _IMAGE),
    (0, b"GIF8", "an image", _IMAGE),
    (8, b"WEBP", "an image", _IMAGE),
    (8, b"WAVE", "a sound recording", _SOUND),
    (0, b"ID3", "a sound recording", _SOUND),
    (0, b"OggS", "a sound recording", _SOUND),
    (0, b"fLaC", "a sound recording", _SOUND),
    (4, b"ftyp", "a recording or an image", _SOUND),
)
LARGEST_MEMBER = 1 << 30
_OFFICE_TYPES = "[Content_Types].xml"
_OFFICE = {"word/": "a Word document", "xl/": "an Excel workbook", "ppt/": "a PowerPoint presentation"}
# ChatGPT gives a large export in parts.
_PART = re.compile(r"conversations-\d+\.json")
# Claude has them beside its conversations.
_BESIDE = ("projects.json", "memories.json")


def check_signature(path: Path, head: bytes) -> None:
    """Raise `UnreadableFileError` where a file's first bytes are of no text; ZIPs are left to `zip_members`."""
    for offset, signature, what, instead in _SIGNATURES:
        if head[offset : offset + len(signature)] == signature:
            raise UnreadableFileError(path, what, instead.replace("FILE.pdf", path.name))


def check_text(path: Path, head: bytes) -> None:
    """Raise `UnreadableFileError` where a file isn't text in UTF-8, or is a web page: its kind, and the remedy."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise UnreadableFileError(path, "text in UTF-16", "save it as UTF-8 first")
    if b"\x00" in head:
        raise UnreadableFileError(path, "binary data", _CONVERT)
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(head) < HEAD_BYTES or error.start < HEAD_BYTES - 4:  # otherwise a character was cut in two
            words = "save it as UTF-8 first, such as with `iconv -f latin1 -t utf-8`"
            raise UnreadableFileError(path, f"not UTF-8 text (byte {error.start:,})", words) from error
    start = head[:512].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if start.startswith((b"<!doctype html", b"<html")):
        raise UnreadableFileError(path, "a web page", "save its text, or convert it to Markdown first")
    if start.startswith(b"<?xml"):
        raise UnreadableFileError(path, "an XML file", "convert it to CSV, JSON Lines or text first")


def text_encoding(path: Path) -> str:
    """Return the encoding of a text: UTF-16 by its mark, UTF-8, or else that of Western Windows.

    Damaged UTF-8, and another encoding, raise `UnreadableFileError`: most letters of Western languages are plain.
    """
    with path.open("rb") as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
    foreign, plain, is_utf8 = 0, 0, False
    with path.open(encoding="utf-8-sig", errors="surrogateescape") as text:
        while chunk := text.read(HEAD_BYTES):
            foreign += len(_FOREIGN_BYTE.findall(chunk))
            plain += len(_PLAIN_LETTER.findall(chunk))
            is_utf8 = is_utf8 or _UTF8_CHARACTER.search(chunk) is not None
    if foreign == 0:
        return "utf-8-sig"
    if is_utf8 or foreign * _LEAST_PLAIN > plain:
        what = "damaged UTF-8 text" if is_utf8 else "text in an unknown encoding"
        raise UnreadableFileError(path, what, "save it as UTF-8 first")
    return WINDOWS


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a member of an archive; raise `UnreadableFileError` where it can't be unpacked, or exceeds 1 GiB."""
    size = archive.getinfo(name).file_size
    if size > LARGEST_MEMBER:
        words = f"a ZIP archive whose {name} has {size} bytes unpacked"
        raise UnreadableFileError(archive.filename, words, f"unpack it, and split files above {LARGEST_MEMBER} bytes")
    try:
        return archive.read(name)
    except (RuntimeError, NotImplementedError, zlib.error, zipfile.BadZipFile, EOFError) as error:
        words = f"a ZIP archive whose {name} can't be unpacked ({error})"
        raise UnreadableFileError(archive.filename, words, "download it again, or unpack it yourself") from error


def zip_members(path: Path) -> list[str]:
    """Return the names in a ZIP that may be an export.

    Raises `UnreadableFileError` where it is damaged, or an office document or a book.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except zipfile.BadZipFile as error:
        raise UnreadableFileError(path, "a damaged ZIP archive", "download or create it again") from error
    for folder, what in _OFFICE.items() if _OFFICE_TYPES in names else ():
        if any(name.startswith(folder) for name in names):
            raise UnreadableFileError(path, what, _CONVERT)
    if "mimetype" in names or "META-INF/container.xml" in names:
        raise UnreadableFileError(path, "an OpenDocument file or an e-book", _CONVERT)
    return names


def conversation_parts(names: Sequence[str]) -> list[str]:
    """Return which of an export's files hold its conversations, and what belongs to them; none where it is none."""
    whole = [name for name in names if PurePosixPath(name).name == "conversations.json"][:1]
    if whole:
        beside = [PurePosixPath(whole[0]).with_name(name).as_posix() for name in _BESIDE]
        return [*whole, *(name for name in beside if name in names)]
    return sorted(name for name in names if _PART.fullmatch(PurePosixPath(name).name))


def folder_parts(path: Path) -> list[str]:
    """Return which files of a folder, not of those in it, hold conversations."""
    return conversation_parts([file.name for file in path.iterdir() if file.is_file()])


def read_conversations(path: Path, parts: Sequence[str]) -> Any:
    """Return what parts of an export hold, joined; raises as `opened_export`."""
    with opened_export(path) as read:
        documents = [read(name) for name in parts]
    return documents[0] if len(documents) == 1 else [item for one in documents for item in as_list(one)]


@contextmanager
def opened_export(path: Path) -> Iterator[Callable[[str], Any]]:
    """Give what reads a file of an export as JSON, by its name in the ZIP or folder.

    One that can't be unpacked, or is not JSON, raises `UnreadableFileError`.
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
