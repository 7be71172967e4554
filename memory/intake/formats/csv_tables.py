"""Tables in CSV: a record for each row, with columns by their usual names."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from recall_loop.memory.intake.formats.foreign_files import WINDOWS, text_encoding
from recall_loop.memory.intake.formats.source_items import SourceItem, UnreadableFileError, epoch_time
from recall_loop.memory.parsing.foreign_json import InvalidLine, known_role
from recall_loop.memory.parsing.written_dates import DateOrder, date_order, is_written_date, read_date
from recall_loop.state.errors import display_value
from recall_loop.state.language_codes import is_language_code
from recall_loop.state.records.records import Fact
from recall_loop.state.types import MAX_TEXT_CHARS

_LISTS = ("tags", "source_ids")
_NUMBERS = ("confidence", "position")
_FIELDS = frozenset(Fact.model_fields) - {"blocks", "attributes"}
_CREATED = "created_at"
_DELIMITERS = ",;\t|"
_CLEAR_DATES = "a date such as 2024-05-31, or dates in one format, one of which shows which number is the month"
_GUESSED = "the table is not in UTF-8; read as Windows-1252"
_LARGEST_CELL = 4 * MAX_TEXT_CHARS  # longer texts are refused row by row, with their length
# The usual names of columns in English, German, French and Spanish, by the field of a record.
_NAMES = {
    "text": """
        content, message, body, note, memory, statement, sentence, description, comment
        Nachricht, Inhalt, Notiz, Beschreibung, Bemerkung, Kommentar
        texte, contenu, remarque, commentaire
        texto, mensaje, contenido, nota, descripción, comentario
        """,
    "created_at": """
        timestamp, datetime, date, time, created, created at, ts, sent at, sent
        Zeitstempel, Zeitpunkt, Datum, Zeit, Uhrzeit, erstellt, erstellt am, gesendet, gesendet am
        horodatage, date et heure, heure, créé le, envoyé le
        fecha y hora, fecha, hora, creado, enviado
        """,
    "author": """
        speaker, sender, from, name, username, user name, user
        Absender, Verfasser, Autor, von, Benutzer, Benutzername
        auteur, expéditeur, de, nom, utilisateur
        remitente, nombre, usuario
        """,
    "role": "Rolle, rôle, rol",
    "conversation_id": """
        conversation, thread, thread id, channel, chat, chat id
        Unterhaltung, Gespräch, Kanal
        fil, canal, discussion
        conversación, hilo
        """,
    "label": """
        title, heading
        Titel, Überschrift, Betreff, Thema
        titre, objet, sujet
        título, asunto
        """,
    "tags": """
        keywords, labels
        Schlagwörter, Stichwörter
        mots-clés, étiquettes
        palabras clave, etiquetas
        """,
}


def _folded(name: str) -> str:
    """Return a name as it is compared: its letters and digits, without case and accents."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKD", name.casefold())))


_COLUMN_NAMES = {
    field: tuple(_folded(name) for line in names.strip().split("\n") for name in line.split(","))
    for field, names in _NAMES.items()
}


def read_csv(path: Path) -> Iterator[SourceItem]:
    """Yield the rows of a table whose first row names its columns; other columns become attributes.

    It may be in UTF-8, UTF-16 with a byte order mark, or Windows-1252, which is reported once. Dates may be
    written in numbers with the year last where the table's first such date shows their order.

    Raises `UnreadableFileError` where it has no column with the text, or is in an unknown encoding.
    """
    csv.field_size_limit(max(csv.field_size_limit(), _LARGEST_CELL))  # the module's own limit is below a text's
    encoding = text_encoding(path)
    warning = _GUESSED if encoding == WINDOWS else None
    with path.open(encoding=encoding, newline="") as file:
        try:
            delimiter = _delimiter(file.read(65_536))
            columns, rows = _rows(file, delimiter)
            fields = _columns(path, columns)
            order = date_order(_dates(rows, columns, fields))
            _, rows = _rows(file, delimiter)
            for number, row in rows:
                if any(cell.strip() for cell in row):
                    outcome = _outcome(row, _cells(row, columns, fields), fields, order)
                    yield SourceItem(number, outcome, _raw(row), warning)
                    warning = None if isinstance(outcome, dict) else warning
        except UnicodeError as error:  # five bytes that Windows-1252 lacks, or half a character of UTF-16
            raise UnreadableFileError(path, "damaged text", "save it as UTF-8 first") from error
        except csv.Error as error:
            raise UnreadableFileError(path, f"not a CSV table ({error})", "export it again as CSV") from error


