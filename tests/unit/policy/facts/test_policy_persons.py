"""The person that a question is about, and statements about somebody else (CONF-3, LIVE-2, LIVE-3)."""

from __future__ import annotations

import pytest

from recall_loop.policy.facts.persons.asked_persons import NO_RELATIVE, asked_by_name, asked_person
from recall_loop.text.words.tokens import text_language

OTHERS = [
    ("Where do I work?", "My wife works at Siemens."),
    ("What am I allergic to?", "My brother is allergic to nuts."),
    ("What car do I drive?", "Jonas drives a Volvo."),
    ("What is my favourite colour?", "Anna's favourite colour is green."),
    ("What car do I drive?", "My older brother drives a Volvo."),
    ("Quelle moto j'ai ?", "Mon beau-frère vend sa moto"),
    ("Welches Auto fahre ich?", "Mein kleiner Bruder fährt einen Golf."),
    ("When was I born?", "He was born in 1970."),
    ("What do I study?", "The neighbour studies law."),
    ("Where does my sister live?", "I live in Oslo."),
    ("Where does my brother live?", "My sister lives in Bergen."),
    ("Wo arbeite ich?", "Meine Frau arbeitet bei Siemens."),
    ("Wo wohnt meine Schwester?", "Ich wohne in Oslo."),
    ("¿Dónde vivo yo?", "Mi hermana vive en Bergen."),
    ("Où est-ce que j'habite ?", "Ma sœur habite à Bergen."),
    ("Où habite ma sœur ?", "J'habite à Oslo."),
    ("Где я живу?", "Моя сестра живёт в Бергене."),
    ("Где живёт моя сестра?", "Я живу в Осло."),
    ("我住在哪里？", "我姐姐住在卑尔根。"),
    ("¿Dónde vivo?", "Mi hermana vive en Bilbao."),
    ("¿Dónde vive mi hermano?", "Mi hermana vive en Bilbao."),
    ("Où habite mon cousin ?", "Ma cousine habite à Lille."),
    ("¿Qué estudio?", "Mi hermano estudia medicina."),
    ("Где работаю?", "Жена работает в банке."),
    ("Когда у меня день рождения?", "У начальника день рождения 3 мая"),
    ("C'est quand mon anniversaire ?", "Mon patron fête son anniversaire le 3 mai"),
    ("¿Cuándo es mi cumpleaños?", "El cumpleaños de mi jefe es el 3 de mayo"),
    ("Когда мой день рождения?", "День рождения сестры 3 мая"),
    ("我的生日是哪天？", "我老婆的生日是5月3号"),
    ("Where did I leave my phone?", "My wife left her phone at the office."),
    ("Où ai-je mis mon téléphone ?", "Ma femme a laissé son téléphone au bureau."),
    ("我姐姐住在哪里？", "我住在奥斯陆。"),
    ("When is my husband's birthday?", "My birthday is on 22 September."),
    ("Quand est l'anniversaire de mon mari ?", "Mon anniversaire tombe un lundi."),
    ("¿Cuándo es el cumpleaños de mi marido?", "Mi cumpleaños cae en lunes."),
]
OWN = [
    ("Where do I live?", "We live in Bergen."),
    ("Where do I live?", "My wife and I live in Bergen."),
    ("Where do I work?", "My job is at Siemens."),
    ("What car do I drive?", "My car is a Volvo."),
    ("In which city do I work?", "They've put my desk in Turin."),
    ("Which editor do I use?", "Kakoune is the editor on my laptop."),
    ("When do I have judo?", "Judo is on Tuesdays."),
    ("What did I get?", "Maria gave me the spare key."),
    ("Where does my sister live?", "My sister lives in Bergen."),
    ("Where does my mother live?", "Mum moved to Graz."),
    ("Where does my sister live?", "Ines lives in Bergen."),
    ("Welches Gemüse mag ich nicht?", "Von Fenchel wird mir schlecht."),
    ("Wann habe ich Judo?", "Training ist am Dienstag."),
    ("Quand est-ce que nous déménageons ?", "Il a fallu repousser le déménagement au 3 mai."),
    ("我什么时候练柔道？", "柔道课改在周二。"),
    ("Where did I leave the keys?", "My wife has the keys."),
    ("Wo habe ich den Schlüssel hingelegt?", "Den Schlüssel hat meine Frau"),
    ("¿Dónde dejé las llaves?", "Mi mujer tiene las llaves"),
    ("Où ai-je mis les clés ?", "C'est mon mari qui a les clés"),
    ("Куда я положил ключи?", "ключи у жены"),
    ("我把钥匙放哪儿了？", "钥匙在我老婆那儿"),
    ("Where did I go in May?", "Went to Rome with my sister in May"),
    ("Wo war ich im Mai?", "Mit meiner Schwester in Rom gewesen"),
    ("¿Dónde vivo?", "Vivo con mi hermana en Valencia"),
    ("¿De qué suma disponemos para el tejado?", "El presupuesto del tejado es de 9900 euros."),
    ("Где я был в мае?", "ездил с сестрой в Сочи"),
    ("When is my husband's birthday?", "My calendar has it on 22 September."),
    ("When is my husband's birthday?", "His birthday is on 22 September."),
]
# The person isn't clear, or the question asks for a person.
ANYBODY = ["What did I tell my wife?", "Where does he live?", "What did you say?", "Where is the key?", "Was ist los?"]


