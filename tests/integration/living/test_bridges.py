"""Answers that lie one record further: only a bridge leads to them. Proves: QUERY-4."""

from __future__ import annotations

from itertools import product

import pytest

from recall_loop.graph.builder import build_graph
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.run_context import DEFAULT_RETRIEVAL_PARTS, RetrievalParts
from recall_loop.policy.planning.round_plan import PlanningParts
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import QuerySource

# Each: the question, the record that it names, and the one that only the first leads to.
CHAINS = [
    (
        "Where was the director of the film Blue Horse born?",
        ("Blue Horse", "Blue Horse is a film from 1987 directed by Anna Kowalska."),
        ("Anna Kowalska", "Anna Kowalska grew up in Lodz, where her parents had come from before she was born."),
    ),
    (
        "Which trade did the brother of the composer Tilda Vance learn?",
        ("Tilda Vance", "The composer Tilda Vance kept house with her brother Rupert Hale."),
        ("Rupert Hale", "Rupert Hale became a saddler when he was fifteen."),
    ),
    (
        "Which instrument does the founder of the choir Larkhill play?",
        ("Larkhill", "The choir Larkhill goes back to Edda Stromgren, who founded it in a barn."),
        ("Edda Stromgren", "Edda Stromgren plays the nyckelharpa and repairs clocks."),
    ),
]
_PEOPLE = (
    "Jonas Weir",
    "Mira Sandoval",
    "Otto Kranz",
    "Lena Fisk",
    "Pavel Duda",
    "Ruth Adeyemi",
    "Ines Tavares",
    "Bo Lind",
)
_LIVES = (
    "was born in {place} and directed films there",
    "plays the piano in a choir of {place}",
    "was born near a river and founded an office in {place}",
    "directed a choir in {place}, past the river",
)
_PLACES = ("Graz", "Malmo", "Porto", "Turku")
OTHERS = [
    (f"{person} of {place}", f"{person} {life.format(place=place)}.")
    for person, (life, place) in product(_PEOPLE, zip(_LIVES, _PLACES, strict=True))
]
WITHOUT = RetrievalParts(PlanningParts(bridges=lambda *_: []))


@pytest.fixture(scope="module")
def store():
    """Return the chains among passages on the same matters."""
    passages = [*OTHERS, *(passage for _, *chain in CHAINS for passage in chain)]
    with MemoryStore.in_memory() as filled:
        filled.upsert(
            {"id": f"p{at}", "kind": "archival", "label": label, "text": text}
            for at, (label, text) in enumerate(passages)
        )
        yield filled


def places(store, asked, text, parts=DEFAULT_RETRIEVAL_PARTS):
    """Return the place of a text in the result, from 1, and the sources of the queries that found it.

    What isn't found has the place behind the last.
    """
    graph = build_graph(store, settings=Settings(), output="state", parts=parts)
    facts = graph.invoke({"messages": [("user", asked)], "debug": True})["facts"]
    found = ((at, fact["debug"]["matches"]) for at, fact in enumerate(facts, 1) if fact["text"] == text)
    at, matches = next(found, (len(facts) + 1, ()))
    return at, {match["source"] for match in matches}


@pytest.mark.parametrize(("asked", "seed", "answer"), CHAINS)
def test_a_bridge_brings_the_second_record_to_the_top(store, asked, seed, answer):
    """The record that only the first one names is among the best three, and wasn't without bridges."""
    found, sources = places(store, asked, answer[1])
    without, _ = places(store, asked, answer[1], WITHOUT)
    assert found <= 3
    assert QuerySource.FEEDBACK in sources
    assert without > 3