def _rows(file: TextIO, delimiter: str) -> tuple[list[str], Iterator[tuple[int, list[str]]]]:
    """Return the names of the columns, and the rows with the number of the line at which each ends."""
    file.seek(0)
    rows = csv.reader(file, delimiter=delimiter, strict=False)
    columns = _unique_names([name.strip() for name in next(rows, [])])
    return columns, ((rows.line_num, row) for row in rows)


def _dates(rows: Iterable[tuple[int, list[str]]], columns: list[str], fields: Mapping[str, str]) -> Iterator[str]:
    """Yield the cells with times."""
    places = [place for place, name in enumerate(columns) if _is_time(fields.get(name, ""))]
    for _, row in rows if places else ():
        yield from (row[place] for place in places if place < len(row) and row[place].strip())


def _is_time(field: str) -> bool:
    return field.endswith("_at") or field == "valid_until"


def _delimiter(head: str) -> str:
    """Return the most frequent delimiter in the first line."""
    return max(_DELIMITERS, key=(head.splitlines() or [""])[0].count)


def _unique_names(names: list[str]) -> list[str]:
    """Return the names of columns, a repeated one with a number: else its cells would take those of the first."""
    taken: set[str] = set()
    told: list[str] = []
    for name in names:
        apart, number = name, 2
        while apart.casefold() in taken:
            apart, number = f"{name} ({number})".strip(), number + 1
        taken.add(apart.casefold())
        told.append(apart)
    return told


def _columns(path: Path, columns: list[str]) -> dict[str, str]:
    """Return the field of a record that each column gives, by the column's name."""
    found = {name: name.casefold() for name in columns if name.casefold() in _FIELDS}
    for field, others in _COLUMN_NAMES.items():
        for other in others:
            column = next((name for name in columns if _folded(name) == other and name not in found), None)
            if column is not None and field not in found.values():
                found[column] = field
    if "text" not in found.values():
        shown = ", ".join(filter(None, columns[:20])) or "none"
        what = f"a table without a text column (its columns: {shown})"
        raise UnreadableFileError(path, what, "name the column that holds the text `text`")
    return found


def _cells(row: list[str], columns: list[str], fields: Mapping[str, str]) -> dict[str, str]:
    """Return the cell of each column; a day and a time of day in two columns are joined as the day's."""
    cells = {name: value for name, cell in zip(columns, row, strict=False) if (value := cell.strip())}
    day = next((name for name in cells if fields.get(name) == _CREATED), "")
    for name in list(cells):
        both = f"{cells.get(day)} {cells[name]}"
        if name not in fields and _folded(name) in _COLUMN_NAMES[_CREATED] and is_written_date(both):
            cells[day] = both
            del cells[name]
    return cells


def _outcome(
    row: list[str], cells: Mapping[str, str], fields: Mapping[str, str], order: DateOrder | None
) -> dict[str, Any] | InvalidLine:
    found: dict[str, Any] = {}
    attributes: dict[str, Any] = {}
    for name, value in cells.items():
        field = fields.get(name)
        if field is None or (field == "language" and not is_language_code(value.casefold())):
            attributes[name] = value
        elif _is_time(field) and is_written_date(value) and _own_order(value, order) is None:
            return InvalidLine(f"{field}: got {display_value(value)}; allowed: {_CLEAR_DATES}", _raw(row))
        else:
            found[field] = _value(field, value, order)
    if attributes:
        found["attributes"] = attributes
    if "role" in found and known_role(found["role"].casefold()) is None:
        found.setdefault("author", found.pop("role"))
    elif "role" in found:
        found["role"] = found["role"].casefold()
    if not found.get("text"):
        return InvalidLine("text: got nothing; allowed: text that is not blank", _raw(row))
    found["text"] = found["text"][:MAX_TEXT_CHARS]
    return found


def _value(field: str, cell: str, order: DateOrder | None) -> Any:
    if field in _LISTS:
        return tuple(filter(None, (part.strip() for part in cell.replace(";", ",").split(","))))
    if field in _NUMBERS:
        try:
            return float(cell) if field == "confidence" else int(cell)
        except ValueError:
            return cell  # the record's own rule says what is allowed
    if _is_time(field):
        own = _own_order(cell, order)
        written = read_date(cell, own) if own else None
        return written.isoformat() if written else epoch_time(cell) or cell
    return cell.casefold() if field in ("kind", "language") else cell


def _own_order(cell: str, order: DateOrder | None) -> DateOrder | None:
    """Return the order of one date: the table's, where that is of day and month, else what it shows itself."""
    return order if order in (DateOrder.DAY_FIRST, DateOrder.MONTH_FIRST) else date_order([cell])


def _raw(row: list[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(row)
    return line.getvalue()
