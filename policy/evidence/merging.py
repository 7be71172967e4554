"""The evidence pool: every fact found in any iteration, once (RANK-1, RANK-2).

A pool entry is identified by its fact key. When another query or iteration finds the fact again, the entry gains a
match; when another source says it, the entry gains evidence. An entry's `relevance` is the best credit that any of its
queries gave it, and its `similarity` likewise. A query for a member of a list finds only records that name it.

Credit: a hit of an ordinary query gets its score and its similarity times the query's weight. A hit of a bridge counts
only if it names the bridge's entity. It then gets 0.95 of its seed's relevance, times its share of the best score in
that query, divided by the fourth root of its rank, and 0.9 of that if it has none of the missing words. The record
whose label is the entity is about that entity: it takes the first rank, and its score counts 1.3 times, though never
more than the best. So a bridge leads to a rank below its seed, never above it; and a chain is as strong as its weakest
link: its similarity is at most the seed's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from recall_loop.policy.evidence.pool_entries import entry_terms, entry_window_terms, fact_key
from recall_loop.state.records.records import Record, SearchHit
from recall_loop.state.run.state_entries import PlannedQuery, PoolEntry, QueryMatch
from recall_loop.state.types import QuerySource
from recall_loop.text.words.passages import READ_CHARACTERS, passage
from recall_loop.text.words.snippets import best_snippet
from recall_loop.text.words.tokens import stem_set, stems, text_language

BRIDGE_SHARE = 0.95
BRIDGE_DECAY = 0.25
BRIDGE_NOTHING_MISSING = 0.9
BRIDGE_LABEL_BONUS = 1.3
BRIDGE_DEPTH = 3
MAX_EVIDENCE = 20
# From this weight on a query is the question itself, or one of its parts.
WHOLE_QUESTION_WEIGHT = 0.9
EVIDENCE_SNIPPET_CHARACTERS = 240
_DIGITS = 6


@dataclass(frozen=True)
class CreditCeiling:
    """The maximum credit of a query's hits, both in [0,1]."""

    relevance: float
    similarity: float


@dataclass(frozen=True)
class QueryHits:
    """The hits of one query.

    Attributes:
        query: the query.
        hits: what it found.
        credit_ceiling: the maximum of their credit, if there is one.
        similarity_weight: the weight of their similarities; None = the query's own.
    """

    query: PlannedQuery
    hits: Sequence[SearchHit]
    credit_ceiling: CreditCeiling | None = None
    similarity_weight: float | None = None


@dataclass(frozen=True)
class MergeResult:
    """The new pool, and the counts of new evidence and known hits."""

    pool: dict[str, PoolEntry]
    new_evidence: int
    duplicates: int


def merge_hits(
    pool: Mapping[str, PoolEntry], found: Sequence[QueryHits], iteration: int, terms: frozenset[str]
) -> MergeResult:
    """Return the pool with the hits of one call merged into it.

    Args:
        pool: the pool so far; it isn't changed.
        found: hits by query, each best first.
        iteration: the current iteration, from 1.
        terms: stems of the question, which the evidence snippets should show.
    """
    merged = dict(pool)
    # A key is made of a whole text, which takes long where the text does: once for each record.
    keys = {name: key for key, entry in pool.items() for name, _ in entry["said"] if name}
    own: set[str] = set()  # entries that are this call's, so that they may be changed
    new_evidence = duplicates = 0
    for query_hits in found:
        for hit, match in _credited_hits(query_hits, pool, iteration):
            key = keys.get(hit.record.id) or keys.setdefault(hit.record.id, fact_key(hit.record))
            old = merged.get(key)
            entry = _entry(key, hit, iteration, terms) if old is None else _merge_evidence(old, hit, terms)
            duplicates += old is not None
            new_evidence += len(entry["evidence_keys"]) - (len(old["evidence_keys"]) if old else 0)
            if old is not None and key not in own:
                entry = {**entry, "matches": [*entry["matches"]]}
            own.add(key)
            merged[key] = entry
            _credit(entry, _alignment(entry, query_hits.query, hit), match)
    return MergeResult(merged, new_evidence, duplicates)


def _credited_hits(
    query_hits: QueryHits, pool: Mapping[str, PoolEntry], iteration: int
) -> Iterator[tuple[SearchHit, QueryMatch]]:
    """Yield hits with the credit that their query gives them."""
    hits = sorted(query_hits.hits, key=lambda hit: -hit.score)
    query = query_hits.query
    if query["source"] == QuerySource.MEMBER:
        hits = [hit for hit in hits if _names_member(hit, query["entity"] or "")]
    seed = pool.get(query["seed"]) if query["seed"] else None
    weight = query["weight"] if query_hits.similarity_weight is None else query_hits.similarity_weight
    credited = _bridge_credits(query, seed, hits) if seed else [(hit, query["weight"], weight) for hit in hits]
    ceiling = query_hits.credit_ceiling or CreditCeiling(1.0, seed["similarity"] if seed else 1.0)
    for rank, (hit, score, similarity) in enumerate(credited, 1):
        # Below a ceiling of relevance the hits keep their order.
        highest = ceiling.relevance / rank**BRIDGE_DECAY if query_hits.credit_ceiling else 1.0
        yield (
            hit,
            {
                "query": query["text"],
                "source": query["source"],
                "iteration": iteration,
                "score": round(min(score * hit.score, highest), _DIGITS),
                "similarity": round(min(similarity * hit.similarity, ceiling.similarity), _DIGITS),
            },
        )


