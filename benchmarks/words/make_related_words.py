"""Make text/words/wordnet.tsv: words that mean about the same, or are of one family, from WordNet 3.0.

    apt-get download wordnet-base && dpkg -x wordnet-base_*.deb wordnet
    python benchmarks/words/make_related_words.py wordnet/usr/share/wordnet [--out FILE]

Only the common meanings of common words are taken: a meaning counts where it has at least a quarter of a word's tagged
uses, and two words are related where a meaning is common for both. With them come the words derived from that meaning
(own, owner), and irregular forms (write, wrote), which no stemmer finds. The same files give the same table.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from recall_loop.text.words.stemming import stem
from recall_loop.text.words.stop_words import STOP_WORDS

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "text" / "words" / "wordnet.tsv"
# Words of everyday text; WordNet has many that nobody writes.
EVERYDAY = frozenset((ROOT / "memory/store/embed/bert-base-uncased-vocab.txt").read_text("utf-8").split())
HEADER = """\
# Related words from WordNet 3.0, made by benchmarks/words/make_related_words.py. Format: see related.tsv.
# WordNet 3.0 Copyright 2006 by Princeton University. All rights reserved. The licence is in NOTICE.
"""
POS = {"noun": "1", "verb": "2", "adj": "3", "adv": "4"}
KINDS = {"n": "noun", "v": "verb", "a": "adj", "s": "adj", "r": "adv"}
LEAST_SHARE = 0.25
MOST_MEMBERS = 5
MOST_WORDS, LEAST_LETTERS = 2, 2


@dataclass
class WordNet:
    """What is read of WordNet: the words of each meaning, the derivations of words, their uses, irregular forms."""

    words: dict[str, list[str]] = field(default_factory=dict)
    derived: dict[tuple[str, str], list[tuple[str, int]]] = field(default_factory=lambda: defaultdict(list))
    uses: Counter[tuple[str, str]] = field(default_factory=Counter)
    first: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    forms: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def common(self) -> dict[str, list[str]]:
        """Return by word its common meanings, the most used first."""
        totals: Counter[tuple[str, str]] = Counter()
        for (word, meaning), count in self.uses.items():
            totals[word, meaning[0]] += count
        found: dict[str, list[str]] = defaultdict(list)
        for (word, meaning), count in sorted(self.uses.items(), key=lambda item: -item[1]):
            if count >= LEAST_SHARE * totals[word, meaning[0]] and (count or meaning in self.first[word]):
                found[word].append(meaning)
        return found

    def most_used_of_each_stem(self) -> set[str]:
        """Return the words that may be in the table: of those with one stem, which a lookup takes for one, the first.

        Words that no tagged text has in its first meaning are rare, and their meanings in no order.
        """
        totals: Counter[str] = Counter()
        for (word, _), count in self.uses.items():
            if _is_plain(word):
                totals[word] += count
        best: dict[str, str] = {}
        for word in sorted(totals, key=lambda word: (-totals[word], word)):
            if any(self.uses[word, meaning] for meaning in self.first[word]):
                best.setdefault(stem(word), word)
        return set(best.values())


def read(folder: Path) -> WordNet:
    """Return what the files in WordNet's folder say."""
    net = WordNet()
    tagged = Counter[tuple[str, str, int]]()
    for line in (folder / "cntlist.rev").read_text("ascii").splitlines():
        key, sense, count = line.split()
        lemma, kind = key.split("%")
        tagged[lemma, "3" if kind[0] == "5" else kind[0], int(sense)] = int(count)
    for name, number in POS.items():
        for line in _rows(folder / f"index.{name}"):
            lemma, offsets = _index_line(line)
            net.first[lemma].add(number + offsets[0])
            for sense, offset in enumerate(offsets, 1):
                net.uses[lemma, number + offset] = tagged[lemma, number, sense]
        for line in _rows(folder / f"data.{name}"):
            _read_meaning(net, number, line)
    for name in ("verb", "noun"):
        for line in (folder / f"{name}.exc").read_text("ascii").splitlines():
            form, base = line.split()[:2]
            net.forms[base].append(form)
    return net


def _rows(path: Path) -> Iterator[str]:
    return (line for line in path.read_text("ascii").splitlines() if not line.startswith(" "))


def _index_line(line: str) -> tuple[str, list[str]]:
    """Return a word and the offsets of its meanings, the most used first."""
    parts = line.split()
    return parts[0], parts[-int(parts[2]) :]


def _read_meaning(net: WordNet, number: str, line: str) -> None:
    parts = line.partition("|")[0].split()
    meaning, count = number + parts[0], int(parts[3], 16)
    net.words[meaning] = [word.partition("(")[0] for word in parts[4 : 4 + 2 * count : 2]]
    pointers = parts[5 + 2 * count :][: 4 * int(parts[4 + 2 * count])]
    for symbol, offset, kind, places in zip(*(pointers[at::4] for at in range(4)), strict=True):
        if symbol == "+" and {number, POS[KINDS[kind]]} <= {"1", "2"}:
            word = net.words[meaning][int(places[:2], 16) - 1]
            target = POS[KINDS[kind]] + offset
            net.derived[word, meaning].append((target, int(places[2:], 16) - 1))


def families(net: WordNet) -> dict[str, list[str]]:
    """Return by word its related words, best first, each pair once under the word that comes first in the alphabet."""
    common, chosen = net.common(), net.most_used_of_each_stem()
    related: dict[str, list[str]] = defaultdict(list)
    for word in sorted(chosen):
        meanings = common[word]
        members = [other for meaning in meanings for other in net.words[meaning] if meaning in common.get(other, ())]
        members += [other for meaning in meanings for other in _derivations(net, word, meaning, common)]
        kept = [other for other in dict.fromkeys(members) if other in chosen and other != word]
        for other in kept[:MOST_MEMBERS]:
            first, second = sorted((word, other))
            if second not in related[first]:
                related[first].append(second)
    return {word: members for word, members in related.items() if members}


def _derivations(net: WordNet, word: str, meaning: str, common: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield the words derived from one meaning of a word, then those that mean the same as these."""
    targets = [(target, net.words[target][at]) for target, at in net.derived.get((word, meaning), ())]
    yield from (other for target, other in targets if target in common.get(other, ()))
    for target, derived in targets:
        if target in common.get(derived, ()):
            yield from (other for other in net.words[target] if target in common.get(other, ()))


def _is_plain(term: str) -> bool:
    """Return whether a term is one or two words and not only stop words; they are everyday words."""
    words = term.split("_")
    plain = all(word.isalpha() and word in EVERYDAY for word in words)
    return plain and len(words) <= MOST_WORDS and len(term) > LEAST_LETTERS and not STOP_WORDS.issuperset(words)


def table_lines(net: WordNet) -> Iterator[str]:
    """Yield the lines of the table."""
    related = families(net)
    for word, members in sorted(related.items()):
        yield f"also\t{word}\t{'|'.join(members)}".replace("_", " ")
    known = {word for head, members in related.items() for word in (head, *members)}
    for base, forms in sorted(net.forms.items()):
        kept = [form for form in dict.fromkeys(forms) if _is_plain(form) and stem(form) != stem(base)]
        if kept and base in known:
            yield f"form\t{base}\t{'|'.join(kept)}"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="WordNet's folder, with data.noun and the rest")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    options.out.write_text(HEADER + "".join(f"{line}\n" for line in table_lines(read(options.folder))), "utf-8")


if __name__ == "__main__":
    main()
