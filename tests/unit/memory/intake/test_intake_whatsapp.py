"""Chats of WhatsApp as Android and iPhones export them, in several languages."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from recall_loop.memory.intake.files.entries import FileEntry, FileOwner, iter_entries
from recall_loop.memory.intake.files.folder_files import files_of_folder
from recall_loop.memory.intake.formats.source_items import LeftOut
from recall_loop.memory.parsing.foreign_json import InvalidLine
from recall_loop.state.records.records import Record

ANDROID = Path(__file__).resolve().parents[3] / "foreign" / "exports" / "whatsapp-android.txt"
IPHONE = """[5/12/24, 9:14:05\u202fAM] Hut: \u200eMessages and calls are end-to-end encrypted.
[5/12/24, 9:15:41\u202fAM] Ada: We start at seven: sharp\r
second line\r
\u200e[5/12/24, 9:16:00\u202fPM] ~\u202fBob: \u200eimage omitted
[5/13/24, 12:01:09\u202fAM] ~\u202fBob: Thanks @\u2068Ada\u2069 \u200e<This message was edited>
"""


def entries(path: Path, conversation: str | None = None) -> list[FileEntry]:
    return list(iter_entries(path, "auto", FileOwner(conversation_id=conversation)))


def found(path: Path, conversation: str | None = None) -> list[Record]:
    outcomes = (entry.outcome for entry in entries(path, conversation))
    return [outcome for outcome in outcomes if isinstance(outcome, Record)]


def told(path: Path) -> list[tuple[str | None, str, str]]:
    return [(one.author, one.text, f"{one.created_at:%d.%m.%y %H:%M:%S}") for one in found(path)]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_chat_of_android_says_who_wrote_what_and_when() -> None:
    """Proves: MOVE-1."""
    assert told(ANDROID) == [
        ("Ines Kettler", "Der Kessler tropft wieder: siehe Foto", "12.05.24 09:14:00"),
        ("Paul", "Ich rufe morgen an.\nDie Nummer ist 0151 2345678.\n\n- bitte Zettel aufhängen", "12.05.24 09:16:00"),
        ("Ines Kettler", "Diese Nachricht wurde gelöscht.", "12.05.24 09:17:00"),
        ("Paul", "So sieht er aus", "12.05.24 09:18:00"),
        ("Paul", "Termin ist am 14.05. um 10", "12.05.24 09:19:00"),
    ]
    left_out = [entry.line for entry in entries(ANDROID) if isinstance(entry.outcome, LeftOut)]
    assert left_out == [1, 3, 12]
    assert {(one.conversation_id, one.session) for one in found(ANDROID)} == {("whatsapp-android", "2024-05-12")}


def test_a_chat_of_an_iphone_is_the_same_as_text_zip_and_folder(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    folder = tmp_path / "WhatsApp Chat - Hut"
    folder.mkdir()
    written(folder / "_chat.txt", IPHONE)
    (folder / "00000012-PHOTO.jpg").write_bytes(b"\xff\xd8\xff")
    with zipfile.ZipFile(tmp_path / "WhatsApp Chat - Hut.zip", "w") as archive:
        archive.writestr("_chat.txt", IPHONE)
        archive.writestr("00000012-PHOTO.jpg", b"\xff\xd8\xff")
    assert told(folder) == [
        ("Ada", "We start at seven: sharp\nsecond line", "12.05.24 09:15:41"),
        ("Bob", "Thanks @Ada", "13.05.24 00:01:09"),
    ]
    assert found(folder) == found(folder / "_chat.txt") == found(tmp_path / "WhatsApp Chat - Hut.zip")
    assert list(files_of_folder(tmp_path)) == [tmp_path / "WhatsApp Chat - Hut.zip", folder]


@pytest.mark.parametrize(
    ("heads", "expected"),
    [
        (["12/05/2024 à 09:14 - ", "13/05/2024 à 09:14 - "], "12.05.24 09:14:00"),
        (["3/5/24, 8:05 p. m. - ", "4/5/24, 8:05 p. m. - ", "1/6/24, 8:05 p. m. - "], "03.05.24 20:05:00"),
        (["5/3/24, 8:05 PM - ", "5/4/24, 8:05 PM - ", "6/1/24, 8:05 PM - "], "03.05.24 20:05:00"),
        (["2024-05-12 09:14 - "], "12.05.24 09:14:00"),
        (["[2024/05/12, 09:14:05] "], "12.05.24 09:14:05"),
        (["[12.05.24, 09.14.05] "], "12.05.24 09:14:05"),
        (["03/05/24, 8:05 pm - "], "03.05.24 20:05:00"),
    ],
)
def test_dates_are_read_as_each_country_writes_them(tmp_path: Path, heads: list[str], expected: str) -> None:
    """Where no number is above 12, the order is the one in which time doesn't run back. Proves: MOVE-1."""
    path = written(tmp_path / "chat.txt", "".join(f"{head}Ada: Hello {at}\n" for at, head in enumerate(heads)))
    assert told(path)[0] == ("Ada", "Hello 0", expected)


