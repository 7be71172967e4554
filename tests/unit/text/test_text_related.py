"""The table of related terms."""

from pathlib import Path

import pytest
import Stemmer

from recall_loop.state.errors import InvalidInputError
from recall_loop.text.words import related_terms as related_terms_module
from recall_loop.text.words.related_terms import load_related_terms, related_terms, term_key, written_index


def test_a_verb_in_the_third_person_is_looked_up_as_the_verb():
    """Proves: QUERY-1, STOP-5."""
    assert related_terms("studies") == related_terms("study")
    assert set(related_terms("carries").synonyms) == set(related_terms("carry").synonyms)


def test_converses_hold_for_irregular_forms_and_one_way():
    """Proves: STOP-5."""
    assert related_terms("sold").converse == related_terms("sells").converse == ("buy from",)
    assert related_terms("bought").converse == ("sell to",)
    assert related_terms("reports").converse == ()


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


def test_a_role_has_other_words_for_the_person_before_those_for_the_work():
    """Proves: QUERY-1 (roles)."""
    assert related_terms("engineer").also[0] == "developer"
    assert set(related_terms("developer").synonyms) >= {"software engineer", "programmer"}
    assert related_terms("recruiter").synonyms[0] != "hire"


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
        if key.startswith("="):  # the same again, for one of several terms with a stem
            continue
        for others in (found.synonyms, found.broader, found.narrower, found.also):
            keys = [term_key(other) for other in others]
            assert key not in keys
            assert len(keys) == len(set(keys))
        for other in found.broader:
            assert key in map(term_key, related_terms(other).narrower)
        for other in found.synonyms:
            assert key in map(term_key, related_terms(other).synonyms)
        assert not set(map(term_key, found.synonyms)) & set(map(term_key, found.also))
        for other in found.also:
            assert key in map(term_key, (*related_terms(other).synonyms, *related_terms(other).also))


def test_the_index_is_that_of_the_tables(request: pytest.FixtureRequest) -> None:
    """What is packaged is what the tables give with the stemmer of this version. Proves: QUERY-1."""
    file, expected = Path(related_terms_module.__file__).with_name("related_index.tsv"), written_index()
    if request.config.getoption("--update-snapshots"):
        file.write_text(expected, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == expected, "run `make snapshots`"


def test_with_another_stemmer_the_tables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index whose keys may be others is not used. Proves: QUERY-1."""
    kept = dict(load_related_terms())
    monkeypatch.setattr(Stemmer, "version", lambda: "another")
    found = related_terms_module._built_in.__wrapped__()
    assert dict(found) == kept


def test_the_written_word_counts_not_its_stem() -> None:
    """Of two words with one stem each has its own relations; inflected forms share them. Proves: QUERY-1."""
    assert related_terms("developers").synonyms[:1] != ("build",)
    assert "programmer" in related_terms("developer").synonyms and "build" not in related_terms("developer").synonyms
    assert "build" in related_terms("develop").synonyms and "programmer" not in related_terms("develop").synonyms
    assert "wife" in related_terms("married").also


ROLES = (
    "engineer",
    "nurse",
    "chef",
    "designer",
    "architect",
    "lawyer",
    "doctor",
    "manager",
    "journalist",
    "plumber",
    "farmer",
)


@pytest.mark.parametrize("role", ROLES)
def test_every_common_role_has_other_words(role: str) -> None:
    """Roles are asked for in words that nobody used. Proves: QUERY-1."""
    found = related_terms(role)
    assert len({*found.synonyms, *found.also}) >= 2


@pytest.mark.parametrize(
    "role",
    [
        "analyst",
        "CFO",
        "cashier",
        "cleaner",
        "contractor",
        "economist",
        "editor",
        "hairdresser",
        "investor",
        "landlord",
        "librarian",
        "midwife",
        "notary",
        "paralegal",
        "pharmacist",
        "receptionist",
        "recruiter",
        "tailor",
        "tenant",
        "tester",
        "translator",
    ],
)
def test_further_roles_have_other_words(role: str) -> None:
    """Proves: QUERY-1 (roles)."""
    assert {*related_terms(role).synonyms, *related_terms(role).also}


def test_families_of_words_and_irregular_forms(tmp_path: Path) -> None:
    """A head goes with each member, members not with each other; a form goes with all that its base does.

    Proves: QUERY-1.
    """
    extra = tmp_path / "own.tsv"
    extra.write_text("form\tglorp\tglarp\nalso\tglorp\tglorpist|zorper\n", "utf-8")
    table = load_related_terms(extra)
    assert related_terms("glorp", table).also == ("glorpist", "zorper", "glarp")
    assert related_terms("zorper", table).also == ("glorp", "glarp")
    assert related_terms("glarp", table).also == ("glorp", "glorpist", "zorper")
    assert "author" in related_terms("wrote").also


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
