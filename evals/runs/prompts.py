"""The prompts of an evaluation: the chosen questions of a data set, as requests with their labels (OPS-4)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from recall_loop.evals.datasets.dataset_parts import Dataset, LabelledQuestion
from recall_loop.evals.measures.quality_metrics import all_at_k
from recall_loop.evals.runs.dataset_ingest import CROSS_COLLECTION
from recall_loop.state.errors import NOTHING, InvalidInputError
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.settings.settings import Settings

COMPLETE_CUT = 10
UNLABELLED = "uncategorised"
_T = TypeVar("_T")
MAX_FACTS = 1000
_FIXED_SETTINGS = {
    "max_facts": "left out: the largest K decides it",
    "store_path": "left out: the folder is an argument of its own",
    "tenant": "left out: every collection is a tenant",
}


@dataclass(frozen=True)
class EvalOptions:
    """Which questions are asked, and how many results count.

    Attributes:
        ks: cutoffs of recall and all, each 1–1000, ascending; the largest is the request's `max_facts`.
        categories: only questions of these categories; None = all.
        limit: ask at most this many questions, drawn with `seed`; None = all.
        seed: seed of that draw. Nothing else is random.
        unscored: also ask questions that are unanswerable or have no gold. They count for iterations,
            stop reasons and latency, never for recall.
    """

    ks: tuple[int, ...] = (5, 10, 20)
    categories: tuple[str, ...] | None = None
    limit: int | None = None
    seed: int = 0
    unscored: bool = False

    def __post_init__(self) -> None:
        """Refuse values out of range with `InvalidInputError`."""
        if not self.ks or any(not 1 <= k <= MAX_FACTS for k in self.ks):
            raise InvalidInputError("k", self.ks, f"whole numbers from 1 to {MAX_FACTS}")
        if self.limit is not None and self.limit < 1:
            raise InvalidInputError("limit", self.limit, "a whole number of 1 or more")
        object.__setattr__(self, "ks", tuple(sorted(set(self.ks))))


@dataclass(frozen=True)
class ReplayPrompt:
    """One request and its labels: gold ids, none where nobody said, and the category that figures are grouped by.

    `answerable` is whether memory holds the answer; None where nobody said. `groups` are sets of ids that each hold one
    part of the answer; an id outside of all is a part of its own. `before` is the last record that its tenant holds
    when it is asked; None = all of them.
    """

    request: RetrieveRequest
    gold: tuple[str, ...] = ()
    answerable: bool | None = None
    category: str = UNLABELLED
    groups: tuple[tuple[str, ...], ...] = ()
    before: str | None = None

    def counted(self, ids: Sequence[str]) -> list[str]:
        """Return the parts that ids hold, in rank order, without duplicates; each of several takes a rank."""
        parts: dict[str, list[str]] = {}
        for group in self.groups:
            for name in group:
                parts.setdefault(name, []).append("\0".join(group))  # no id contains it
        return list(dict.fromkeys(part for name in ids for part in parts.get(name, [name])))

    @property
    def scored(self) -> bool:
        """Whether it counts for retrieval metrics."""
        return bool(self.gold) and self.answerable is not False

    def complete(self, ids: Sequence[str]) -> bool | None:
        """Return whether all gold is in the first ten of `ids`, the event of confidence (CONF-4); None if unknown."""
        if self.answerable is False:
            return False
        return bool(all_at_k(self.counted(ids), self.counted(self.gold), COMPLETE_CUT)) if self.gold else None


def settings_with(overrides: Iterable[str]) -> Settings:
    """Return the settings of the environment, overridden by `name=value` pairs.

    Raises:
        InvalidInputError: a pair without `=`, an unknown name, a value out of its range, or a setting
            that an evaluation fixes by other means.
    """
    values: dict[str, str] = {}
    for pair in overrides:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise InvalidInputError("set", pair, "name=value, such as max_iterations=1")
        if name.strip() in _FIXED_SETTINGS:
            raise InvalidInputError("set", pair, _FIXED_SETTINGS[name.strip()])
        values[name.strip()] = value.strip()
    return Settings(**values)


def changed_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that differ from their defaults, as JSON-able values, without secrets."""
    secrets = {name for name, field in Settings.model_fields.items() if not field.repr}
    return settings.model_dump(mode="json", exclude_defaults=True, exclude=secrets)


def select_questions(dataset: Dataset, options: EvalOptions) -> list[LabelledQuestion]:
    """Return the questions to ask, in the order of the data set.

    Those of another collection, which are there only if they were asked for, are of every choice of categories. Raises
    `InvalidInputError` for a category that no question has, and where nothing is left to ask.
    """
    if not dataset.questions:
        raise InvalidInputError("questions", NOTHING, "a data set with at least one question")
    known = {question.category for question in dataset.questions}
    wanted = known if options.categories is None else set(options.categories)
    if wanted - known:
        raise InvalidInputError("categories", sorted(wanted - known), f"some of {sorted(known)}")
    chosen = [
        question
        for question in dataset.questions
        if question.category in (*wanted, CROSS_COLLECTION) and (question.scored or options.unscored)
    ]
    if not chosen:
        allowed = "some with answerable questions that have gold; --unscored asks the others too"
        raise InvalidInputError("categories", sorted(wanted), allowed)
    return draw_sample(chosen, options.limit, options.seed)


def prompts_from_dataset(dataset: Dataset, options: EvalOptions) -> list[ReplayPrompt]:
    """Return the questions that `select_questions` gives, as requests to the tenant of their collection."""
    searched = {"content_types": dataset.content_types} if dataset.content_types else {}
    return [
        ReplayPrompt(
            RetrieveRequest(
                id=question.id,
                messages=(ChatMessage(content=question.question),),
                tenant=question.collection,
                reference_time=question.reference_time,
                max_facts=options.ks[-1],
                **searched,
            ),
            question.gold,
            question.answerable,
            question.category,
            question.gold_groups,
            question.before,
        )
        for question in select_questions(dataset, options)
    ]


def asked_collections(prompts: Iterable[ReplayPrompt]) -> list[str]:
    """Return the collections that prompts ask, each once: the tenants of their requests."""
    return list(dict.fromkeys(prompt.request.tenant for prompt in prompts))


def draw_sample(items: Sequence[_T], limit: int | None, seed: int) -> list[_T]:
    """Return `limit` items drawn with `seed`, in their order; all where `limit` is None or not below their number."""
    if limit is None or limit >= len(items):
        return list(items)
    chosen = sorted(random.Random(seed).sample(range(len(items)), limit))
    return [items[at] for at in chosen]
