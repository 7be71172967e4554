"""Mailboxes and single mails, as programs write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from recall_loop.memory.intake.exports.mail_text import html_text
from recall_loop.memory.intake.files.detection import detect_format
from recall_loop.memory.intake.files.entries import FileEntry, iter_entries
from recall_loop.memory.intake.formats.source_items import LeftOut
from recall_loop.memory.parsing.foreign_json import InvalidLine
from recall_loop.state.records.records import Message, Record

MAILBOX = Path(__file__).resolve().parents[3] / "foreign" / "exports" / "mailbox.mbox"
HEAD = "From: Ada <ada@example.org>\nDate: Mon, 13 May 2024 12:00:00 +0200\nMessage-ID: <a@x>\nSubject: Hut\n"


def entries(path: Path) -> list[FileEntry]:
    return list(iter_entries(path, "auto"))


def found(path: Path) -> list[Record]:
    return [entry.outcome for entry in entries(path) if isinstance(entry.outcome, Record)]


def mail(folder: Path, body: str, head: str = HEAD, encoding: str = "utf-8") -> Path:
    path = folder / "mail.eml"
    path.write_bytes(f"{head}\n{body}".encode(encoding))
    return path


def test_a_mailbox_is_read_mail_by_mail() -> None:
    """Encoded headers and texts, a thread, a quotation, an attachment and an escaped line. Proves: MOVE-1."""
    first, second = found(MAILBOX)
    assert first.text == (
        "Kessel repariert\n\nHallo Ada,\n\nder Kessel läuft wieder. Es kostet 340 Euro.\n"
        "From here on it is fine.\n\nGrüße\nJürgen"
    )
    assert (first.id, first.author, first.tags) == ("mail-a1@example.org", "Jürgen Kettler", ("Posteingang", "Wichtig"))
    assert f"{first.created_at:%d.%m.%Y %H:%M %z}" == "13.05.2024 10:00 +0000"
    assert second.text == "Danke! Ich überweise morgen."
    assert isinstance(second, Message) and second.conversation_id == "a1@example.org"
    assert second.attributes == {
        "title": "Re: Kessel repariert",
        "from": "ada@example.org",
        "to": ["juergen@example.org"],
        "attachments": ["rechnung.pdf"],
    }
    assert [entry.line for entry in entries(MAILBOX)] == [1, 21]


REPEATED = "From: Bob <bob@example.org>\nSent: Monday, May 6, 2024 9:12 AM\nTo: Ada\nSubject: AW: Hut\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("Yes.\n\nOn Mon, 13 May 2024 at 12:00 Bob wrote:\n> Do you come?\n", "Yes."),
        ("Yes.\n\nOn Mon, 13 May 2024 at 12:00 Bob\n<bob@example.org> wrote:\n\n> Do you come?\n>\n> B.\n", "Yes."),
        ("> Do you come?\n\nYes.\n\n> And Eve?\nNo.\n", "Yes.\nNo."),
        ("The list:\n> tent\n", "The list:"),
        ("Seven.\n-- \nAda\nHarbour office\n", "Seven."),
        ("> All is quoted.\n", "> All is quoted."),
        (f"Yes.\n\n-----Original Message-----\n{REPEATED}\nDo you come?\n", "Yes."),
        (f"Yes.\n\n{REPEATED}\nDo you come?\n", "Yes."),
        ("Ja.\n\n____\n*Von:* Bob\n*Gesendet:* Mai 2024 09:12\n*An:* Ada\n*Betreff:* Hut\n\nUnd?\n", "Ja."),
        (
            "To take:\nTents: 2\nBus: at 9:12\nFrom: Turin\nTo: the hut\n",
            "To take:\nTents: 2\nBus: at 9:12\nFrom: Turin\nTo: the hut",
        ),
    ],
)
def test_an_answer_is_what_its_sender_wrote(tmp_path: Path, body: str, expected: str) -> None:
    """Proves: MOVE-1."""
    assert [one.text for one in found(mail(tmp_path, body, f"{HEAD}In-Reply-To: <b@x>\n"))] == [expected]


def test_a_first_mail_quotes_nobody(tmp_path: Path) -> None:
    """It keeps what it quotes from elsewhere, and the subject stands above it. Proves: MOVE-1."""
    assert [one.text for one in found(mail(tmp_path, "The list of 2024:\n> tent\n"))] == [
        "Hut\n\nThe list of 2024:\n> tent"
    ]


def test_a_page_is_read_as_it_is_shown(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    page = (
        "<html><head><title>x</title><style>p{color:red}</style></head><body><p>The hut costs <b>340</b>&nbsp;€"
        "<br>a night.</p><table><tr><td>Beds</td><td>3</td></tr></table>"
        "<div>Am 13.05.2024 schrieb Bob:</div><blockquote>How much?<br>Really?</blockquote></body></html>"
    )
    head = f"{HEAD}In-Reply-To: <b@x>\nContent-Type: text/html; charset=utf-8\n"
    assert [one.text for one in found(mail(tmp_path, page, head))] == ["The hut costs 340 €\na night.\n\nBeds 3"]
    assert html_text("no page at all < 3") == "no page at all < 3"
    assert html_text("<![if !mso]>Beds<![endif]><p>3</p><![CDATay.[ x") == "Beds\n3\n"


def test_foreign_encodings_are_read(tmp_path: Path) -> None:
    """Stated, stated wrongly and not at all; the file need not be UTF-8. Proves: MOVE-1."""
    for charset in ("iso-8859-1", "klingon", ""):
        head = f"{HEAD}Content-Type: text/plain; charset={charset}\n" if charset else HEAD
        assert [one.text for one in found(mail(tmp_path, "Grüße", head, "latin-1"))] == ["Hut\n\nGrüße"]


def test_odd_mails_stop_no_others(tmp_path: Path) -> None:
    """A lump without headers, a deleted mail, one without text and one without a date. Proves: MOVE-1."""
    path = tmp_path / "Inbox"
    line = "From - Mon May 13 10:00:00 2024\n"
    dateless = "From: Bob <bob@example.org>\nDate: soon\n\nHello\n\n"
    deleted = f"X-Mozilla-Status: 0009\n{HEAD}\nGone\n\n"
    silent = "From: Bob <bob@example.org>\nDate: Mon, 13 May 2024 12:00:00 +0200\n\n\n"
    first = f"{HEAD}\nHello\n\nFrom here on we walk.\n\n"
    path.write_text("".join(f"{line}{one}" for one in (first, "lump\n\n", deleted, silent, dateless)), encoding="utf-8")
    assert detect_format(path).name == "mail"
    texts = {one.text: one.created_at for one in found(path)}
    assert list(texts) == ["Hut\n\nHello\n\nFrom here on we walk.", "Hello"]
    assert texts["Hello"] is None
    reasons = [entry.outcome.reason for entry in entries(path) if isinstance(entry.outcome, InvalidLine | LeftOut)]
    assert reasons == [
        "mail: got no From, Date or Message-ID; allowed: a message with its headers",
        "deleted mails",
        "mails without text",
    ]
    assert entries(path)[-1].warning == "Date: got 'soon', which is not a time; the time is unknown"


@pytest.mark.parametrize("text", ["From: Ada\n\nA note.\n", "From the sea at 10:00 we went home.\n", "Date: today\n"])
def test_a_text_with_a_heading_is_not_a_mail(tmp_path: Path, text: str) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "note.txt"
    path.write_text(text, encoding="utf-8")
    assert detect_format(path).name == "text"


def test_a_mail_that_is_nested_without_end_stops_no_others(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    line = "From - Mon May 13 10:00:00 2024\n"
    nested = "".join(f'Content-Type: multipart/mixed; boundary="b{at}"\n\n--b{at}\n' for at in range(3000))
    path = tmp_path / "Inbox"
    path.write_text(f"{line}{HEAD}{nested}\nHi\n\n{line}{HEAD}\nHello\n", encoding="utf-8")
    assert [one.text for one in found(path)] == ["Hut\n\nHello"]
    (bad,) = [entry.outcome for entry in entries(path) if isinstance(entry.outcome, InvalidLine)]
    assert bad.reason == "mail: its parts are nested too deeply"
