"""The table of related terms."""

from pathlib import Path

import pytest

from recall_loop.state.errors import InvalidInputError
from recall_loop.text.words.related_terms import load_related_terms, related_terms, term_key


def test_synonyms_are_mutual_and_found_by_stem() -> None:
    """Any form of a word finds the whole group, never itself. Proves: QUERY-1, LOOP-7."""
    assert {"purchase", "bought"} <= set(related_terms("Buying").synonyms)
    assert "buy" in related_terms("purchased").synonyms
    assert "buy" not in related_terms("buy").synonyms
    assert {"children"} <= set(related_terms("kid").synonyms)


def test_broader_and_narrower_are_inverse() -> None:
    """What is broader one way is narrower the other. Proves: LOOP-7."""
    assert "programming language" in related_terms("python").broader
    assert "Python" in related_terms("programming languages").narrower
    assert "relationship status" in related_terms("married").broader


def test_unknown_term() -> None:
    """A term that isn't in the table has no relations. Proves: QUERY-1."""
    nothing = related_terms("zxqv")
    assert (nothing.synonyms, nothing.broader, nothing.narrower) == ((), (), ())
    assert related_terms("") == nothing


def test_whole_table_is_sound() -> None:
    """No term is related to itself, and each relation holds both ways. Proves: QUERY-1."""
    table = load_related_terms()
    assert len(table) > 1000
    for key, found in table.items():
        for others in (found.synonyms, found.broader, found.narrower):
            keys = [term_key(other) for other in others]
            assert key not in keys
            assert len(keys) == len(set(keys))
        for other in found.broader:
            assert key in map(term_key, related_terms(other).narrower)
        for other in found.synonyms:
            assert key in map(term_key, related_terms(other).synonyms)


def test_users_own_table_is_merged(tmp_path: Path) -> None:
    """A user's file adds to the built-in table, for its holder only. Proves: QUERY-1."""
    extra = tmp_path / "own.tsv"
    extra.write_text("# ours\n\nsyn\tbuy\tsnag\nbroader\tGleam\tprogramming language\n", "utf-8")
    table = load_related_terms(extra)
    assert {"snag", "bought"} <= set(related_terms("buy", table).synonyms)
    assert "Gleam" in related_terms("programming language", table).narrower
    assert "snag" not in related_terms("buy").synonyms


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("syn buy snag", "line 2"),
        ("same\tbuy\tsnag", "line 2: relation"),
        ("syn\tbuy\tsnag|", "line 2: term"),
        ("syn\t?\tsnag", "line 2: term"),
    ],
)
def test_bad_line_is_named(tmp_path: Path, line: str, field: str) -> None:
    """A bad line is refused with file and number. Proves: QUERY-1."""
    extra = tmp_path / "own.tsv"
    extra.write_text(f"syn\ta\tb\n{line}\n", "utf-8")
    with pytest.raises(InvalidInputError) as caught:
        load_related_terms(extra)
    assert field in caught.value.field
    assert "own.tsv" in caught.value.field


def test_unreadable_file(tmp_path: Path) -> None:
    """A missing or binary file is a typed error. Proves: QUERY-1."""
    with pytest.raises(InvalidInputError):
        load_related_terms(tmp_path / "missing.tsv")
    (tmp_path / "binary.tsv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError):
        load_related_terms(tmp_path / "binary.tsv")
