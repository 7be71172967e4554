"""Verbs that show who speaks where no pronoun does (OPEN-4, LIVE-2)."""

from __future__ import annotations

import pytest

from recall_loop.text.speech.first_person import has_first_person, opens_in_first_person

FIRST = [
    ("es", "¿Dónde vivo?"),
    ("es", "donde trabajo"),
    ("es", "¿Qué desayuno?"),
    ("es", "¿Qué coche conduzco?"),
    ("es", "¿Qué estudio por las tardes?"),
    ("es", "¿En qué calle vivo?"),
    ("es", "¿A qué soy alérgico?"),
    ("es", "¿Cuánto ahorro al mes?"),
    ("es", "¿Dónde compré la bici?"),
    ("es", "¿Dónde aparco?"),
    ("es", "¿Dónde he dejado las llaves?"),
    ("es", "¿Dónde cenamos el sábado?"),
    ("es", "¿Qué no me gusta?"),
    ("it", "Dove vivo?"),
    ("it", "A cosa sono allergico?"),
    ("it", "Che macchina guido?"),
    ("it", "Dove ho messo le chiavi?"),
    ("it", "Quando ceniamo?"),
    ("it", "Cosa non mi piace?"),
    ("pt", "onde trabalho"),
    ("pt", "A que sou alérgica?"),
    ("pt", "Onde deixei as chaves?"),
    ("pt", "Onde a gente mora?"),
    ("ru", "Где работаю?"),
    ("ru", "Где живём?"),
    ("ru", "На какой машине езжу?"),
    ("ru", "Чему учусь?"),
    ("ru", "Когда у меня день рождения?"),
    ("ru", "Сколько мне лет?"),
    ("de", "Was schmeckt mir nicht?"),
    ("fr", "Qu'est-ce qui me plaît ?"),
]
NOT_FIRST = [
    ("es", "¿Dónde trabajó?"),
    ("es", "¿Dónde vives?"),
    ("es", "¿Qué estudio alquiló?"),
    ("es", "¿Cuánto gasto tiene la casa?"),
    ("es", "¿Cuánto cuesta el trabajo?"),
    ("es", "¿Qué ahorro supone el contrato?"),
    ("es", "¿Qué vino tinto había?"),
    ("es", "¿Dónde está el café?"),
    ("es", "¿Qué me dijo?"),
    ("es", "¿Cuándo son los próximos exámenes?"),
    ("es", "Mi hermana compró un piso"),
    ("es", "Mi hermano trabaja como enfermero"),
    ("ru", "Где ключи от машины?"),
    ("ru", "Какую машину купил?"),
    ("ru", "Какую новую книгу читает?"),
    ("ru", "Кто готовит чай?"),
    ("de", "Wie geht es dir?"),
    ("nl", "Waar woon ik?"),
    ("it", "Dove lavora?"),
    ("it", "Il lavoro di Anna è faticoso"),
    ("it", "Dove sono le chiavi?"),
    ("pt", "Onde ele trabalha?"),
    ("pt", "O trabalho da Ana é pesado"),
    ("pt", "Meu irmão trabalha como enfermeiro"),
]


@pytest.mark.parametrize(("language", "text"), FIRST)
def test_verbs_of_the_first_person(language: str, text: str) -> None:
    """By their forms, their endings, their places, and what somebody feels or has. Proves: OPEN-4, LIVE-2."""
    assert has_first_person(text, language)


@pytest.mark.parametrize(("language", "text"), NOT_FIRST)
def test_nouns_and_verbs_of_others(language: str, text: str) -> None:
    """What may be a noun, or tells of another, is nobody's own question. Proves: OPEN-4, LIVE-2."""
    assert not has_first_person(text, language)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("en", "Went to Rome with my sister"),
        ("de", "bin mit meiner Schwester in Rom"),
        ("fr", "dîné avec ma mère"),
        ("ru", "ужинали с мамой"),
    ],
)
def test_notes_without_a_subject(language: str, text: str) -> None:
    """Such a note tells of the one who wrote it. Proves: OPEN-4."""
    assert opens_in_first_person(text, language)
    assert not opens_in_first_person("", language)


@pytest.mark.parametrize(
    "text", ["大森に引っ越しました。", "今日は何を買った?", "私は看護師です。", "今どこで働いてるんだっけ?"]
)
def test_a_japanese_sentence_without_a_subject_is_about_its_speaker(text: str) -> None:
    """Time topics are no subject. Proves: OPEN-4."""
    assert has_first_person(text, "ja")


@pytest.mark.parametrize(
    "text", ["母は静岡に住んでいます。", "妻の誕生日は5月3日です。", "弟が電話した。", "5月3日です。"]
)
def test_a_japanese_sentence_with_another_subject_is_not(text: str) -> None:
    """Nor is what only names a thing. Proves: OPEN-4."""
    assert not has_first_person(text, "ja")
