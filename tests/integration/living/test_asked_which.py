"""Which one, at what time, at what price: a record that doesn't say so is no sure answer (CONF-3)."""

from __future__ import annotations

import pytest

from recall_loop import Memory
from tests.integration.living.asked.labels import label

WHICH = [
    ("¿A qué prepa va Regina?", "mi hija Regina entra a la prepa el 19, quiere bici.", "Regina va a la prepa Juárez."),
    (
        "In welche Schule geht Lena?",
        "Die Schule hat angerufen, Lena hat Fieber.",
        "Lena geht in die Schule am Stadtpark.",
    ),
    ("Dans quelle école va Léa ?", "L'école a appelé, Léa a de la fièvre.", "Léa va à l'école Jules Ferry."),
    ("Which bike do I ride?", "I rode the bike.", "I ride a green city bike."),
    ("Which team won?", "The team trained all week.", "The team from Bristol won."),
]
HOURS = [
    ("What time is the dentist?", "The dentist is on Friday.", "The dentist is on Friday at 9:30."),
    ("What time does choir start?", "Choir starts in September.", "Choir starts at eight."),
    ("What time do I pick Lena up?", "I pick Lena up on Thursday 19th.", "I pick Lena up after lunch on Thursday."),
    (
        "Um wie viel Uhr ist der Zahnarzt?",
        "Der Zahnarzt ist am Freitag.",
        "Der Zahnarzt ist am Freitag um halb zehn.",
    ),
    ("¿A qué hora es el dentista?", "El dentista es el viernes.", "El dentista es el viernes a las nueve y media."),
    ("À quelle heure est le dentiste ?", "Le dentiste, c'est vendredi.", "Le dentiste, c'est vendredi à 9h30."),
    ("Во сколько стоматолог?", "Стоматолог в пятницу.", "Стоматолог в пятницу в девять."),
    ("几点去看牙医？", "星期五去看牙医。", "星期五上午十点去看牙医。"),
]
PRICES = [
    ("What did the 24 chairs cost?", "The 24 chairs come on August 9.", "The 24 chairs were 88 apiece."),
    ("What did the chairs cost?", "The chairs, 24 of them, come in August.", "The chairs, 24 of them, cost 88 apiece."),
    ("¿Cuánto costaron las sillas?", "Las 24 sillas llegan el 9 de agosto.", "Las 24 sillas costaron 890 cada una."),
    ("How much is the rent?", "The rent goes up in May.", "We pay 900 rent."),
]


@pytest.mark.parametrize(("question", "mentioned", "answer"), [*WHICH, *HOURS, *PRICES])
def test_only_what_says_so_is_an_answer(question: str, mentioned: str, answer: str) -> None:
    """Proves: CONF-3, OPEN-4."""
    assert label(question, mentioned) == "low"
    assert label(question, answer) != "low"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What car do I have?", "My car is a blue Volvo estate."),
        ("Which car broke down?", "Mum's car broke down."),
        ("Which bus do I take to work?", "I take the 42 bus to work."),
        ("Which medication does Dad take?", "Dad started a new medication, metoprolol."),
        ("Which restaurant did we love?", "We loved the restaurant by the harbour."),
        ("Which herb can't I stand?", "The herb I can't stand is coriander."),
        ("Welche Linie nehme ich?", "Ich nehme immer die Linie 7."),
        ("¿Qué coche tengo?", "Tengo un coche rojo."),
        ("¿A qué escuela va Lena?", "Lena va a la escuela del barrio."),
        ("Dans quelle école va Léa ?", "Léa va à l'école bilingue."),
        ("В какую школу ходит Лена?", "Лена ходит в школу рядом с домом."),
        ("Which school does Lena go to?", "Lena goes to the school next to the park."),
        ("Which school does Lena go to?", "Lena goes to a school. It's called Oakwood."),
        ("Welches Fahrrad habe ich gekauft?", "Ich habe ein Fahrrad gekauft, ein Klapprad."),
    ],
)
def test_a_modifier_an_owner_or_a_member_says_which(question: str, said: str) -> None:
    """Proves: CONF-3, OPEN-4."""
    assert label(question, said) != "low"


def test_the_next_turn_may_say_which() -> None:
    """Proves: CONF-3."""
    said = ["The team won last night!", "Bristol City, three nil."]
    with Memory() as memory:
        memory.add([{"role": "user", "content": text} for text in said], user_id="ada", conversation_id="c1")
        assert memory.recall("Which team won?", user_id="ada").confidence.label != "low"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What time does choir start?", "Choir starts seven thirty."),
        ("What time does choir start?", "Choir is 7-9."),
        ("What time does choir start?", "Choir is from seven to nine."),
        ("What time does choir start?", "Choir starts when school ends."),
        ("Um wie viel Uhr ist der Chor?", "Der Chor fängt sieben an."),
        ("¿A qué hora es el coro?", "El coro es a la una."),
        ("¿A qué hora es el coro?", "El coro es de siete a nueve."),
        ("À quelle heure est la chorale ?", "La chorale est en soirée."),
        ("Во сколько хор?", "Хор с семи до девяти."),
        ("Во сколько хор?", "Хор в полвосьмого."),
        ("合唱团几点开始？", "合唱团放学后开始。"),
        ("合唱团几点开始？", "合唱團七點半開始。"),
    ],
)
def test_an_hour_is_told_in_many_words(question: str, said: str) -> None:
    """Proves: CONF-3."""
    assert label(question, said) != "low"


@pytest.mark.parametrize("said", ["Our two kids sing in the choir.", "Choir has twenty members."])
def test_a_number_that_counts_is_no_hour(said: str) -> None:
    """Proves: CONF-3."""
    assert label("What time does choir start?", said) == "low"


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("How much is the rent?", "We pay 90 rent."),
        ("What did the 24 chairs cost?", "The 24 chairs were 24 apiece."),
        ("What did the chairs cost?", "That was 15, chairs included."),
        ("How much did I pay for 2 tickets?", "I paid 40 for 2 tickets."),
    ],
)
def test_a_number_that_counts_nothing_is_a_price(question: str, said: str) -> None:
    """Proves: CONF-3."""
    assert label(question, said) != "low"