def _bridge_credits(
    query: PlannedQuery, seed: PoolEntry, hits: Sequence[SearchHit]
) -> Iterator[tuple[SearchHit, float, float]]:
    """Yield the hits that cross the bridge, with the factors of their score and similarity."""
    entity = frozenset(stems(query["entity"] or ""))
    missing = stem_set(query["missing"])
    others = [hit for hit in hits if hit.score > 0.0 and not _beside(seed, hit)]
    about = next((hit for hit in others if hit.record.label and frozenset(stems(hit.record.label)) == entity), None)
    rest = [hit for hit in others if hit is not about][:BRIDGE_DEPTH]
    for rank, hit in enumerate([about, *rest] if about else rest, 1):
        entry = entry_of_hit(hit, entity | missing)
        if entity <= entry_terms(entry):
            credit = BRIDGE_SHARE * seed["relevance"] / others[0].score / rank**BRIDGE_DECAY
            if hit is about:
                credit *= min(BRIDGE_LABEL_BONUS, others[0].score / hit.score)
            if not missing & entry_window_terms(entry):
                credit *= BRIDGE_NOTHING_MISSING
            yield hit, credit, BRIDGE_SHARE


def _names_member(hit: SearchHit, word: str) -> bool:
    """Tell whether a record has a word in its own text, in whatever form."""
    text, stated = hit.record.text, hit.record.language
    return stem_set([word], stated or text_language(text)) <= stem_set([text], stated)


def _beside(seed: PoolEntry, hit: SearchHit) -> bool:
    """Tell whether a hit is the seed itself or is in the seed's window."""
    return hit.record.id == seed["record"]["id"] or bool(seed["window"] and hit.record.text in seed["window"])


def entry_of_hit(hit: SearchHit, terms: frozenset[str]) -> PoolEntry:
    """Return a hit in the shape of a pool entry, for reading its terms; `terms` are stems that matter."""
    return _entry("", hit, 0, terms)


def _entry(key: str, hit: SearchHit, iteration: int, terms: frozenset[str]) -> PoolEntry:
    """Return the entry of a hit, with no more than a passage of a long text: the one place where texts are bounded."""
    # The entry's own snippets are cut when it is returned: most entries never are.
    evidence = _evidence(hit.record, None)
    # Attributes may hold numbers that no checkpoint takes, and blocks repeat the text: neither is used here.
    fields = hit.record.model_dump(mode="json", exclude_none=True, exclude={"attributes", "blocks", "tags"})
    return {
        "key": key,
        "record": {**fields, "text": passage(hit.record.text, terms)},
        "window": passage(hit.window, terms, 3 * READ_CHARACTERS),
        "similarity": 0.0,
        "relevance": 0.0,
        "alignment": [],
        "said": [_said(hit.record)],
        "matches": [],
        "evidence": evidence,
        "evidence_keys": [_evidence_key(item) for item in evidence],
        "first_iteration": iteration,
        "is_new": False,
        "legs": hit.debug or {},
    }


def _merge_evidence(old: PoolEntry, hit: SearchHit, terms: frozenset[str]) -> PoolEntry:
    """Add the evidence of a hit to an entry of the same fact."""
    if old["record"]["id"] == hit.record.id:
        return old
    if old["record"].get("superseded_by") and getattr(hit.record, "superseded_by", None) is None:
        # Said again later: the same fact holds once more.
        current = _entry(old["key"], hit, old["first_iteration"], terms)
        old = {**old, "record": current["record"], "window": current["window"], "legs": current["legs"]}
    keys, evidence = list(old["evidence_keys"]), list(old["evidence"])
    for item in _evidence(hit.record, terms):
        key = _evidence_key(item)
        if key not in keys:
            keys.append(key)
            evidence.append(item)
    said = _said(hit.record)
    times = old["said"] if said in old["said"] else [*old["said"], said]
    return {**old, "evidence": evidence, "evidence_keys": keys, "said": times}


def _said(record: Record) -> list[str | None]:
    """Return id and time of a record."""
    return [record.id, record.created_at.isoformat() if record.created_at else None]


def _alignment(entry: PoolEntry, query: PlannedQuery, hit: SearchHit) -> list[float]:
    """Return the better alignment with the question or one of its parts: the entry's, or that of a hit."""
    whole = query["source"] == QuerySource.PHRASE and query["weight"] >= WHOLE_QUESTION_WEIGHT
    if hit.alignment is None or not whole or query["seed"] or list(hit.alignment)[1:2] <= entry["alignment"][1:2]:
        return entry["alignment"]
    return list(hit.alignment)


def _credit(entry: PoolEntry, alignment: list[float], match: QueryMatch) -> None:
    """Give an entry, which is changed, the credit of a query that found it."""
    entry["alignment"] = alignment
    if match["query"] not in [other["query"] for other in entry["matches"]]:
        entry["matches"].append(match)
    entry["relevance"] = max(entry["relevance"], match["score"])
    entry["similarity"] = max(entry["similarity"], match["similarity"])


def _evidence(record: Record, terms: frozenset[str] | None) -> list[dict[str, object]]:
    """Return a record's evidence: its sources if it names them, else the record itself.

    The words of a source aren't known here, and a fact's own words are no quotation of it.
    """
    if record.source_ids:
        return [
            {"source_id": source, "snippet": "", "author": None, "created_at": None} for source in record.source_ids
        ]
    snippet = "" if terms is None else best_snippet(record.text, terms, EVIDENCE_SNIPPET_CHARACTERS)
    made = record.created_at.isoformat() if record.created_at else None
    return [{"source_id": record.id, "snippet": snippet, "author": record.author, "created_at": made}]


def _evidence_key(item: Mapping[str, object]) -> str:
    return f"source:{item['source_id']}"
