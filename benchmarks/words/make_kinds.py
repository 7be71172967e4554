"""Make text/words/kinds.txt: which words are kinds of which others, from WordNet 3.0.

    apt-get download wordnet-base && dpkg -x wordnet-base_*.deb wordnet
    python benchmarks/words/make_kinds.py wordnet/usr/share/wordnet [--out FILE]

The tree of noun meanings, a line for each: its depth and its words, with what it is a kind of above it. A word stands
where the meaning has at least a quarter of its tagged uses, so that `nice` is no city; a word that nobody tagged in its
first four meanings, for a carrot is a plant and what is eaten of it. With `~` before it a word only names a kind there,
and is no member: from a twentieth of its uses on, as its first meaning, or beside a longer term that ends with it
(musical instrument, instrument). Left out are terms of more than three words, and terms of several words that aren't
everyday ones. The same files give the same tree.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from make_related_words import EVERYDAY, ROOT

OUT = ROOT / "text" / "words" / "kinds.txt"
HEADER = """\
# Kinds of things from WordNet 3.0, made by benchmarks/words/make_kinds.py: depth, then the words of one meaning.
# WordNet 3.0 Copyright 2006 by Princeton University. All rights reserved. The licence is in NOTICE.
"""
ENTITY = "00001740"
LEAST_SHARE, LEAST_SHARE_OF_KIND = 0.25, 0.05
MOST_WORDS, LEAST_LETTERS = 3, 2
_NOUN = "1"


@dataclass
class Nouns:
    """Noun meanings: the words of each, the meanings below it, and the share of each word's uses that it has."""

    words: dict[str, list[str]] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    shares: dict[tuple[str, str], float] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)


def read(folder: Path) -> Nouns:
    """Return what the files in WordNet's folder say."""
    nouns, totals, tagged = Nouns(), Counter[str](), Counter[tuple[str, int]]()
    for line in (folder / "cntlist.rev").read_text("ascii").splitlines():
        key, sense, count = line.split()
        lemma, kind = key.split("%")
        totals[lemma] += int(count)
        if kind[0] == _NOUN:
            tagged[lemma, int(sense)] = int(count)
    for line in _rows(folder / "index.noun"):
        parts = line.split()
        lemma, meanings = parts[0], parts[-int(parts[2]) :]
        nouns.first[lemma] = meanings[0]
        for sense, meaning in enumerate(meanings, 1):
            untagged = 1 / sense
            nouns.shares[lemma, meaning] = tagged[lemma, sense] / totals[lemma] if totals[lemma] else untagged
    for line in _rows(folder / "data.noun"):
        _read_meaning(nouns, line)
    return nouns


def _rows(path: Path) -> Iterator[str]:
    return (line for line in path.read_text("ascii").splitlines() if not line.startswith(" "))


def _read_meaning(nouns: Nouns, line: str) -> None:
    parts = line.partition("|")[0].split()
    meaning, count = parts[0], int(parts[3], 16)
    nouns.words[meaning] = [word.lower() for word in parts[4 : 4 + 2 * count : 2]]
    pointers = parts[5 + 2 * count :][: 4 * int(parts[4 + 2 * count])]
    for symbol, above in zip(pointers[::4], pointers[1::4], strict=True):
        if symbol in ("@", "@i"):
            nouns.below[above].append(meaning)


def _is_plain(term: str) -> bool:
    """Return whether a term is one word, or two or three everyday ones."""
    words = term.replace("-", "_").split("_")
    short = len(words) <= MOST_WORDS and len(term) > LEAST_LETTERS
    return short and all(map(str.isalpha, words)) and (len(words) == 1 or EVERYDAY.issuperset(words))


def _written(nouns: Nouns, word: str, meaning: str) -> str | None:
    """Return a word as the tree has it in a meaning; None where it isn't."""
    share, name = nouns.shares.get((word, meaning), 0.0), word.replace("_", " ").replace("-", " ")
    if not _is_plain(word):
        return None
    if share >= LEAST_SHARE:
        return name
    in_full = any(other.endswith(f"_{word}") for other in nouns.words[meaning])
    names_kind = share >= LEAST_SHARE_OF_KIND or nouns.first.get(word) == meaning or in_full
    return f"~{name}" if names_kind else None


def tree_lines(nouns: Nouns, meaning: str = ENTITY, depth: int = 0) -> list[str]:
    """Return the lines of a meaning and of all below it; none where no word is left in any of them."""
    words = [name for word in nouns.words[meaning] if (name := _written(nouns, word, meaning))]
    below = [line for under in nouns.below[meaning] for line in tree_lines(nouns, under, depth + 1)]
    return [f"{depth}\t|{'|'.join(words)}|", *below] if words or below else []


def main() -> None:
    """Write the tree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="WordNet's folder, with data.noun and the rest")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    options.out.write_text(HEADER + "".join(f"{line}\n" for line in tree_lines(read(options.folder))), "utf-8")


if __name__ == "__main__":
    main()
