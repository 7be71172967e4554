"""Search results as text and JSON, shortened by profile (SEARCH-8)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import Any

from recall_loop.memory.search.query.query_preparation import SearchResponse
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.records import SearchHit
from recall_loop.state.scope import Scope
from recall_loop.state.types import ContentType, ScopeMode
from recall_loop.text.words.snippets import best_snippet
from recall_loop.text.words.tokens import stems

_FORM = "steps such as 2:full,5:1000,400 (up to rank 2 in full, up to 5 at most 1000 characters, then 400)"
_FULL = "full"


@dataclass(frozen=True)
class TruncatedText:
    """A text as it is shown, and whether that is less than the whole."""

    text: str
    truncated: bool


@dataclass(frozen=True)
class TruncationStep:
    """Results up to rank `up_to` (1 = best; None = all the rest) get at most `limit` characters (None = all)."""

    up_to: int | None
    limit: int | None

    def __post_init__(self) -> None:
        """Refuse ranks and limits below 1."""
        for name in ("up_to", "limit"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise InvalidInputError(f"step.{name}", value, "an integer of at least 1, or none")


@dataclass(frozen=True)
class TruncationProfile:
    """How much of each result is shown.

    Attributes:
        name: its name.
        steps: by rising rank; the last one applies to all further ranks.
    """

    name: str
    steps: tuple[TruncationStep, ...]

    def __post_init__(self) -> None:
        """Refuse steps that leave a rank without a limit."""
        ranks = [step.up_to for step in self.steps]
        *bounded, last = ranks or [0]
        rising = all(low is not None and high is not None and low < high for low, high in pairwise(bounded))
        if last is not None or None in bounded or not rising:
            raise InvalidInputError("profile.steps", ranks, "rising ranks, and a last step without one")

    def limit(self, rank: int) -> int | None:
        """Return the most characters of the result at `rank` (1 = best); None is all of them."""
        for step in self.steps:
            if step.up_to is None or rank <= step.up_to:
                return step.limit
        raise AssertionError("the last step is for every rank")


LOCAL_PROFILE = TruncationProfile(
    "local", (TruncationStep(2, None), TruncationStep(5, 1000), TruncationStep(None, 400))
)
CONSTELLATION_PROFILE = TruncationProfile(
    "constellation", (TruncationStep(5, None), TruncationStep(15, 1500), TruncationStep(None, 800))
)
MESSAGES_PROFILE = TruncationProfile(
    "messages", (TruncationStep(2, None), TruncationStep(5, 400), TruncationStep(None, 200))
)
FULL_PROFILE = TruncationProfile(_FULL, (TruncationStep(None, None),))
PROFILES = {profile.name: profile for profile in (LOCAL_PROFILE, CONSTELLATION_PROFILE, MESSAGES_PROFILE, FULL_PROFILE)}


def profile_for(scope: Scope, content_types: Collection[ContentType]) -> TruncationProfile:
    """Return the default profile of a search: by its content types, then by its scope."""
    if set(content_types) == {ContentType.MESSAGE}:
        return MESSAGES_PROFILE
    return CONSTELLATION_PROFILE if scope.mode is ScopeMode.CONSTELLATION else LOCAL_PROFILE


def parse_profile(text: str) -> TruncationProfile:
    """Return a profile by name, or the one that steps like `2:full,5:1000,400` describe.

    Raises:
        InvalidInputError: neither applies.
    """
    known = PROFILES.get(text.strip())
    if known is not None:
        return known
    try:
        return TruncationProfile("custom", tuple(_step(part) for part in text.split(",")))
    except ValueError as error:
        raise InvalidInputError("profile", text, f"{', '.join(PROFILES)}, or {_FORM}") from error


def _step(text: str) -> TruncationStep:
    rank, colon, limit = text.strip().rpartition(":")
    return TruncationStep(int(rank) if colon else None, None if limit.strip() == _FULL else int(limit))


def truncate_text(text: str, terms: Collection[str], limit: int | None) -> TruncatedText:
    """Return the part of `text` that covers the most of `terms`, in at most `limit` characters (code points).

    Args:
        text: the whole text.
        terms: stems of the query (`recall_loop.text.words.tokens.stems`).
        limit: at least 1; None is all.

    The part begins and ends between words, with an ellipsis at each cut side, and splits no grapheme cluster.
    A text within the limit is returned unchanged.

    Raises:
        InvalidInputError: `limit` is below 1.
    """
    if limit is None:
        return TruncatedText(text, False)
    if limit < 1:
        raise InvalidInputError("limit", limit, "an integer of at least 1, or none")
    if len(text) <= limit:
        return TruncatedText(text, False)
    shown = best_snippet(text, terms, limit)
    return TruncatedText(shown, shown != text.strip())


def truncate_texts(texts: Sequence[str], terms: Collection[str], profile: TruncationProfile) -> list[TruncatedText]:
    """Return the texts of results, best first, each within its limit in `profile`."""
    return [truncate_text(text, terms, profile.limit(rank)) for rank, text in enumerate(texts, start=1)]


def response_to_json(found: SearchResponse, profile: TruncationProfile) -> dict[str, Any]:
    """Return the response as plain JSON: every result, and what was searched (SEARCH-6)."""
    hits = zip(found.hits, truncate_hits(found, profile), strict=True)
    return {
        "query": found.query,
        "hits": [_hit(rank, hit, text) for rank, (hit, text) in enumerate(hits, start=1)],
        "allowed": found.allowed,
        "scope": found.scope.model_dump(mode="json"),
        "filters": found.filters.model_dump(mode="json", exclude_none=True),
        "content_types": [str(kind) for kind in found.content_types],
        "legs": list(found.legs),
        "generation": found.generation,
        "time_range": found.time_range and [when and when.isoformat() for when in astuple(found.time_range)],
        "corrected": found.corrected,
        "degraded": found.degraded,
        "degraded_reason": found.degraded_reason,
        "profile": profile.name,
    }


def _hit(rank: int, hit: SearchHit, text: TruncatedText) -> dict[str, Any]:
    record = hit.record.model_dump(mode="json")
    names = ("label", "agent_id", "agent_name", "author", "role", "created_at", "updated_at")
    more = ("subject", "fact_type", "object", "conversation_id", "session", "user_id", "tags", "language", "source_ids")
    ended = ("valid_until", "superseded_by")
    return {
        "rank": rank,
        "id": record["id"],
        "content_type": record["kind"],
        "content": text.text,
        "truncated": text.truncated,
        "similarity": hit.similarity,
        "score": hit.score,
        **{name: record[name] for name in names},
        **{name: record[name] for name in (*more, *ended) if record.get(name)},
        **({"debug": hit.debug} if hit.debug is not None else {}),
    }


def truncate_hits(found: SearchResponse, profile: TruncationProfile) -> list[TruncatedText]:
    """Return the texts of the results, each within its limit in the profile (SEARCH-8)."""
    terms = frozenset(stems(found.corrected or found.query))
    return truncate_texts([hit.record.text for hit in found.hits], terms, profile)
