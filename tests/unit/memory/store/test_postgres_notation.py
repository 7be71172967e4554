"""Statements and addresses in PostgreSQL's notation (HOST-1)."""

from __future__ import annotations

import pytest

from recall_loop.memory.store.files.store_place import is_address, shown_place
from recall_loop.memory.store.postgres.postgres_address import PostgresAddress
from recall_loop.memory.store.postgres.postgres_connection import with_marks
from recall_loop.memory.store.tables.database import AMONG, AMONG_ROWS
from recall_loop.state.errors import InvalidInputError


def test_marks_names_literals_and_percent_signs() -> None:
    marked = with_marks("SELECT '?:a%', \"b?\" FROM t WHERE x = ? AND y LIKE :name AND z % 2 = 1")
    assert marked.text == b"SELECT '?:a%%', \"b?\" FROM t WHERE x = %s AND y LIKE %(name)s AND z %% 2 = 1"


def test_sets_become_arrays() -> None:
    marked = with_marks(f"SELECT 1 FROM t WHERE a {AMONG_ROWS} AND b = ? AND c NOT {AMONG_ROWS} AND d {AMONG}")
    assert marked.text == b"SELECT 1 FROM t WHERE a = ANY (%s) AND b = %s AND c <> ALL (%s) AND d = ANY (%s)"
    assert marked.parameters(("[1, 2]", "x\x00y", "[]", '["a\\"b", "\\u00e9"]')) == [
        "{1, 2}",
        "x�y",
        "{}",
        ['a"b', "é"],
    ]


def test_an_address_names_database_and_schema_and_shows_no_password() -> None:
    found = PostgresAddress.parse("postgresql://me:s3cret@host:5432/db?sslmode=require&schema=mine")
    assert (found.url, found.schema) == ("postgresql://me:s3cret@host:5432/db?sslmode=require", "mine")
    assert "s3cret" not in str(found) and "s3cret" not in repr(found) and "me:***@host:5432" in str(found)
    assert PostgresAddress.parse("postgres:///db").schema == "recall_loop"
    assert shown_place("./folder") == "./folder" and not is_address("./folder")


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:sec@ret@host:5432/db",
        "postgresql://host:5432/db?password=sec@ret",
        "postgresql://host/db?sslmode=require&passw%6Frd=sec@ret",
        "postgresql://host/db?sslpassword=sec@ret&schema=mine",
    ],
)
def test_no_password_is_shown_wherever_it_stands(address: str) -> None:
    assert "sec" not in shown_place(address) and "ret" not in shown_place(address) and "host" in shown_place(address)


@pytest.mark.parametrize("schema", ["", "A", "1a", "a-b", "x" * 64, 'a"b'])
def test_an_odd_schema_is_refused(schema: str) -> None:
    with pytest.raises(InvalidInputError, match="schema"):
        PostgresAddress.parse(f"postgresql://host/db?schema={schema}")
