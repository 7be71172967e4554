"""The sender's own words of a mail: its text, or that of its HTML, without quotations, signature and attachments."""

from __future__ import annotations

import re
from email.message import Message
from html.parser import HTMLParser
from itertools import groupby

_UNSEEN_TAGS = frozenset(("style", "script", "head", "title"))
_QUOTES = frozenset(("blockquote",))
_BLOCKS = frozenset(
    "address article blockquote br div dl dt footer h1 h2 h3 h4 h5 h6 header hr li ol p table tr ul".split()  # noqa: SIM905
)
_CELLS = frozenset(("td", "th", "dd"))
_VOID = frozenset(("br", "hr"))
_SOFT_BREAK = re.compile(r"(?<!\n--) \n")
_SIGNATURE = re.compile(r"^-- \n.*\Z", re.MULTILINE | re.DOTALL)
# Conditional comments of Outlook, and damaged markup that the parser rejects.
_SECTION = re.compile(r"<!\[[^>]*>?")
_REPEATED_HEADER = re.compile(r"[ \t]*\*?[^\W\d_][^:\n]{0,30}:\*?(?:[ \t\xa0](.*))?")
_LEAST_HEADERS = 4  # from, when, to, subject
_CLOCK = re.compile(r"\d[:.]\d\d")
_RULE = re.compile(r"[ \t]*[-_]{3}")
_EMPTY_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")


def written_text(mail: Message, subject: str = "") -> str:
    """Return what the sender wrote: of an answer the text without quotations, unless nothing would be left.

    `subject` is the mail's own: by it the headers of a mail that Outlook repeats below the answer are known.
    """
    text = "\n\n".join(filter(None, _texts(mail)))
    own = _SIGNATURE.sub("", text)
    if mail.get("In-Reply-To") or mail.get("References"):
        own = _without_quotations(_above_repeated_mail(own, subject))
    return _tidy(own) or _tidy(text)


def _above_repeated_mail(text: str, subject: str) -> str:
    """Return the text above the answered mail, whose headers in whatever language have a time and the subject."""
    lines = text.split("\n")
    for headed, group in groupby(range(len(lines)), lambda at: _REPEATED_HEADER.fullmatch(lines[at]) is not None):
        places = list(group)
        values = [_REPEATED_HEADER.sub(r"\1", lines[at]).strip() for at in places] if headed else []
        topics = [_topic(value) for value in values]
        if len(values) >= _LEAST_HEADERS and any(map(_CLOCK.search, values)) and subject and _topic(subject) in topics:
            start = places[0]
            while start and not lines[start - 1].strip():
                start -= 1
            start -= bool(start and _RULE.match(lines[start - 1]))
            return "\n".join(lines[:start])
    return text


def _topic(subject: str) -> str:
    """Return a subject without the `Re:` or `AW:` of answers."""
    return subject.rpartition(": ")[2].casefold()


def _without_quotations(text: str) -> str:
    kept: list[str] = []
    quoted = False
    for line in text.split("\n"):
        if line.startswith(">"):
            if not quoted:
                _drop_introduction(kept)
            quoted = True
        elif line.strip() or not quoted:
            quoted = False
            kept.append(line)
    return "\n".join(kept)


def _drop_introduction(lines: list[str]) -> None:
    """Drop the one or two lines that introduce the quotation below with author and time: they end with a colon."""
    while lines and not lines[-1].strip():
        lines.pop()
    if lines and lines[-1].rstrip().endswith(":"):
        with_time = next((at for at in (1, 2) if any(map(str.isdigit, "".join(lines[-at : len(lines) - at + 1])))), 0)
        del lines[len(lines) - with_time :]


def attachment_names(mail: Message) -> list[str]:
    """Return the names of a mail's attached files."""
    return [name for part in mail.walk() if (name := part.get_filename())]


def decoded(data: bytes, charset: str | None) -> str:
    """Return bytes as text: in the encoding that they are said to have, else in UTF-8 or that of Windows."""
    for name in (charset or "utf-8", "utf-8"):
        try:
            return data.decode(name)
        except (LookupError, ValueError):
            continue
    return data.decode("cp1252", "replace")


def _texts(part: Message) -> list[str]:
    """Return the texts that are shown one below the other; of alternatives the plain one."""
    kind = part.get_content_type()
    if part.is_multipart():
        inner = [one for one in part.get_payload() if isinstance(one, Message)] if kind != "message/rfc822" else []
        found = ["\n\n".join(filter(None, _texts(one))) for one in inner]
        return [next(filter(None, found), "")] if kind == "multipart/alternative" else found
    if part.get_filename() or part.get_content_disposition() == "attachment" or kind not in ("text/plain", "text/html"):
        return []
    data = part.get_payload(decode=True)
    text = decoded(data if isinstance(data, bytes) else b"", part.get_content_charset()).replace("\r\n", "\n")
    if kind == "text/html":
        return [html_text(text)]
    return [_SOFT_BREAK.sub(" ", text) if str(part.get_param("format")).lower() == "flowed" else text]


def html_text(html: str) -> str:
    """Return the visible text of a page, without quotations."""
    reader = _PageText()
    reader.feed(_SECTION.sub("", html))
    reader.close()
    return reader.text()


def _tidy(text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.split("\n"))
    return _EMPTY_LINES.sub("\n\n", lines).strip()


class _PageText(HTMLParser):
    """Collects the text of a page; quotations are marked as in a plain mail."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._hidden = 0
        self._quoted = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in _UNSEEN_TAGS
        self._quoted += tag in _QUOTES
        self._part("\n" if tag in _BLOCKS else "\t" if tag in _CELLS else "")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in _UNSEEN_TAGS))
        self._part("\n" if tag in _BLOCKS - _VOID else "")
        self._quoted = max(0, self._quoted - (tag in _QUOTES))

    def handle_data(self, data: str) -> None:
        self._part(re.sub(r"\s+", " ", data))

    def _part(self, text: str) -> None:
        if text and not self._hidden:
            self._parts.append(text.replace("\n", "\n> ") if self._quoted else text)

    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._parts).split("\n"))
        return "\n".join(lines)
