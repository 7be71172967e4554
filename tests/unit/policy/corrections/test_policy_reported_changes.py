"""Changes as people report them: whose they are, in how many sentences, and without a plain verb of change."""

from __future__ import annotations

import pytest

from recall_loop.policy.facts.corrections import question_terms, relevant_statements, surest_correction
from recall_loop.policy.facts.rarity import rarity_of
from recall_loop.policy.facts.wording import read_statements

EQUAL = rarity_of({}, 1)


def corrects(older, newer, question):
    """Why the newer text corrects the older one, as far as the question asks about it; None if it doesn't."""
    terms = question_terms(question)
    return surest_correction(relevant_statements(older, terms), newer, terms, EQUAL)


SENT_WORD = [
    ("The roofer comes on the 3rd", "The roofer texted, it'll be the 5th instead", "When does the roofer come?"),
    ("La fontanera viene el 12", "La fontanera ha escrito, al final el 14", "¿Cuándo viene la fontanera?"),
    ("Le plombier vient le 12", "Le plombier a appelé, finalement ce sera le 14", "Quand vient le plombier ?"),
    ("Сантехник придёт 12 числа", "Сантехник позвонил, теперь будет 14-го", "Когда придёт сантехник?"),
    ("Der Klempner kommt am 12.", "Der Klempner rief an, er kommt erst am 14. vorbei", "Wann kommt der Klempner?"),
]
TWO_SENTENCES = [
    (
        "The tuner is coming on Monday",
        "Tuner called in sick. She's coming on Thursday instead",
        "When is the tuner coming?",
    ),
    ("Der Stimmer kommt am Montag.", "Der Stimmer ist krank. Er kommt jetzt am Freitag.", "Wann kommt der Stimmer?"),
    ("L'accordeur passe lundi", "L'accordeur est malade. Il viendra plutôt jeudi", "Quand vient l'accordeur ?"),
    ("Мастер придёт в понедельник", "Мастер заболел. Он теперь придёт в четверг", "Когда придёт мастер?"),
]
NO_VERB_OF_CHANGE = [
    ("Membership is 30 euros a month", "From April membership is 36 euros", "How much is the membership?"),
    ("Абонемент стоит 2000 рублей", "С апреля абонемент стоит 2400 рублей", "Сколько стоит абонемент?"),
    ("网费每月99元", "从四月起网费每月119元", "网费每月多少钱？"),
    ("Das Paket kommt am Dienstag", "Das Paket kommt erst am Freitag, sagt DHL", "Wann kommt das Paket?"),
    ("The parcel comes on Tuesday", "The parcel won't come, not before Friday", "When does the parcel come?"),
    ("Die Kita-Gebühr liegt bei 210 Euro", "Die Kita-Gebühr klettert auf 240", "Wie hoch ist die Kita-Gebühr?"),
    ("I pay 500 a month in rent", "Rent rises to 540 from May", "How much rent do I pay?"),
]
IN_CLAUSES = [
    ("Wir fahren einen Golf", "Haben den Golf abgegeben, stattdessen steht da ein Zoe", "Was fahren wir?"),
    ("Der Beitrag im Verein ist 14", "Der Beitrag im Verein geht auf 16 hoch, Mail kam", "Wie hoch ist der Beitrag?"),
    (
        "Frisör Lia: 4. Mai, Salon Kraft",
        "Salon Kraft hat verschoben, Lia ist am 11. um drei dran",
        "Wann muss Lia zum Frisör?",
    ),
]
ONLY_WHOSE = [
    ("my cousin Lena is a midwife", "Lena moved in with her boyfriend in Graz", "What does my cousin do?"),
    ("mi primo Iker es carpintero", "Iker se ha mudado a un piso con su novia", "¿Qué oficio tiene mi primo?"),
    ("Onkel Bernd hat einen Dackel", "Bernd arbeitet jetzt als Gärtner", "Was für einen Hund hat Bernd?"),
    ("mon cousin Loïc joue de l'accordéon", "Loïc habite maintenant à Brest", "De quoi joue Loïc ?"),
]
ANOTHERS = [
    ("Ich wohne in Kassel", "Torben wohnt jetzt in Fulda", "Wo wohne ich?"),
    ("I work at the mill", "Torben works at the harbour now", "Where do I work?"),
    ("Yo trabajo en el puerto", "Iker trabaja ahora en Correos", "¿Dónde trabajo?"),
    ("Я работаю в порту", "Игорь теперь работает на почте", "Где я работаю?"),
]
ONLY_A_UNIT = [
    ("der Bus fährt um 7 Uhr 12", "Sport ist jetzt um 17 Uhr", "Wann fährt der Bus?"),
    ("Lunch is on the 4th at one", "Mum's coming on the 9th instead", "When is lunch?"),
    ("el dentista es a las 9 horas", "la gimnasia pasa a las 18 horas", "¿Cuándo es el dentista?"),
    ("обед с Ирой 4-го в час", "мама приедет теперь 9-го", "Когда обед с Ирой?"),
]


