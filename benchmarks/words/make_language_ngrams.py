"""Make text/words/language-ngrams.tsv: groups of letters, and how much each says for a language in Latin letters.

    pip install py3langid==0.4.0
    python benchmarks/words/make_language_ngrams.py [--out FILE]

The figures are those of py3langid (Lui & Baldwin 2012): logarithms of how frequent a group is in a language. Of its 142
languages those with stop words here are kept, and of its groups the ones that say most in common text: frequency
times the largest difference from the mean over the languages. The same version gives the same file. The package itself
takes 80 MB of memory, the table 4.
"""

from __future__ import annotations

import argparse
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from py3langid.langid import LanguageIdentifier, _load_identifier

from recall_loop.text.words.languages import NGRAM_LANGUAGES, NGRAM_STEP

OUT = Path(__file__).resolve().parents[2] / "text" / "words" / "language-ngrams.tsv"
HEADER = """\
# How much a group of letters says for {languages}, in steps of {step} from P = 0; made by
# benchmarks/words/make_language_ngrams.py from the figures of py3langid 0.4.0 (BSD-3-Clause; the licence is in NOTICE).
"""
GROUPS, LONGEST = 16_000, 5
MOST_STEPS, ZERO = 31, ord("P")


def groups(model: LanguageIdentifier) -> Iterator[tuple[str, int]]:
    """Yield the model's groups of letters in lower case, and their rows in its table."""
    states, waiting = {0: b""}, deque([0])
    while waiting:
        state = waiting.popleft()
        for byte in range(256):
            following = model.tk_nextmove[model._rowbase[state] + byte]
            if following not in states:
                states[following] = states[state] + bytes([byte])
                waiting.append(following)
    for state, spelt in states.items():
        try:
            group = spelt.decode("utf-8")
        except UnicodeDecodeError:  # it begins or ends inside a letter
            continue
        lettered = any(map(str.isalpha, group)) and group == group.lower()
        if model.tk_output[state] >= 0 and lettered and len(group) <= LONGEST and not set(group) & set("\n\r\t"):
            yield group, model.tk_output[state]


def table(model: LanguageIdentifier) -> list[tuple[str, NDArray[np.float64]]]:
    """Return the groups that say most, the best first, and what each says for every language."""
    frequencies, _, names = model._full_model
    logarithms = np.asarray(frequencies)[:, [names.index(code) for code in NGRAM_LANGUAGES]].astype(np.float64)
    apart = logarithms - logarithms.mean(axis=1, keepdims=True)
    worth = np.exp(logarithms).mean(axis=1) * np.abs(apart).max(axis=1)
    best = sorted(groups(model), key=lambda pair: (-worth[pair[1]], pair[0]))[:GROUPS]
    return [(group, apart[row]) for group, row in best]


def line(group: str, apart: NDArray[np.float64]) -> str:
    """Return one line: the group, and a character for each language."""
    steps = np.rint(apart / NGRAM_STEP).clip(-MOST_STEPS, MOST_STEPS).astype(int)
    return f"{group}\t{''.join(chr(ZERO + step) for step in steps)}\n"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="file to write")
    out = parser.parse_args().out
    lines = sorted(line(group, apart) for group, apart in table(_load_identifier()))
    head = HEADER.format(languages=", ".join(NGRAM_LANGUAGES), step=NGRAM_STEP)
    out.write_text(head + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
