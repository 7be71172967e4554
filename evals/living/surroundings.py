"""What lies around a life in its tenant: talk and facts about other matters, generated or from a data set (LIVE-8)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from random import Random

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.living.grammar import FillerGrammar, draw_values, fill, load_grammar
from recall_loop.evals.living.life import ASKED_AT, FIRST_DAY, USER, Around
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import Fact, Message, Record
from recall_loop.state.types import Role

_FIRST = FIRST_DAY - timedelta(days=90)
_SPAN = ASKED_AT - timedelta(days=3) - _FIRST
_OTHERS = tuple(f"user-{number}" for number in range(3, 11))
_OWN_SHARE = 0.6
_TURNS = 8
_SPOKEN = (("statements", Role.USER), ("questions", Role.USER), ("replies", Role.ASSISTANT), ("thanks", Role.USER))
_WEIGHTS = (55, 15, 20, 10)


def surroundings(
    language: str, around: Around, count: int, seed: int = 0, dataset: Dataset | None = None
) -> Iterator[Record]:
    """Yield `count` records, the first ones the same for every count; their times are spread over a lifetime.

    The messages of a data set are taken in order and in place of generated ones, with times of their own; one that has
    fewer raises `InvalidInputError`.
    """
    if around is Around.FACTS:
        yield from islice(_facts(language, seed), count)
    elif dataset is None:
        yield from islice(_messages(language, seed), count)
    else:
        yield from _from_dataset(dataset, count)


def _messages(language: str, seed: int) -> Iterator[Record]:
    filler, draw = load_grammar(language).filler, Random(f"{seed} around {language}")
    number = 0
    while True:
        user = USER if draw.random() < _OWN_SHARE else draw.choice(_OTHERS)
        place, start = f"around:{number}", _FIRST + draw.random() * _SPAN
        for turn in range(draw.randrange(2, _TURNS)):
            name, role = draw.choices(_SPOKEN, _WEIGHTS)[0]
            yield Message(
                id=f"around:{number}",
                text=_sentence(filler, name, draw),
                role=role,
                user_id=user,
                conversation_id=place,
                session=place,
                created_at=start + timedelta(minutes=turn),
            )
            number += 1


def _facts(language: str, seed: int) -> Iterator[Record]:
    filler, draw = load_grammar(language).filler, Random(f"{seed} facts around {language}")
    number = 0
    while True:
        text = _sentence(filler, "statements", draw)
        made = _FIRST + draw.random() * _SPAN
        yield Fact(id=f"around:{number}", text=text, user_id=draw.choice((USER, *_OTHERS)), created_at=made)
        number += 1


def _sentence(filler: FillerGrammar, name: str, draw: Random) -> str:
    return fill(draw.choice(getattr(filler, name)), draw_values(filler.words, draw))


def _from_dataset(dataset: Dataset, count: int) -> Iterator[Record]:
    """Yield a data set's records with other ids and times; those of a session stay together."""
    records = ((name, record) for name, pool in dataset.collections.items() for record in pool)
    number = -1
    for number, (name, record) in enumerate(islice(records, count)):
        start = _FIRST + Random(f"{name} {record.session}").random() * _SPAN
        moved = {
            "id": f"around:{number}",
            "user_id": f"around:{name}",
            "conversation_id": f"around:{name}",
            "created_at": start + timedelta(seconds=number % 10_000),
        }
        yield record.model_copy(update=moved)
    if number + 1 < count:
        raise InvalidInputError("sizes", count, f"at most the {number + 1} records of the data set around")
