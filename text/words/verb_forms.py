"""Irregular verbs: which stems are of one verb, since no stemmer tells that "isst" is a form of "essen" (OPEN-4).

The verbs stand in `verb_forms.tsv`, of languages in which notes ("Ich esse kein Fleisch") and questions ("Was
isst Jonas nicht?") seldom share a form. English ones are among the related terms (`related_terms.py`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from recall_loop.text.words.folding import fold
from recall_loop.text.words.stemming import stem


def other_forms(word_stem: str, language: str) -> frozenset[str]:
    """Return the other stems of the irregular verb that a stem is of; empty where there is none."""
    return _forms().get(language, {}).get(word_stem, frozenset()) - {word_stem}


@cache
def _forms() -> Mapping[str, Mapping[str, frozenset[str]]]:
    """Return by language and stem all stems of the verb, or of the verbs that share this form."""
    text = files("recall_loop.text.words").joinpath("verb_forms.tsv").read_text(encoding="utf-8")
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for line in text.splitlines():
        if line and not line.startswith("#"):
            language, forms = line.split("\t")
            stems = {stem(form, language) for form in fold(forms).split()}
            for each in stems:
                found[language][each] |= stems
    return {code: {each: frozenset(of) for each, of in verbs.items()} for code, verbs in found.items()}