@pytest.mark.parametrize(("older", "newer", "question"), [*SENT_WORD, *TWO_SENTENCES, *NO_VERB_OF_CHANGE, *IN_CLAUSES])
def test_a_change_is_told_as_people_tell_it(older, newer, question):
    """Proves: LIVE-4."""
    assert corrects(older, newer, question) is not None


@pytest.mark.parametrize(("older", "newer", "question"), [*ONLY_WHOSE, *ANOTHERS, *ONLY_A_UNIT])
def test_a_name_a_verb_or_a_unit_in_common_is_no_matter_in_common(older, newer, question):
    """Proves: LIVE-4."""
    assert corrects(older, newer, question) is None


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("Our dog sleeps in the hall", "The dog barked. They say it's 20 below now", "Where does our dog sleep?"),
        ("Das Paket für Oma liegt im Flur", "Oma kommt erst am Freitag", "Wo liegt das Paket für Oma?"),
        ("Unsere Katze frisst nur Huhn", "Die Katze klettert auf den Schrank", "Was frisst unsere Katze?"),
        ("我的航班号是CA1501", "航班从北京起飞", "我的航班号是什么？"),
    ],
)
def test_what_goes_on_about_something_else_corrects_nothing(older, newer, question):
    """Proves: LIVE-4."""
    assert corrects(older, newer, question) is None


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("Ich wohne in Kassel", "Wohne jetzt in Fulda", "Wo wohne ich?"),
        ("my cousin Lena lives in Linz", "Lena moved to Graz", "Where does Lena live?"),
        ("Uncle Bernd is a baker in Ulm", "Bernd is now a baker in Trier", "Where is Bernd a baker?"),
    ],
)
def test_the_same_ones_change_still_corrects(older, newer, question):
    """Proves: LIVE-4."""
    assert corrects(older, newer, question) is not None


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("Yoga is 9 euros a session", "Yoga has gone up to 12", "How much is yoga?"),
        (
            "Mi madre toma el jarabe por la noche",
            "A mi madre le cambian el jarabe a la tarde",
            "¿Cuándo toma el jarabe?",
        ),
        (
            "Le cours de chant est le lundi",
            "Tu demandes pour le chant ? c'est le jeudi maintenant",
            "Quand est le chant ?",
        ),
        (
            "Los lunes canto en el coro",
            "¿Preguntas por el coro? ahora cantamos los viernes",
            "¿Qué día canto en el coro?",
        ),
        ("Le bus arrive à 9h", "Le bus n'arrive qu'à 11h", "Quand arrive le bus ?"),
    ],
)
def test_what_has_gone_up_is_not_gone_and_an_echo_opens_the_answer(older, newer, question):
    """Proves: LIVE-4."""
    assert corrects(older, newer, question) is not None


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("My wage is 2100", "The rent is now 780", "What is my wage?"),
        ("Mi sueldo es de 1700", "El alquiler es ahora de 640", "¿Cuál es mi sueldo?"),
        ("Mein Lohn ist 2300", "Die Miete ist jetzt 710", "Wie hoch ist mein Lohn?"),
        ("The pool is by the station", "The pool is open from Monday to Friday", "Where is the pool?"),
        ("The pool pass costs 60", "The pool is open from June to August", "How much is the pool pass?"),
        ("Das Café gehört Frau Brandl", "Das Café macht erst um zehn auf", "Wem gehört das Café?"),
        ("The roofer's name is Bob", "The roofer rang. He says it takes a week now", "What is the roofer's name?"),
        ("My uncle has three boats", "My uncle phoned.", "How many boats does my uncle have?"),
    ],
)
def test_another_price_another_time_or_a_mere_mention_corrects_nothing(older, newer, question):
    """Proves: LIVE-4."""
    assert corrects(older, newer, question) is None


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("The fridge is from Aldi", "The fridge is in the garage now", "Where is the fridge from?"),
        ("Der Kühlschrank ist ein Siemens", "Der Kühlschrank steht jetzt im Keller", "Was für ein Kühlschrank ist es?"),
        ("La nevera es una Bosch", "La nevera está ahora en el garaje", "¿De qué marca es la nevera?"),
        ("Le frigo est un Brandt", "Le frigo est maintenant à la cave", "De quelle marque est le frigo ?"),
        ("My barber is Mr Osei", "The barber moved my slot to Tuesday", "Who is my barber?"),
        ("Mein Friseur heißt Lutz", "Der Friseur hat mich auf Dienstag verschoben", "Wie heißt mein Friseur?"),
        ("The pool is on Church Lane", "The pool has gone up to 8 a visit", "Where is the pool?"),
        ("La piscine est rue de Metz", "La piscine coûte maintenant 8", "Où est la piscine ?"),
        ("Our lodger pays 420", "The lodger now has a moustache", "How much does our lodger pay?"),
    ],
)
def test_what_is_told_of_another_kind_corrects_nothing(older, newer, question):
    """A brand is no place, a place no price. Proves: LIVE-4."""
    assert corrects(older, newer, question) is None


