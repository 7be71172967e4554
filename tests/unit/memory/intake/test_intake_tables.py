"""Tables as programs in other countries write them: encodings, separators, names of columns."""

from __future__ import annotations

from pathlib import Path

import pytest

from recall_loop.memory.intake.files.entries import iter_entries
from recall_loop.memory.intake.formats.source_items import UnreadableFileError
from recall_loop.state.records.records import Record

GERMAN = "Datum;Absender;Nachricht\n12.05.2024;Jürgen;Der Kessel läuft wieder\n13.05.2024;Ada;Schön\n"


def table(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def found(path: Path) -> list[Record]:
    return [entry.outcome for entry in iter_entries(path, "auto") if isinstance(entry.outcome, Record)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_a_table_is_read_in_the_encodings_of_excel(tmp_path: Path, encoding: str) -> None:
    """Proves: MOVE-1."""
    path = table(tmp_path / "table.csv", GERMAN.encode(encoding))
    first, _ = found(path)
    assert (first.author, first.text, str(first.created_at)[:10]) == ("Jürgen", "Der Kessel läuft wieder", "2024-05-12")
    guessed = "the table is not in UTF-8; taken for text of Western Windows (Windows-1252)"
    assert [entry.warning for entry in iter_entries(path, "auto")] == [guessed if encoding == "cp1252" else None, None]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("text\nКотёл снова течёт\n".encode("cp1251"), "in an encoding that can't be told"),
        (GERMAN.encode() + b"14.05.2024;Ada;Gr\xfc\xdfe\n", "is UTF-8 text with damaged places"),
        (GERMAN.encode("cp1252") + b"14.05.2024;Ada;\x81\n", "is text with damaged places"),
    ],
)
def test_an_encoding_that_cannot_be_told_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
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
