"""Writing facts so that a newer one supersedes what it contradicts.

    write_facts(store, [{"id": "f2", "text": "Ada lives in Bergen.", "subject": "Ada", "fact_type": "lives_in",
                         "object": "Bergen"}], single_valued=["lives_in"])

`MemoryStore.upsert` writes what it is given and nothing else. This looks at the other facts of the same slot first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.encoding.indexing import supersession_key
from recall_loop.policy.facts.supersession import supersession_changes
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import Fact, Record
from recall_loop.state.scope import DEFAULT_TENANT
from recall_loop.text.words.keys import normalise

if TYPE_CHECKING:
    from recall_loop.memory.store.sqlite.prepared_records import WriteOutcome
    from recall_loop.memory.store.store import MemoryStore


@dataclass(frozen=True, slots=True)
class FactWriteResult:
    """What became of facts: the outcome of each, in their order, and the ids of older ones that are now superseded."""

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
    """Write facts; where a type is single-valued, end the older facts that they contradict.

    Two facts contradict each other if they have the same owners (agent, group, user), the same subject and fact type
    in normalised form, another object (another text, where there is none), and the type is single-valued. The older
    one, by `created_at`, then `position`, gets `superseded_by` and `valid_until`; nothing is deleted. A fact that is
    older than what is known is superseded at once. Facts of any other type stand beside each other.

    Args:
        store: the store, open for writing.
        facts: facts; without a `created_at` they are of now.
        tenant: whose they are.
        single_valued: fact types that have one value at a time; `Lives in` and `lives_in` are one type.
        single_ids: ids of those of `facts` whose slot has one value at a time, whatever the type.
        along: other records that are written in the same transaction (with up to 1,000 records in all).

    Raises:
        InvalidInputError: a fact isn't valid; nothing was written.
        StoreUnavailableError: the store fails.
        StoreReadOnlyError: the store is open for reading only.
    """
    if isinstance(single_valued, str):
        raise InvalidInputError("single_valued", single_valued, "a list of fact types")
    now = datetime.now(UTC)
    given = [_with_created_at(_parse_fact(fact, f"facts.{at}"), now) for at, fact in enumerate(facts)]
    types = {normalise(name) for name in single_valued}
    with store.exclusive():
        final = {fact.id: fact for fact in given}
        older = _apply_supersession(store, tenant, final, types, single_ids)
        outcomes = store.upsert([*final.values(), *older, *along], tenant=tenant)
    places = {record_id: at for at, record_id in enumerate(final)}
    return FactWriteResult(
        tuple(outcomes[places[fact.id]] for fact in given), tuple(fact.id for fact in older if fact.superseded_by)
    )


def _parse_fact(fact: Fact | Mapping[str, Any], where: str) -> Fact:
    if isinstance(fact, Fact):
        return fact
    if not isinstance(fact, Mapping):
        raise InvalidInputError("facts", fact, "facts, or mappings with their fields")
    return validate_model(Fact, fact, where)


def _with_created_at(fact: Fact, now: datetime) -> Fact:
    return fact if fact.created_at is not None else fact.model_copy(update={"created_at": now})


def _apply_supersession(
    store: MemoryStore, tenant: str, final: dict[str, Fact], types: Collection[str], single_ids: Collection[str]
) -> list[Fact]:
    """Put the ends of new facts into `final`, and return the older ones that have to change."""
    single = [fact for fact in final.values() if fact.id in single_ids or normalise(fact.fact_type or "") in types]
    places = {fact.id: supersession_key(fact) for fact in single}
    slots = {place for place in places.values() if place is not None}
    known = store.facts_by_key(tenant, slots) if slots else {}
    older: list[Fact] = []
    for place in sorted(slots):
        here = [fact for fact in known.get(place, []) if fact.id not in final]
        new = [fact for fact in final.values() if places.get(fact.id) == place]
        for fact in supersession_changes([*here, *new]):
            if fact.id in final:
                final[fact.id] = fact
            else:
                older.append(fact)
    return older
