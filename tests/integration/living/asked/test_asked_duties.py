"""What is to be done or bought is found in whatever words it was told (STOP-5, CONF-3)."""

from __future__ import annotations

import pytest

from recall_loop import Memory
from recall_loop.policy.question.asked_duties import asked_duty

SAID = {
    "en": ["i have to call the plumber", "we're out of milk", "bought the blue sofa for 640", "Ines lives in Bergen"],
    "de": ["muss noch den Klempner anrufen", "wir brauchen Milch", "das blaue Sofa gekauft", "Ines wohnt in Bergen"],
    "es": ["tengo que llamar al fontanero", "se ha acabado la leche", "compré el sofá azul", "Inés vive en Bergen"],
    "fr": ["je dois appeler le plombier", "on n'a plus de lait", "j'ai acheté le canapé bleu", "Inès habite à Nice"],
    "ru": ["надо позвонить сантехнику", "молоко кончилось", "купил синий диван", "Инес живёт в Казани"],
    "it": ["devo chiamare l'idraulico", "è finito il latte", "ho comprato il divano blu", "Ines abita a Bari"],
    "pt": ["tenho que ligar pro encanador", "acabou o leite", "comprei o sofá azul", "a Inês mora em Natal"],
    "nl": ["moet de loodgieter nog bellen", "we hebben melk nodig", "blauwe bank gekocht", "Ines woont in Breda"],
    "ja": ["水道屋に電話しなきゃ", "牛乳が切れた", "青いソファを買った", "凛は大森に住んでる"],
    "zh": ["还得给水管工打电话", "牛奶没了", "买了蓝色沙发", "姐姐住在西安"],
}


@pytest.mark.parametrize(
    ("language", "question", "first"),
    [
        ("en", "what do i have to do?", 0),
        ("en", "What do we still need to buy?", 1),
        ("en", "What's on my shopping list?", 1),
        ("de", "Was muss ich noch erledigen?", 0),
        ("de", "was müssen wir einkaufen?", 1),
        ("es", "¿Qué tengo que hacer?", 0),
        ("es", "¿Qué tenemos que comprar?", 1),
        ("fr", "Qu'est-ce que je dois faire ?", 0),
        ("fr", "Qu'est-ce qu'il faut acheter ?", 1),
        ("it", "Cosa devo fare?", 0),
        ("it", "cosa dobbiamo comprare?", 1),
        ("it", "cosa c'è sulla lista della spesa?", 1),
        ("pt", "O que eu tenho que fazer?", 0),
        ("pt", "O que a gente precisa comprar?", 1),
        ("pt", "O que tenho de comprar?", 1),
        ("ru", "Что мне нужно сделать?", 0),
        ("ru", "Что нужно купить?", 1),
        ("zh", "我要做什么？", 0),
        ("zh", "要买什么？", 1),
        ("nl", "Wat moet ik nog doen?", 0),
        ("nl", "Wat moeten we kopen?", 1),
        ("ja", "何をしなきゃいけない?", 0),
        ("ja", "何を買えばいい?", 1),
    ],
)
def test_a_duty_is_found_by_the_words_that_tell_one(language: str, question: str, first: int) -> None:
    """Proves: STOP-5, CONF-3."""
    with Memory() as memory:
        memory.add(SAID[language], user_id="ada")
        result = memory.recall(question, user_id="ada")
    assert result.facts[0].text == SAID[language][first]
    assert result.confidence.label != "low"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("What do I have to do?", "I don't have to work on Friday."),
        ("What do I need to buy?", "I don't need to buy milk, we have plenty."),
        ("What's on the shopping list?", "I hate shopping."),
        ("Was muss ich machen?", "Das muss Anna gewesen sein."),
        ("Qu'est-ce qu'il faut acheter ?", "Il me manque, mon frère."),
    ],
)
def test_what_need_not_be_done_or_is_no_duty_is_none(question: str, told: str) -> None:
    """Proves: CONF-3."""
    with Memory() as memory:
        memory.add([told, "Ines lives in Bergen."], user_id="ada")
        assert memory.recall(question, user_id="ada").confidence.label == "low"


def test_a_call_to_make_is_nothing_to_buy() -> None:
    """Proves: STOP-5."""
    with Memory() as memory:
        memory.add(["I need to call the dentist.", "We're out of milk."], user_id="ada")
        assert memory.recall("What do I need to buy?", user_id="ada").facts[0].text == "We're out of milk."


def test_long_texts_take_no_longer_than_their_length() -> None:
    """A pattern that backtracks would take minutes. Proves: STOP-5."""
    assert asked_duty("quoi faut " * 20_000 + "?", ("a",), "fr") is None


@pytest.mark.parametrize("question", ["What do I have to do?", "Was muss ich noch erledigen?", "Что нужно купить?"])
def test_without_a_duty_none_is_believed(question: str) -> None:
    """Proves: CONF-3."""
    with Memory() as memory:
        memory.add(["Ines lives in Bergen.", "The blue sofa was 640.", "Ich war gestern im Kino."], user_id="ada")
        assert memory.recall(question, user_id="ada").confidence.label == "low"


def test_a_day_is_asked_for_beside_it() -> None:
    """Proves: STOP-5."""
    with Memory() as memory:
        memory.add(["i have to call the plumber", "tomorrow i must water the plants"], user_id="ada")
        result = memory.recall("What do I have to do tomorrow?", user_id="ada")
    assert result.facts[0].text == "tomorrow i must water the plants"


@pytest.mark.parametrize(
    ("question", "phrases"),
    [
        ("What should I do about the mould?", ("mould",)),
        ("What did I buy?", ("buy",)),
        ("What does a florist have to do?", ("florist",)),
    ],
)
def test_what_asks_for_more_or_for_the_past_is_another_question(question: str, phrases: tuple[str, ...]) -> None:
    """Proves: STOP-5."""
    assert asked_duty(question, phrases, "en") is None
