"""Mail: a file of one message (.eml), or a mailbox of many (mbox), as mail programs and Google's Takeout write it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message
from email.utils import getaddresses, parsedate_to_datetime
from pathlib import Path
from typing import Any

from recall_loop.memory.intake.exports.mail_text import attachment_names, decoded, written_text
from recall_loop.memory.intake.formats.source_items import LeftOut, SourceItem
from recall_loop.memory.parsing.foreign_json import InvalidLine, clean_text, to_printable
from recall_loop.memory.store.encoding.indexing import digest
from recall_loop.state.errors import display_value
from recall_loop.state.types import MAX_TEXT_CHARS

# The line before each message of a mailbox: its sender and time of arrival.
_FROM_LINE = re.compile(rb"From \S.*\d\d:\d\d.*")
_ESCAPED = re.compile(rb"^>(>*From )", re.MULTILINE)
_HEADER = re.compile(rb"([!-9;-~]+):|[ \t]+\S")
_OF_MAIL = frozenset((b"date", b"message-id", b"received"))
_EMPTY = LeftOut("mails without text")
_DELETED = LeftOut("deleted mails")
_EXPUNGED = 0x0008  # of Thunderbird: deleted, and in the mailbox until it is compacted
_SHOWN_RAW = 4_000
_LONGEST_ID = 400
_MOST_TAGS, _LONGEST_TAG = 1_000, 512
_LONGEST_NAME = 4_000


def is_mail(head: bytes) -> bool:
    """Return whether a file with these first bytes is a message with its headers, or a mailbox."""
    first, _, rest = head.lstrip(b"\r\n").partition(b"\n")
    lines = re.split(rb"\r?\n", rest if _FROM_LINE.match(first) else first + b"\n" + rest)
    names: set[bytes] = set()
    for line in lines:
        found = _HEADER.match(line)
        if found is None:
            break
        names.add((found[1] or b"").lower())
    return b"from" in names and bool(names & _OF_MAIL)


def read_mail(path: Path) -> Iterator[SourceItem]:
    """Yield the messages of a file; a thread is a conversation, and the number is that of a message's first line."""
    with path.open("rb") as file:
        for number, data in _messages(file):
            raw = to_printable(data[:_SHOWN_RAW])
            try:
                yield _item(number, message_from_bytes(data), raw)
            except RecursionError:
                yield SourceItem(number, InvalidLine("mail: its parts are nested too deeply", raw), raw)


def _item(number: int, mail: Message, raw: str) -> SourceItem:
    if not any(mail.get(name) for name in ("From", "Date", "Message-ID")):
        reason = "mail: got no From, Date or Message-ID; allowed: a message with its headers"
        return SourceItem(number, InvalidLine(reason, raw), raw)
    moment = _moment(mail)
    said = mail.get("Date")
    told = None if moment else f"Date: got {display_value(said)}, which is not a time; the time is unknown"
    return SourceItem(number, _outcome(mail, moment), raw, told)


def _messages(lines: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield each message and the number of its first line, one in memory at a time."""
    mailbox, start, blank, found = False, 1, True, list[bytes]()
    for number, line in enumerate(lines, start=1):
        if blank and (mailbox or not found) and _FROM_LINE.match(line):
            if found:
                yield start, _ESCAPED.sub(rb"\1", b"".join(found))
            mailbox, start, found = True, number, []
        elif found or line.strip():
            found.append(line)
        blank = not line.strip()
    if found:
        data = b"".join(found)
        yield start, _ESCAPED.sub(rb"\1", data) if mailbox else data


def _outcome(mail: Message, moment: datetime | None) -> dict[str, Any] | LeftOut:
    if _status(mail) & _EXPUNGED:
        return _DELETED
    subject = _header(mail, "Subject")
    references = re.findall(r"<([^<>\s]+)>", f"{_header(mail, 'References')} {_header(mail, 'In-Reply-To')}")
    # The subject of a reply is in the mail that it answers.
    text = "\n\n".join(filter(None, ("" if references else subject, clean_text(written_text(mail, subject)))))
    if not text:
        return _EMPTY
    (name, address), *_ = [*_people(mail, "From"), ("", "")]
    stated = _header(mail, "Message-ID").strip("<>")
    created_at = moment.isoformat() if moment else None
    own = stated or digest("mail", created_at, address, subject, text)
    attributes = {
        "title": subject,
        "from": address,
        "to": [other for _, other in [*_people(mail, "To"), *_people(mail, "Cc")] if other],
        "attachments": [_decoded_words(one) for one in attachment_names(mail)],
    }
    labels = (one.strip()[:_LONGEST_TAG] for one in _header(mail, "X-Gmail-Labels").split(","))
    return {
        "id": f"mail-{_short(own)}",
        "kind": "message",
        "text": text[:MAX_TEXT_CHARS],
        "author": (name or address)[:_LONGEST_NAME] or None,
        "conversation_id": _short(references[0] if references else own),
        "created_at": created_at,
        "tags": tuple(filter(None, labels))[:_MOST_TAGS],
        "attributes": {key: value for key, value in attributes.items() if value},
    }


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_ID else digest(name)


def _status(mail: Message) -> int:
    try:
        return int(str(mail.get("X-Mozilla-Status") or "0"), 16)
    except ValueError:
        return 0


def _moment(mail: Message) -> datetime | None:
    """Return when a mail was sent, else when it was received."""
    received = (str(one).rpartition(";")[2] for one in mail.get_all("Received", []))
    for text in (str(mail.get("Date") or ""), *received):
        try:
            return parsedate_to_datetime(text.strip())
        except (ValueError, IndexError, OverflowError):
            continue
    return None


def _people(mail: Message, name: str) -> list[tuple[str, str]]:
    """Return the names and addresses in a header; names are decoded after splitting."""
    given = [str(one) for one in mail.get_all(name, [])]
    return [(_decoded_words(person).strip(), address.strip()) for person, address in getaddresses(given)]


def _header(mail: Message, name: str) -> str:
    return " ".join(_decoded_words(mail.get(name) or "").split())


def _decoded_words(value: Any) -> str:
    """Return a header's text, whose words may be encoded."""
    try:
        parts = decode_header(value)
    except (HeaderParseError, ValueError):
        return clean_text(str(value))
    return clean_text("".join(one if isinstance(one, str) else decoded(one, charset) for one, charset in parts))
