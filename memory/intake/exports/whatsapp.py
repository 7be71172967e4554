"""Chats of WhatsApp, as its "Export chat" writes them: a text, alone, in a ZIP or in a folder beside its pictures.

The two apps write a line's head in two ways, and dates and clocks as the phone's language has them. Notices and files
are known by how the apps mark them, never by their words, which come in every language.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TextIO

from recall_loop.memory.intake.formats.foreign_files import read_member, zip_members
from recall_loop.memory.intake.formats.source_items import LeftOut, SourceItem, UnreadableFileError, file_title
from recall_loop.memory.parsing.foreign_json import InvalidLine, clean_text, to_printable
from recall_loop.memory.parsing.written_dates import HALF, DateOrder, order_in_time, read_date
from recall_loop.memory.store.encoding.indexing import digest
from recall_loop.state.errors import display_value
from recall_loop.state.types import MAX_TEXT_CHARS

_DATE = r"(?P<date>\d{1,4}([./-])\s?\d{1,2}\2\s?\d{1,4})"
_HALF = rf"(?:\s?{HALF})?"
# Only iPhones write seconds; a log whose lines begin with dates has seconds, too.
_IPHONE = re.compile(rf"\[{_DATE},?\s(?P<time>\d{{1,2}}[:.]\d\d[:.]\d\d{_HALF})\]\s?(?P<rest>.*)", re.IGNORECASE)
_ANDROID = re.compile(
    rf"{_DATE},?\s(?:[^\W\d]{{1,3}}\s)?(?P<time>\d{{1,2}}[:.]\d\d{_HALF})\s-\s(?P<rest>.*)", re.IGNORECASE
)
_MARK = "\u200e"  # left-to-right mark: precedes WhatsApp's own texts in a chat from an iPhone
_UNSEEN = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_FILE = re.compile(r"(?:\u200e[^\n]*|\S*-WA\d+)\.\w{2,5} \([^()\n]+\)(?:\n|\Z)")
_PLACEHOLDER = re.compile(r"<[^<>\n]+>\s*\Z")
_REMARK = re.compile(r"\s<[^\W\d_]+(?: [^\W\d_]+)+\.?>\s*\Z")  # "<This message was edited>"
_COPY = re.compile(r"\s*\(\d+\)\Z")
_IPHONE_NAME = "_chat.txt"
_UNSAID = LeftOut("notices, pictures and other attachments of WhatsApp")
_EXAMINED = 20
_UNSURE = "the chat's dates are ambiguous; read with the {order}"


@dataclass(slots=True)
class _Turn:
    """One message: the number of its first line, its date and time as written, and its lines."""

    number: int
    date: str
    time: str
    lines: list[str]


def chat_member(names: Sequence[str]) -> str | None:
    """Return which member of a ZIP or folder can be a chat: that with the name iPhones give, or the only text."""
    texts = [name for name in names if "/" not in name and name.lower().endswith(".txt")]
    return _IPHONE_NAME if _IPHONE_NAME in texts else texts[0] if len(texts) == 1 else None


def is_whatsapp(path: Path) -> bool:
    """Return whether a text, ZIP or folder holds a chat with messages; in a folder, the text has the name iPhones give.

    Raises `UnreadableFileError` where a ZIP's text can't be unpacked.
    """
    if path.is_dir() and not (path / _IPHONE_NAME).is_file():
        return False
    with _opened(path) as file:
        first = list(islice(_turns(file), _EXAMINED))
    return bool(first) and bool(first[0].date) and any(": " in turn.lines[0] for turn in first if turn.date)


def read_whatsapp(path: Path, conversation: str | None = None) -> Iterator[SourceItem]:
    """Yield the messages of a chat; a day is a session. What is no chat raises `UnreadableFileError`.

    Ids are derived from the conversation and the written text, not from how a date is read: a chat that is exported
    again later gives the same ones. `conversation` is the chat's name where that of the file isn't to be used.
    """
    name = conversation or _conversation(path)
    with _opened(path) as file:
        dates = [date for date, _ in groupby(turn.date for turn in _turns(file) if turn.date)]
    if not dates:
        remedy = "name the text file of an exported chat, or set --format"
        raise UnreadableFileError(path, "not a WhatsApp chat", remedy)
    told = order_in_time(dates)
    order, seen = told or _usual_order(dates), Counter[str]()
    warning = None if told else _UNSURE.format(order=order)
    with _opened(path) as file:
        for turn in _turns(file):
            outcome = _outcome(turn, order, name, seen)
            told_now = warning if isinstance(outcome, dict) else None
            warning = None if told_now else warning
            yield SourceItem(turn.number, outcome, _raw(turn), told_now)


def _opened(path: Path) -> TextIO:
    """Return a chat's text, in which a line that isn't UTF-8 is handled on its own."""
    if path.is_dir():
        path = path / _IPHONE_NAME
    if not zipfile.is_zipfile(path):
        return path.open(encoding="utf-8-sig", errors="surrogateescape")
    member = chat_member(zip_members(path))
    if member is None:
        raise UnreadableFileError(path, "a ZIP archive without a chat", "export the chat again")
    with zipfile.ZipFile(path) as archive:
        data = io.BytesIO(read_member(archive, member))
    return io.TextIOWrapper(data, encoding="utf-8-sig", errors="surrogateescape")


def _turns(lines: Iterable[str]) -> Iterator[_Turn]:
    """Yield each message, and any text before the first one without a date."""
    pattern: re.Pattern[str] | None = None
    turn: _Turn | None = None
    for number, line in enumerate(lines, start=1):
        plain = line.rstrip("\r\n")
        head = _UNSEEN.sub("", plain[:4]) + plain[4:]
        forms = (pattern,) if pattern else (_IPHONE, _ANDROID)
        found = next((match for form in forms if (match := form.match(head))), None)
        if found is not None:
            if turn is not None:
                yield turn
            pattern = found.re
            turn = _Turn(number, found["date"], found["time"], [found["rest"]])
        elif turn is not None:
            turn.lines.append(plain)
        elif plain.strip():
            yield _Turn(number, "", "", [plain])
    if turn is not None:
        yield turn


def _usual_order(dates: Sequence[str]) -> DateOrder:
    """Return the order of dates that nothing else tells: 5/3/24, without zeros and century, is American."""
    american = all(re.fullmatch(r"[1-9]\d?/[1-9]\d?/\d\d", date) for date in dates)
    return DateOrder.MONTH_FIRST if american else DateOrder.DAY_FIRST


def _outcome(turn: _Turn, order: DateOrder, name: str, seen: Counter[str]) -> dict[str, Any] | LeftOut | InvalidLine:
    raw = _raw(turn)
    if not turn.date:
        return InvalidLine("line: got no date and time; allowed: a message of WhatsApp", raw)
    moment = read_date(f"{turn.date}, {turn.time}", order)
    if moment is None:
        return InvalidLine(f"time: got {display_value(f'{turn.date}, {turn.time}')}; allowed: a date and a time", raw)
    author, colon, said = "\n".join(turn.lines).partition(": ")
    if not colon or "\n" in author:
        return _UNSAID
    text = _said(said)
    if isinstance(text, LeftOut):
        return text
    if clean_text(text) != text:
        return InvalidLine("text: got bytes that are not UTF-8, or NUL; allowed: text", raw)
    author = clean_text(_UNSEEN.sub("", author)).removeprefix("~").strip()
    key = digest("whatsapp", name, turn.date, turn.time, author, text)
    seen[key] += 1
    return {
        "id": f"whatsapp-{key if seen[key] == 1 else digest(key, str(seen[key]))}",
        "kind": "message",
        "text": text[:MAX_TEXT_CHARS],
        "author": author or None,
        "conversation_id": name,
        "session": moment.date().isoformat(),
        "created_at": moment.isoformat(),
    }


def _said(given: str) -> str | LeftOut:
    """Return the sender's text, without WhatsApp's additions."""
    without = _FILE.sub("", given, count=1) if _FILE.match(given) else given
    if without == given and given.startswith(_MARK):
        return _UNSAID
    lines = [line.partition(f" {_MARK}<")[0] for line in without.split("\n")]
    text = _REMARK.sub("", _UNSEEN.sub("", "\n".join(lines))).strip()
    return text if text and not _PLACEHOLDER.match(text) else _UNSAID


def _conversation(path: Path) -> str:
    """Return a chat's name: that of its file, without the number of a copy; of an iPhone's that of its folder."""
    place = path.resolve()
    named = place.parent if place.name == _IPHONE_NAME else place
    return _COPY.sub("", named.name if named.is_dir() else file_title(named)) or "WhatsApp"


def _raw(turn: _Turn) -> str:
    head = f"{turn.date}, {turn.time}: " if turn.date else ""
    return to_printable((head + "\n".join(turn.lines)).encode("utf-8", "surrogateescape"))
