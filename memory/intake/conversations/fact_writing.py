"""Writing facts so that a newer one supersedes what it contradicts.

    write_facts(store, [{"id": "f2", "text": "Ada lives in Bergen.", "subject": "Ada", "fact_type": "lives_in",
                         "object": "Bergen"}], single_valued=["lives_in"])

`MemoryStore.upsert` writes what it is given and nothing else. This looks first at the other facts of the same owners,
subject and type.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.encoding.derivation import derive_id
from recall_loop.memory.store.encoding.indexing import supersession_key
from recall_loop.policy.facts.supersession import supersession_changes
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import Fact, Record
from recall_loop.state.scope import DEFAULT_TENANT
from recall_loop.state.types import is_to_come
from recall_loop.text.words.folding import normalise

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore
    from recall_loop.memory.store.tables.prepared_records import WriteOutcome


@dataclass(frozen=True, slots=True)
class FactWriteResult:
    """The outcome of each fact, in order, and the ids of older facts that are now superseded."""

    outcomes: tuple[WriteOutcome, ...] = ()
    superseded: tuple[str, ...] = ()


def write_facts(
    store: MemoryStore,
    facts: Iterable[Fact | Mapping[str, Any]],
    *,
    tenant: str = DEFAULT_TENANT,
    single_valued: Collection[str] = (),
    single_ids: Collection[str] = (),
    along: Iterable[Record] = (),
) -> FactWriteResult:
    """Write facts; if a type is single-valued, supersede the older facts that they contradict.

    Two facts contradict each other if they have the same owners (agent, group, user), the same subject and fact type
    in normalised form, another object (another text, where there is none), and the type is single-valued. The older
    one, by `created_at`, then `position`, gets `superseded_by` and `valid_until`; nothing is deleted. A fact that is
    older than the known one is superseded immediately. Facts of other types coexist.

    Args:
        store: the store, open for writing.
        facts: facts; without a `created_at`, or with one more than a day in the future, the current time is used.
        tenant: whose they are.
        single_valued: fact types that have one value at a time; `Lives in` and `lives_in` are one type.
        single_ids: ids of those of `facts` that have one value at a time, whatever their type.
        along: other records that are written in the same transaction (with up to 1,000 records in all).

    Raises:
        InvalidInputError: a fact isn't valid; nothing was written.
        StoreUnavailableError: the store fails.
        StoreReadOnlyError: the store is open for reading only.
    """
    if isinstance(single_valued, str):
        raise InvalidInputError("single_valued", single_valued, "a list of fact types")
    now = datetime.now(UTC)
    given = [_parse_fact(fact, f"facts.{at}", now) for at, fact in enumerate(facts)]
    types = {normalise(name) for name in single_valued}
    with store.exclusive(tenant):
        new = {fact.id: fact for fact in given}
        single = [fact for fact in new.values() if fact.id in single_ids or normalise(fact.fact_type or "") in types]
        older = _apply_supersession(store, tenant, new, single, now)
        outcomes = dict(zip(new, store.upsert([*new.values(), *older, *along], tenant=tenant), strict=False))
    superseded = tuple(fact.id for fact in older if fact.superseded_by)
    return FactWriteResult(tuple(outcomes[fact.id] for fact in given), superseded)


def _parse_fact(fact: Fact | Mapping[str, Any], where: str, now: datetime) -> Fact:
    if not isinstance(fact, Mapping | Fact):
        raise InvalidInputError("facts", fact, "facts, or mappings with their fields")
    parsed = fact if isinstance(fact, Fact) else validate_model(Fact, {"id": derive_id(), **fact}, where)
    unknown = parsed.created_at is None or is_to_come(parsed.created_at, now)
    return parsed.model_copy(update={"created_at": now}) if unknown else parsed


def _apply_supersession(
    store: MemoryStore, tenant: str, new: dict[str, Fact], single: Sequence[Fact], now: datetime
) -> list[Fact]:
    """Put the ends of new single-valued facts into `new`, and return the older facts that have to change."""
    by_key: dict[str, list[Fact]] = {}
    for fact in single:
        if (key := supersession_key(fact)) is not None:
            by_key.setdefault(key, []).append(fact)
    known = store.facts_by_key(tenant, by_key) if by_key else {}
    older: list[Fact] = []
    for key, facts in sorted(by_key.items()):
        others = [fact for fact in known.get(key, []) if fact.id not in new]
        for fact in supersession_changes([*others, *facts], now):
            if fact.id in new:
                new[fact.id] = fact
            else:
                older.append(fact)
    return older
