"""A relation that is told in other words than it is asked in, among other records. Proves: STOP-5, STOP-2, CONF-3."""

from __future__ import annotations

from itertools import product

import pytest

from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.types import ConfidenceLabel, StopReason

_THINGS = ("ferry", "bakery", "choir", "library", "school bus", "harbour", "cinema", "orchard", "tram", "museum")
_DOINGS = ("was late on Monday", "opens at seven", "got a new door", "closes in July", "needs volunteers")
OTHERS = [f"The {thing} {doing}." for thing, doing in product(_THINGS, _DOINGS)]
RELATIONS = [
    ("Who owns the granary on Saaremaa?", "The granary on Saaremaa belongs to Aino Tamm."),
    ("Who is the owner of the sloop Hiiu?", "The sloop Hiiu belongs to Raivo Pukk."),
    ("Who employs Leelo Mets?", "Leelo Mets works at the dairy in Paide."),
    ("Who does Marek Kask work for?", "Marek Kask is employed by Nordkalk."),
    ("Who runs the sailing club?", "The sailing club is headed by Urmas Lepp."),
    ("Who teaches Oskar the violin?", "Oskar takes violin lessons from Reet Palm."),
    ("Who looks after the lighthouse on Keri?", "The lighthouse on Keri is tended by Peeter Saar."),
    ("Who is the boss of Liina Roos?", "Liina Roos reports to Tarmo Vaher."),
    ("Who pays for the music school?", "The music school is funded by Anu Lind."),
    ("Who sold the barn to Juhan Oja?", "Juhan Oja bought the old barn behind the mill from Endel Laas."),
    ("Who studies Geology in Turku?", "Anu Leht is a student of Geology in Turku."),
    ("Who lent Mihkel Rand the tractor?", "Mihkel Rand borrowed the tractor from Kalle Tooming."),
    ("Who is the landlord of Piret Sild?", "Piret Sild rents a flat from Heino Kuru."),
    ("Who cares for the bees on Abruka?", "The bees on Abruka are looked after by Evald Nurm."),
]
FROM_NOBODY = [
    "Who sold the cart to Mart Kuusk?",
    "Who looks after the windmill on Muhu?",
    "Who is the boss of Ene Pihl?",
]
NEVER_TOLD = [
    "Who owns the sawmill on Vormsi?",
    "Who does Helvi Org work for?",
    "Who runs the chess club?",
    *FROM_NOBODY,
]
IRREGULAR = [
    ("Wo schläft Nele?", "Ich schlafe im Wohnwagen am See."),
    ("Was verträgt Nele nicht?", "Ich vertrage keine Nüsse."),
    ("Wann wäscht Nele?", "Ich wasche mittwochs die Vorhänge."),
    ("Welches Rad fährt Nele?", "Ich fahre ein grünes Rad."),
]


@pytest.fixture(scope="module")
def store():
    """Return a store of fifty other records and the relations, as messages."""
    texts = [*OTHERS, *(told for _, told in RELATIONS)]
    with MemoryStore.in_memory() as filled:
        filled.upsert(
            {"id": f"m{at}", "kind": "message", "text": text, "conversation_id": f"c{at}"}
            for at, text in enumerate(texts)
        )
        yield filled


@pytest.mark.parametrize(("asked", "told"), RELATIONS)
def test_what_was_told_in_other_words_is_covered(store, asked, told):
    """The fact comes first, the run stops because it is covered, and the label isn't low."""
    result = retrieve(asked, store=store)
    assert result.facts[0].text == told
    assert result.metadata["coverage"] == 1.0
    assert result.stop.reason is StopReason.COVERED
    assert result.confidence.label is not ConfidenceLabel.LOW


@pytest.mark.parametrize("asked", NEVER_TOLD)
def test_what_was_never_told_is_not(store, asked):
    """The same relation of something else covers nothing whole, and is never high."""
    result = retrieve(asked, store=store)
    assert result.stop.reason is not StopReason.COVERED
    assert result.confidence.label is not ConfidenceLabel.HIGH


@pytest.mark.parametrize(
    ("other", "told", "asked", "reply"),
    [
        ("My goat is called Pip.", "My hen is Dot.", "What is my hen called?", "Noted."),
        ("Meine Ziege heißt Pip.", "Mein Huhn ist Dot.", "Wie heißt mein Huhn?", "Notiert."),
        ("Mi cabra se llama Pip.", "Mi gallina es Dot.", "¿Cómo se llama mi gallina?", "Anotado."),
        ("Ma chèvre s'appelle Pip.", "Ma poule, c'est Dot.", "Comment s'appelle ma poule ?", "Noté."),
        ("Мою козу зовут Пип.", "Моя курица — Дот.", "Как зовут мою курицу?", "Записал."),
    ],
)
def test_who_asks_for_a_name_asks_for_the_thing(other, told, asked, reply):
    """What has the verb of the question isn't the answer. Proves: QUERY-3, OPEN-4."""
    turns = [("user", other), ("assistant", reply), ("user", told), ("assistant", reply)]
    with MemoryStore.in_memory() as filled:
        filled.upsert(
            {"id": f"t{at}", "kind": "message", "role": role, "text": text, "conversation_id": "c", "position": at}
            for at, (role, text) in enumerate(turns)
        )
        assert retrieve(asked, store=filled).facts[0].text == told


@pytest.mark.parametrize(("asked", "told"), IRREGULAR)
def test_irregular_forms_are_of_one_verb(asked, told):
    """A note in the first person, asked for in the third. Proves: OPEN-4."""
    others = ["Die Heizung kostet 90 Euro.", "Am Sonntag ist der Lauf um zehn.", "Mein Onkel kommt aus Linz."]
    notes = [*others, *(text for _, text in IRREGULAR)]
    with MemoryStore.in_memory() as filled:
        filled.upsert(
            {"id": f"n{at}", "kind": "message", "role": "user", "author": "Nele", "text": text, "conversation_id": "c"}
            for at, text in enumerate(notes)
        )
        result = retrieve(asked, store=filled)
    assert result.facts[0].text == told and result.metadata["coverage"] == 1.0


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("Which herb can't I stand?", "Coriander tastes like soap to me."),
        ("What sport does Nina do?", "Nina trains karate with her cousins."),
        ("Which body part did I hurt?", "I sprained my ankle on the stairs."),
    ],
)
def test_a_thing_of_the_asked_kind_tells_it(asked, told):
    """Nobody need say that coriander is a herb. Proves: STOP-5, CONF-3."""
    with MemoryStore.in_memory() as filled:
        filled.upsert([{"kind": "message", "role": "user", "text": told}])
        assert retrieve(asked, store=filled).confidence.label is not ConfidenceLabel.LOW