@pytest.mark.parametrize(("question", "text"), OTHERS)
def test_statements_about_somebody_else_are_ruled_out(question: str, text: str) -> None:
    """In six languages, about relatives, by name, or only about the speaker. Proves: CONF-3, LIVE-2."""
    asked = asked_person(question, text_language(question))
    assert asked is not None
    assert asked.rules_out(text)


@pytest.mark.parametrize(("question", "text"), OWN)
def test_statements_that_may_be_about_the_asked_person_stay(question: str, text: str) -> None:
    """About the speaker too, about something of theirs, or about nobody in particular. Proves: CONF-3, LIVE-2."""
    asked = asked_person(question, text_language(question))
    assert asked is not None
    assert not asked.rules_out(text)


@pytest.mark.parametrize(
    ("question", "name", "text"),
    [
        ("When is Gus's birthday?", "Gus", "My wife's birthday is on 3 June."),
        ("¿En qué trabaja Iván?", "Iván", "Mi hermana Lucía trabaja de enfermera."),
        ("Кем работает Вадим?", "Вадим", "Муж работает водителем."),
        ("Quel est le métier d'Inès ?", "d'Inès", "Ma cousine est fleuriste."),
    ],
)
def test_a_statement_about_a_relative_is_not_about_a_named_person(question: str, name: str, text: str) -> None:
    """If somebody is known only by name, a first-person statement may be theirs. Proves: CONF-3, LIVE-3."""
    asked = asked_by_name(question, text_language(question), name, [text])
    assert asked is not None
    assert asked.kin == NO_RELATIVE
    assert asked.rules_out(text)
    assert not asked.rules_out("I was born on 3 June.")
    own = name.removeprefix("d'")
    assert not asked.rules_out(f"{text} {own}.")


@pytest.mark.parametrize(
    ("question", "name"),
    [("What happened in Porto?", "Porto"), ("What did Gus tell my wife?", "Gus"), ("Gus came when?", "Gus")],
)
def test_an_unclear_name_rules_nothing_out(question: str, name: str) -> None:
    """Proves: CONF-3."""
    assert asked_by_name(question, text_language(question), name, []) is None


def test_an_inflected_name_is_the_same_person() -> None:
    """Proves: CONF-3, OPEN-4."""
    told = "Моя сестра Катя живёт в Казани."
    asked = asked_by_name("Сколько лет Кате?", "ru", "Кате", [told])
    assert asked is not None
    assert asked.kin is not None
    assert asked.kin != NO_RELATIVE
    assert not asked.rules_out(told)


@pytest.mark.parametrize("question", ANYBODY)
def test_questions_about_anybody(question: str) -> None:
    """Nothing is ruled out if the person isn't clear. Proves: CONF-3."""
    assert asked_person(question, text_language(question)) is None


def test_who_counts_their_own_children_asks_about_themselves() -> None:
    """A statement about those children is about the asker. Proves: CONF-3."""
    asked = asked_person("How many children do I have?", "en", asks_number=True)
    assert asked is not None
    assert asked.rules_out("Tom has three children.")
    assert not any(map(asked.rules_out, ("My children are called Ben and Tilly.", "We have two kids.")))
    counted = asked_person("¿Cuántos hermanos tengo?", "es", asks_number=True)
    assert counted is not None
    assert not counted.rules_out("Mi hermana se llama Inés.")


SONS = (
    "My son is allergic to eggs.",
    "Mein Sohn verträgt keine Eier.",
    "我儿子对鸡蛋过敏。",
    "息子は卵アレルギーです。",
)
OTHERS = (
    "My wife is allergic to eggs.",
    "Meine Tochter verträgt keine Eier.",
    "我妻子对鸡蛋过敏。",
    "夫は卵アレルギーです。",
)
QUESTIONS = (
    ("en", "What is my son allergic to?"),
    ("de", "Was verträgt mein Sohn nicht?"),
    ("zh", "我儿子对什么过敏？"),
    ("ja", "息子は何のアレルギーですか？"),
)


@pytest.mark.parametrize(("language", "question"), QUESTIONS)
def test_a_relative_is_the_same_one_in_all_languages(language, question):
    """Proves: CONF-3, OPEN-4."""
    asked = asked_person(question, language, asks_number=False)
    assert asked is not None
    assert [text for text in SONS if asked.rules_out(text)] == []
    assert [text for text in OTHERS if not asked.rules_out(text)] == []


def test_a_sister_may_be_the_elder_one_but_not_the_younger_for_the_elder():
    """Proves: CONF-3, OPEN-4."""
    sister = asked_person("What does my sister do?", "en", asks_number=False)
    elder = asked_person("我姐姐做什么工作？", "zh", asks_number=False)
    assert sister is not None and elder is not None
    assert not sister.rules_out("我姐姐是护士。") and not sister.rules_out("妹は看護師です。")
    assert not elder.rules_out("我姐姐是护士。") and elder.rules_out("我妹妹是护士。")
    assert sister.rules_out("我哥哥是护士。")