def test_ambiguous_dates_are_reported_once(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    path = written(tmp_path / "chat.txt", "03/05/24, 8:05 pm - Ada: Hello\n03/05/24, 8:06 pm - Ada: You there?\n")
    warnings = [entry.warning for entry in entries(path)]
    assert warnings == ["the chat's dates are ambiguous; read with the day first", None]


def test_a_chat_that_is_exported_again_keeps_its_ids(tmp_path: Path) -> None:
    """Also where a later date shows that the first ones were read in the wrong order. Proves: MOVE-1."""
    first = "5/3/24, 8:05 PM - Ada: Hi\n5/3/24, 8:05 PM - Ada: Hi\n5/3/24, 8:05 PM - Bob: Hi\n"
    once = found(written(tmp_path / "Chat with Bob.txt", first))
    again = found(written(tmp_path / "Chat with Bob (1).txt", f"{first}13/6/24, 8:05 PM - Bob: Where?\n"))
    assert len({one.id for one in once}) == 3
    assert [one.id for one in again[:3]] == [one.id for one in once]
    assert f"{again[0].created_at:%d.%m.}" == "05.03."
    other = found(written(tmp_path / "Chat with Eve.txt", first))
    assert not {one.id for one in other} & {one.id for one in once}
    assert found(tmp_path / "Chat with Eve.txt", "Chat with Bob") == found(
        tmp_path / "Chat with Bob.txt", "Chat with Bob"
    )


def test_a_bad_line_is_reported_and_does_not_stop_the_others(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "chat.txt"
    lines = ["12.05.24, 09:14 - Ada: one", "31.06.24, 09:14 - Ada: two", "12.05.24, 09:15 - Ada: gr\u00fcn", ""]
    filler = ["12.05.24, 09:16 - Ada: more"] * 3000  # past the part that tells the encoding
    path.write_bytes("\n".join([*lines[:2], *filler]).encode() + b"\n" + lines[2].encode("latin-1") + b"\n")
    bad = [(entry.line, entry.outcome.reason) for entry in entries(path) if isinstance(entry.outcome, InvalidLine)]
    assert bad == [
        (2, "time: got '31.06.24, 09:14'; allowed: a date and a time"),
        (3003, "text: got bytes that are not UTF-8, or NUL; allowed: text"),
    ]


@pytest.mark.parametrize(
    "text", ["12.05.24, 09:14 - went to the sea\n", "2024-05-12 09:14:05 - INFO: started\n", "Dear diary: hello\n"]
)
def test_a_diary_and_a_log_are_not_chats(tmp_path: Path, text: str) -> None:
    """Proves: MOVE-1."""
    assert [one.text for one in found(written(tmp_path / "diary.txt", text))] == [text.strip()]
