"""Texts of other languages word by word in English (OPEN-4)."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from recall_loop.text.gloss.glosses import GLOSSED_LANGUAGES, in_english
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import WITHOUT_BLANKS
from recall_loop.text.words.tokens import stem_set, words


@pytest.mark.parametrize(
    ("text", "gloss"),
    [
        ("Wann hat meine Tochter ihren Termin beim Zahnarzt?", "daughter appointment dentist"),
        ("¿Cuándo tiene mi hija su cita con el dentista?", "daughter appointment dentist"),
        ("Quand est-ce que ma fille a rendez-vous chez le dentiste ?", "daughter appointment dentist"),
        ("Когда у моей дочери приём у стоматолога?", "daughter appointment dentist"),
        ("我女儿跟牙医的预约是什么时候？", "daughter appointment dentist"),
        ("Quando ha l'appuntamento dal dentista mia figlia?", "daughter appointment dentist"),
        ("Quando é que a minha filha tem consulta no dentista?", "daughter appointment dentist"),
        ("Wanneer heeft mijn dochter haar afspraak bij de tandarts?", "daughter appointment dentist"),
        ("娘の歯医者の予約はいつですか？", "daughter dentist when"),
    ],
)
def test_one_question_in_many_languages_has_the_same_english_words(text: str, gloss: str) -> None:
    said = in_english(text)
    assert said is not None
    assert stem_set([gloss]) <= stem_set([said]), said


def test_english_text_has_no_gloss() -> None:
    assert in_english("When does my daughter see the dentist?") is None


def test_what_asks_and_what_denies_stays_and_articles_go() -> None:
    assert in_english("Wer verträgt keine Nüsse?") == "who tolerates no nuts"
    assert in_english("¿Dónde está la llave?") == "where is key"


def test_text_of_articles_alone_has_no_gloss() -> None:
    assert in_english("¿La, las, los?") is None


def test_a_german_compound_is_read_by_its_parts() -> None:
    said = in_english("Der Elternabend ist im Sprachkurszimmer der Schule.")
    assert said == "parents evening is in language course room school"


def test_a_dutch_compound_is_read_by_its_parts() -> None:
    said = in_english("De ouderavond is in de schoolkeuken.")
    assert said is not None
    assert {"school", "kitchen"} <= set(said.split())


def test_japanese_is_read_by_the_longest_words_without_unknown_endings() -> None:
    said = in_english("来週の火曜日に歯医者に行きます。ミケとヴィブケも。")
    assert said is not None
    found = said.split()
    assert {"next", "week", "tuesday", "dentist"} <= set(found)
    assert "tooth" not in found
    assert {"ミケ", "ヴィブケ"} <= set(found)
    assert not re.search("[\u3041-\u3096]", said)
    assert in_english("です。") is None


def test_an_earlier_version_reads_only_its_own_languages() -> None:
    assert in_english("Dov'è la chiave?", {"de"}) is None
    assert in_english("Wo ist der Schlüssel?", {"de"}) == "where is key"


def test_a_long_run_of_letters_is_no_compound() -> None:
    said = in_english(f"Der Schlüssel heißt {'hund' * 20} und liegt im Zimmer.")
    assert said is not None
    assert "hund" * 20 in said.split()


def test_unknown_names_stay_as_they_are_and_cyrillic_ones_are_spelt_in_latin_letters() -> None:
    german, russian = in_english("Meine Nachbarin Wiebke Hansen wohnt in Husum."), in_english("Мы живём в Ижевске.")
    assert german is not None
    assert russian is not None
    assert {"wiebke", "hansen", "husum"} <= set(german.split())
    assert "izhevske" in russian.split()


def test_other_forms_of_a_word_are_found_by_its_stem() -> None:
    forms = [in_english(f"Wir haben gestern zusammen {form} gesehen.") for form in ("Hund", "Hunde", "Hunden")]
    assert all(said is not None and "dog" in said for said in forms), forms


@pytest.mark.parametrize("language", sorted(GLOSSED_LANGUAGES))
def test_each_line_is_one_word_that_a_text_can_have_and_its_english(language: str) -> None:
    text = files("recall_loop.text.gloss").joinpath(f"{language}.tsv").read_text(encoding="utf-8")
    lines = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) > 5000
    assert all(len(line) == 2 and line[1].strip() == line[1].lower() != "" for line in lines)
    assert len({fold(word) for word, _ in lines}) == len(lines)
    assert not [word for word, _ in lines if language not in WITHOUT_BLANKS and len(words(word)) != 1]