@pytest.mark.parametrize(
    ("older", "newer", "question"),
    [
        ("The fridge is in the kitchen", "The fridge is in the garage now", "Where is the fridge?"),
        ("Der Schirm hängt bei der Tür", "Der Schirm steht jetzt im Flur", "Wo ist der Schirm?"),
        ("The lodger pays 420", "The lodger pays 450 now", "How much does the lodger pay?"),
        ("The dog walker charges 12", "Dog walker wants 14 from now on", "How much does the dog walker charge?"),
        ("The parcel comes tomorrow", "The parcel comes on Friday now", "When does the parcel come?"),
    ],
)
def test_what_is_told_of_the_same_kind_still_corrects(older, newer, question):
    """Proves: LIVE-4."""
    assert corrects(older, newer, question) is not None


@pytest.mark.parametrize(
    "text",
    [
        "la pastilla de menta está en casa",
        "ceno a las nueve con Marta",
        "mi vecino es vendedor en un bazar",
        "mon voisin chante vendredi à Metz",
        "la partie de cartes est chez nous",
        "моя смена по вторникам",
        "сосед работает продавцом",
    ],
)
def test_a_word_that_begins_like_a_verb_of_change_is_none(text):
    """Proves: LIVE-4."""
    assert all(not statement.marks for statement in read_statements(text))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Sie kommt am 9. um zehn. Bis dann!", ["Sie kommt am 9. um zehn.", "Bis dann!"]),
        ("offen vom 11. bis zum 25. jeden Tag", ["offen vom 11. bis zum 25. jeden Tag"]),
        ("it cost 20. been a long day", ["it cost 20.", "been a long day"]),
    ],
)
def test_a_sentence_goes_on_behind_the_ordinal_of_a_day(text, sentences):
    """Proves: LIVE-4."""
    assert [statement.text for statement in read_statements(text)] == sentences
