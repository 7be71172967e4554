"""Words, stems and content words."""

import threading

import pytest

from recall_loop.text.words.stop_words import QUESTION_WORDS, STOP_WORDS
from recall_loop.text.words.tokens import content_words, fold, stem, stems, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("José's dog, the dogs' bowl", ["jose", "dog", "the", "dogs", "bowl"]),
        ("Don't! She’ll say I’m fine", ["do", "she", "say", "i", "fine"]),
        ("well-known foo_bar", ["well", "known", "foo", "bar"]),
        ("C++, C# and .NET but node.js", ["cpp", "csharp", "and", "dotnet", "but", "node", "js"]),
        ("1,000 steps at 5:30", ["1000", "steps", "at", "5", "30"]),
        ("O'Brien ill shed", ["obrien", "ill", "shed"]),
        ("東京に行く", ["東", "京", "に", "行", "く"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ＡＢＣ soft\u00adhyphen Straße İstanbul", ["abc", "softhyphen", "strasse", "istanbul"]),
        ("👍 ... ' -", []),
        ("", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    """Words are folded, Unicode-aware and free of punctuation. Proves: QUERY-3."""
    assert words(text) == expected


def test_stems_agree_between_statement_and_question() -> None:
    """A document and a query in other word forms share their stems. Proves: QUERY-3, LOOP-4."""
    assert stems("What were the running dogs doing?") == ["run", "dog"]
    assert set(stems("She adopted two cats")) >= set(stems("adopting cat"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("who knows", []),
        ("Who knows Python?", ["python"]),
        ("How long has Ann lived in Rome?", ["ann", "lived", "rome"]),
        ("a long way", ["long", "way"]),
        ("What kind of dog, what dog", ["dog"]),
        ("I’m okay, don't you think", ["think"]),
    ],
)
def test_content_words(text: str, expected: list[str]) -> None:
    """Question words and their tails are no content. Proves: QUERY-3, STOP-5."""
    assert content_words(text) == expected


def test_stop_words_hold_question_words_but_no_month() -> None:
    """The month May stays searchable. Proves: QUERY-3."""
    assert QUESTION_WORDS <= STOP_WORDS
    assert "may" not in STOP_WORDS
    assert all(words(word) == [word] for word in STOP_WORDS)


def test_stem_in_many_threads() -> None:
    """Each thread has a stemmer of its own. Proves: LOOP-9."""
    wanted = [(f"walking{n}s", stem(f"walking{n}s")) for n in range(500)] + [("running", "run")]
    wrong: list[str] = []

    def work(offset: int) -> None:
        for n in range(1500):
            word = f"thread{offset * n % 700}ing"
            if stem(word) != f"thread{offset * n % 700}":
                wrong.append(word)
        wrong.extend(word for word, stemmed in wanted if stem(word) != stemmed)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.timeout(30)
def test_long_input_takes_no_quadratic_time() -> None:
    """Also where nothing matches. Proves: LOOP-9."""
    for text in (
        "The fox doesn't jump. " * 15_000,
        "a'" * 150_000,
        "1," * 150_000,
        "x" * 300_000,
        "東" * 300_000,
    ):
        assert words(text)
        stems(text)


def test_fold_drops_what_prints_nothing() -> None:
    """Zero-width characters and typographic apostrophes don't part equal words. Proves: LOOP-4."""
    assert fold("Rock\u200b’n’ Roll") == "rock'n' roll"
