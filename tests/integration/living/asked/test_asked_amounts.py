"""Statements without an amount are no evidence if the question asks for one, in six languages. Proves: CONF-3."""

from __future__ import annotations

from time import perf_counter

import pytest

from recall_loop import Memory
from recall_loop.policy.confidence.asked_properties import without_counted
from recall_loop.policy.question.amounts import states_amount
from recall_loop.state.types import ConfidenceLabel


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("My sister Imke works as a glazier.", "How old is my sister?"),
        ("Meine Schwester Silke arbeitet als Glaserin.", "Wie alt ist meine Schwester?"),
        ("Nuestra perra se llama Canela.", "¿Cuántos años tiene nuestra perra?"),
        ("Notre chien s'appelle Tonnerre.", "Quel âge a notre chien ?"),
        ("Моя сестра Глафира работает геодезистом.", "Сколько лет моей сестре?"),
        ("我姐姐沈洁是测量员。", "我姐姐多大了？"),
    ],
)
def test_a_statement_without_an_amount_leaves_the_confidence_low(told, question):
    """Proves: CONF-3."""
    with Memory() as memory:
        memory.add(told)
        result = memory.recall(question)
    assert result.facts[0].text == told
    assert result.confidence.label is ConfidenceLabel.LOW


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("My sister turned forty-one.", "How old is my sister?"),
        (
            "Meine Schwester ist einundvierzig Jahre alt, sie wurde am 3. Mai 1984 geboren.",
            "Wie alt ist meine Schwester?",
        ),
        ("Nuestra perra tiene siete años.", "¿Cuántos años tiene nuestra perra?"),
        ("Notre chien a sept ans.", "Quel âge a notre chien ?"),
        ("Моей сестре сорок два года.", "Сколько лет моей сестре?"),
        ("我姐姐七岁。", "我姐姐多大了？"),
    ],
)
def test_a_stated_amount_is_evidence(told, question):
    """Proves: CONF-3."""
    with Memory() as memory:
        memory.add(told)
        assert memory.recall(question).confidence.label is not ConfidenceLabel.LOW


@pytest.mark.parametrize(
    ("told", "question"),
    [
        (("Rita handles the invoices.", "Our dog Pickle is four years old."), "How old is Rita?"),
        (
            ("Mi hermana Lucía es enfermera.", "El perro se llama Trufa y tiene cuatro años."),
            "¿Cuántos años tiene Lucía?",
        ),
        (("小雯搬到重庆去了。", "我们家的狗四岁了。"), "小雯多大了？"),
        (("La clase de cerámica es los jueves.", "El alquiler son 720 euros."), "¿Cuánto cuesta la clase de cerámica?"),
    ],
)
def test_an_amount_of_something_else_is_no_answer(told, question):
    """If statements about the asked person have no amount, those about others don't count either. Proves: CONF-3."""
    with Memory() as memory:
        for text in told:
            memory.add(text)
        assert memory.recall(question).confidence.label is ConfidenceLabel.LOW


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("The gym opens at six.", "How much is the gym?"),
        ("We bought the boat in 2019.", "How much did the boat cost?"),
        ("The lathe has a two year guarantee.", "How much was the lathe?"),
        ("Das Fahrrad habe ich am 3. Mai gekauft.", "Wie teuer war das Fahrrad?"),
        ("La bici la compré el 3 de mayo.", "¿Cuánto vale la bici?"),
        ("Le vélo, je l'ai depuis deux ans.", "Combien coûtait le vélo ?"),
        ("Велосипед я купил 3 мая.", "Сколько стоил велосипед?"),
        ("自行车是五月三号买的。", "自行车多少钱？"),
    ],
)
def test_a_time_is_no_price(told, question):
    """It was medium, for the gym high. Proves: CONF-3."""
    with Memory() as memory:
        memory.add(told)
        assert memory.recall(question).confidence.label is ConfidenceLabel.LOW


@pytest.mark.parametrize(
    ("told", "question"),
    [
        ("The gym has gone up to 40 a month.", "How much is the gym?"),
        ("The hotel was 90 a night, from 3 to 5 May.", "How much was the hotel?"),
        ("Das Fahrrad hat 900 Euro gekostet.", "Wie teuer war das Fahrrad?"),
        ("El piso costaba 720 al mes.", "¿Cuánto costaba el piso?"),
        ("Велосипед обошёлся в 20 тысяч.", "Сколько стоил велосипед?"),
        ("自行车花了两千块。", "自行车多少钱？"),
    ],
)
def test_a_price_next_to_a_time_counts(told, question):
    """Proves: CONF-3."""
    with Memory() as memory:
        memory.add(told)
        assert memory.recall(question).confidence.label is not ConfidenceLabel.LOW


def test_a_pronoun_refers_to_the_person_mentioned_before():
    """Proves: CONF-3."""
    with Memory() as memory:
        memory.add(
            [{"role": "user", "content": "Rita handles the invoices."}, {"role": "user", "content": "She is 41."}]
        )
        result = memory.recall("How old is Rita?")
    assert result.confidence.label is not ConfidenceLabel.LOW


def test_another_part_of_a_question_needs_no_amount():
    """Proves: CONF-3."""
    told = "My sister Imke works as a glazier in Bergen."
    with Memory() as memory:
        memory.add(told)
        parts = memory.recall("What does my sister work as? How old is she?")
        assert parts.confidence.score > memory.recall("How old is my sister?").confidence.score == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "I see her every weekend.",
        "The whole family, all of them.",
        "Nobody.",
        "Wir haben ein paar Hühner.",
        "Tenemos varias gallinas.",
        "Plusieurs fois.",
        "Несколько раз.",
        "没有人。",
        "我们的猫七岁了。",
        "Since March.",
        "A dozen or so.",
    ],
)
def test_words_of_quantity_and_times_state_an_amount(text):
    """Proves: CONF-3."""
    assert states_amount(text)


@pytest.mark.parametrize("text", ["Our dog is called Pickle.", "Wotan ist unser Hund.", "我家在昆明，离火车站很近。"])
def test_other_statements_have_no_amount(text):
    """Proves: CONF-3."""
    assert not states_amount(text)


def test_a_long_row_of_digits_is_read_at_once():
    """It took a minute of 20,000 digits. Proves: CONF-3."""
    start = perf_counter()
    assert without_counted("1" * 20_000, "en").strip() == "1" * 20_000
    assert perf_counter() - start < 1
