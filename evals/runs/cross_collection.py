"""Questions of one collection asked of another, which holds nothing on them: plainly unanswerable (CONF-4)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.datasets.questions import LabelledQuestion
from recall_loop.state.errors import InvalidInputError

CROSS_COLLECTION = "foreign"


def with_cross_collection_questions(dataset: Dataset, count: int, seed: int = 0) -> Dataset:
    """Return a data set each of whose collections is also asked `count` questions of the next one.

    They are drawn with `seed` from those that can be scored, count as unanswerable, and have the category "foreign".

    Raises:
        InvalidInputError: there is only one collection, so that no question is foreign anywhere.
    """
    names = list(dataset.collections)
    if len(names) < 2:
        raise InvalidInputError("foreign", count, "a data set of two collections or more")
    return replace(dataset, questions=[*dataset.questions, *_foreign(dataset, names, count, random.Random(seed))])


def _foreign(dataset: Dataset, names: list[str], count: int, draw: random.Random) -> Iterator[LabelledQuestion]:
    for asked, other in zip(names, [*names[1:], names[0]], strict=True):
        known = [question for question in dataset.questions if question.collection == other and question.scored]
        for question in draw.sample(known, min(count, len(known))):
            yield LabelledQuestion(
                id=f"{asked}:{CROSS_COLLECTION}:{question.id}",
                collection=asked,
                question=question.question,
                category=CROSS_COLLECTION,
                answerable=False,
            )
