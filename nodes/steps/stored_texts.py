"""Texts that the result needs from the store besides the pool: sources not found by the loop, and full long texts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.evidence.evidence_folding import attach_sources, unread_source_ids
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.state.errors import StoreError
from recall_loop.state.records.records import Record
from recall_loop.telemetry.logs import log_failure
from recall_loop.text.words.passages import READ_CHARACTERS

_log = logging.getLogger(__name__)


def read_sources(ranked: Sequence[RankedEntry], run: RunContext) -> list[RankedEntry]:
    """Read the sources of the returned facts that the loop didn't find, as far as the scope allows."""
    found = _read(unread_source_ids(ranked), run)
    records = {record.id: record.model_dump(mode="json", exclude={"attributes", "blocks"}) for record in found}
    return attach_sources(ranked, records, run.terms)


def with_full_texts(ranked: Sequence[RankedEntry], run: RunContext) -> list[RankedEntry]:
    """Return the entries with their full texts; of long ones the pool has only a passage (SEARCH-8).

    An entry that has been deleted since, or can't be read, keeps its passage.
    """
    cut = [item.id for item in ranked if len(item.entry["record"]["text"]) == READ_CHARACTERS]
    # In a resumed run, texts found before are read once more.
    missing = [name for name in cut if name not in run.long_texts]
    texts = run.long_texts | {record.id: record.text for record in _read(missing, run)}
    return [_with_text(item, texts[item.id]) if item.id in texts else item for item in ranked]


def _with_text(item: RankedEntry, text: str) -> RankedEntry:
    return replace(item, entry={**item.entry, "record": {**item.entry["record"], "text": text}})


def _read(ids: Sequence[str], run: RunContext) -> Sequence[Record]:
    try:
        return run.store.get(ids, scope=run.scope) if ids else ()
    except StoreError as error:
        log_failure(_log, "records not read", error)
        return ()
