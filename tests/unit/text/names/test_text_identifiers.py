"""Identifiers: what is one, and which texts have it."""

import pytest

from recall_loop.text.names.identifiers import find_identifiers, other_spellings, spelt_apart


@pytest.mark.parametrize(
    ("text", "same", "other"),
    [
        ("What does E2001 mean?", "E2001, e-2001", "E1042"),
        ("What is PROJ-123?", "proj 123", "PROJ-1234"),
        ("What changed in v1.10?", "1.10", "1.1"),
        ("Is 1.1 out?", "v1.1.2", "1.10"),
        ("What listens on 8080?", "localhost:8080", "18080"),
        ("Which Django 4.2 features?", "Django 4.2.1", "Django 4.1"),
        ("What did 3fa85f6c do?", "3fa85f6", "3fa85f7"),
        ("Where is parseConfig?", "PARSE_CONFIG", "parseConfigFile"),
        ("What is retry_limit?", "retry limit", "my_retry_limit"),
        ("When --no-cache?", "--no-cache", "--no-build"),
        ("What is on feature/oauth-pkce?", "feature/oauth-pkce", "feature/dark-mode"),
        ("Where is src/main.py?", "lib/main.py", "main.rs"),
        ("错误E2001是什么意思？", "错误E2001", "错误E1042"),
        ("端口8080是什么?", "端口8080", "端口6379"),
    ],
)
def test_an_identifier_finds_itself_and_no_other(text: str, same: str, other: str) -> None:
    """Proves: CONF-3."""
    (identifier,) = find_identifiers(text)
    assert identifier.spelt.search(same)
    assert not identifier.spelt.search(other)
    assert not identifier.may_count


@pytest.mark.parametrize(
    "text",
    [
        "Who ate 3 or 4 apples?",
        "What was in 1998, on 12.6.2025 and in the mid-1990s?",
        "Who has an iPhone, a PhD and YouTube?",
        "Who paid $200,000 at 10am and/or 2pm?",
        "Was haben wir am 12.6. gemacht?",
        "Who weighs 82kg, i.e. more than me?",
    ],
)
def test_amounts_times_and_names_are_none(text: str) -> None:
    """Proves: CONF-3."""
    assert find_identifiers(text) == ()


@pytest.mark.parametrize(
    "text", ["What does exit code 137 mean?", "Who ran 3.5 miles?", "When is sprint 14?", "花了300元吗？"]
)
def test_a_number_that_may_count_something_says_so(text: str) -> None:
    """Proves: CONF-3."""
    (identifier,) = find_identifiers(text)
    assert identifier.may_count


def test_names_in_code_are_spelt_apart_and_as_one() -> None:
    """Proves: STOP-5."""
    assert spelt_apart("parseConfig HTTPServer userID APIs iPhone") == "parse Config HTTP Server user ID APIs iPhone"
    assert other_spellings("So parse_config calls userID") == "parse_config parseconfig user ID userID"
    assert other_spellings("Nothing of the kind, iPhone or PhD") == ""
