"""Tables as programs in other countries write them: encodings, separators, names of columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from recall_loop.memory.intake.files.entries import FileOwner, iter_entries
from recall_loop.memory.intake.formats.source_items import UnreadableFileError
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Record

GERMAN = "Datum;Absender;Nachricht\n12.05.2024;Jürgen;Der Kessel läuft wieder\n13.05.2024;Ada;Schön\n"


def table(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def found(path: Path) -> list[Record]:
    return [entry.outcome for entry in iter_entries(path, "auto") if isinstance(entry.outcome, Record)]


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Date,Time,Message\n5/13/2024,9:12 PM,A\n5/14/2024,soon,B\n", "2024-05-13 21:12"),
        ("Uhrzeit;Datum;Nachricht\n21:12;13.05.2024;A\nbald;14.05.2024;B\n", "2024-05-13 21:12"),
        ("fecha,hora,texto\n2024-05-13,21:12:00,A\n2024-05-14,,B\n", "2024-05-13 21:12"),
    ],
)
def test_a_day_and_a_time_of_day_in_two_columns_are_one_time(tmp_path: Path, text: str, moment: str) -> None:
    """Proves: MOVE-1 (what is no time of day stays an attribute)."""
    whole, day = found(table(tmp_path / "table.csv", text.encode()))
    assert (str(whole.created_at)[:16], whole.attributes) == (moment, {})
    assert str(day.created_at)[:16] == "2024-05-14 00:00"
    assert set(day.attributes.values()) <= {"soon", "bald"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_table_is_read_in_the_encodings_of_excel(tmp_path: Path, encoding: str) -> None:
    """Proves: MOVE-1."""
    path = table(tmp_path / "table.csv", GERMAN.encode(encoding))
    first, _ = found(path)
    assert (first.author, first.text, str(first.created_at)[:10]) == ("Jürgen", "Der Kessel läuft wieder", "2024-05-12")
    guessed = "the table is not in UTF-8; read as Windows-1252"
    assert [entry.warning for entry in iter_entries(path, "auto")] == [guessed if encoding == "cp1252" else None, None]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("text\nКотёл снова течёт\n".encode("cp1251"), "in an unknown encoding"),
        (GERMAN.encode() + b"14.05.2024;Ada;Gr\xfc\xdfe\n", "is damaged UTF-8 text"),
        (GERMAN.encode("cp1252") + b"14.05.2024;Ada;\x81\n", "is damaged text"),
    ],
)
def test_an_unknown_encoding_is_rejected(tmp_path: Path, data: bytes, reason: str) -> None:
    """Rather than reading it wrongly. Proves: MOVE-1."""
    with pytest.raises(UnreadableFileError, match=reason):
        found(table(tmp_path / "table.csv", data))


@pytest.mark.parametrize(
    ("text", "label", "tags"),
    [
        ("Datum;Titel;Verfasser;Notiz;Schlagwörter\n12.05.2024 14:30;A;Zoé;B;x, y\n", "A", ("x", "y")),
        ("Date;Titre;Auteur;Texte;Mots-clés\n12/05/2024 14:30;A;Zoé;B;x\n13/05/2024 14:30;A;Zoé;B;x\n", "A", ("x",)),
        ("FECHA,Titulo,Remitente,Descripcion,Etiquetas\n2024/05/12 14:30,A,Zoé,B,x\n", "A", ("x",)),
    ],
)
def test_columns_are_known_by_their_names_in_four_languages(
    tmp_path: Path, text: str, label: str, tags: tuple[str, ...]
) -> None:
    """With and without accents. Proves: MOVE-1."""
    first = found(table(tmp_path / "table.csv", text.encode()))[0]
    assert (first.text, first.author, getattr(first, "label", None), first.tags) == ("B", "Zoé", label, tags)
    assert str(first.created_at) == "2024-05-12 14:30:00+00:00"
    assert first.attributes == {}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("chat.txt", "12.05.24, 00:14 - Ada: Hi\n", "2024-05-11 22:14:00+00:00"),
        ("table.csv", "date,text\n2024-05-12,Hi\n", "2024-05-11 22:00:00+00:00"),
        ("table.csv", "date;text\n12.01.2024 08:00;Hi\n", "2024-01-12 07:00:00+00:00"),
        ("table.csv", "date;text\n2024-05-12T08:00:00Z;Hi\n", "2024-05-12 08:00:00+00:00"),
        ("note.md", "---\ndate: 2024-05-12 08:00\n---\nHi\n", "2024-05-12 06:00:00+00:00"),
        ("lines.jsonl", '{"text": "Hi", "created_at": "2024-05-12T08:00:00"}\n', "2024-05-12 06:00:00+00:00"),
        ("lines.jsonl", '{"text": "Hi", "created_at": 1715500800}\n', "2024-05-12 08:00:00+00:00"),
    ],
)
def test_times_without_a_zone_are_of_the_one_that_is_named(tmp_path: Path, name: str, text: str, expected: str) -> None:
    """Proves: MOVE-1."""
    path = table(tmp_path / name, text.encode())
    (entry,) = iter_entries(path, "auto", FileOwner(timezone="Europe/Berlin"))
    assert isinstance(entry.outcome, Record)
    assert str(entry.outcome.created_at) == expected


@pytest.mark.parametrize("name", ["Mars/Olympus", "Europe", "../etc", ""])
def test_a_zone_that_is_none_is_refused(name: str) -> None:
    """Proves: MOVE-1."""
    with pytest.raises(InvalidInputError, match=r"timezone: got .* allowed: a zone such as Europe/Berlin"):
        FileOwner(timezone=name)
