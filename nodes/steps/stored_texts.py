"""What the result needs besides the pool: sources that the loop didn't find, full long texts, and tags."""

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


def with_stored_parts(ranked: Sequence[RankedEntry], run: RunContext) -> list[RankedEntry]:
    """Return the entries with their tags, which the pool leaves out, and in full where it has a passage (SEARCH-8).

    An entry that has been deleted since, or can't be read, keeps its passage, and has no tags.
    """
    cut = {item.id for item in ranked if len(item.entry["record"]["text"]) == READ_CHARACTERS}
    # In a resumed run, what was found before is read once more.
    missing = [item.id for item in ranked if item.id not in run.tags or item.id in cut - run.long_texts.keys()]
    read = _read(missing, run)
    texts = run.long_texts | {record.id: record.text for record in read if record.id in cut}
    tags = run.tags | {record.id: record.tags for record in read}
    return [_with_parts(item, texts.get(item.id), tags.get(item.id, ())) for item in ranked]


def _with_parts(item: RankedEntry, text: str | None, tags: Sequence[str]) -> RankedEntry:
    parts = {"tags": list(tags)} | ({} if text is None else {"text": text})
    return replace(item, entry={**item.entry, "record": {**item.entry["record"], **parts}})


def _read(ids: Sequence[str], run: RunContext) -> Sequence[Record]:
    try:
        return run.store.get(ids, scope=run.scope) if ids else ()
    except StoreError as error:
        log_failure(_log, "records not read", error)
        return ()
