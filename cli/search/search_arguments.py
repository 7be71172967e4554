"""A search from the options of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel

from recall_loop.cli.core.common import scope_from
from recall_loop.cli.core.shared_options import given_fields
from recall_loop.memory.search.engine import search
from recall_loop.memory.search.present.truncation import FULL_PROFILE, TruncationProfile, parse_profile, profile_for
from recall_loop.memory.search.query.search_response import SearchResponse
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.scope import Filters, Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType, Timestamp


class _ReferenceTime(BaseModel):
    reference_time: Timestamp | None = None


@dataclass(frozen=True)
class SearchCommand:
    """One search, checked before any store is opened."""

    query: str
    scope: Scope
    params: SearchParams
    profile: TruncationProfile

    def run(self, store: MemoryStore) -> SearchResponse:
        """Search `store`."""
        return search(store, self.query, scope=self.scope, params=self.params)


def build_search(args: argparse.Namespace, settings: Settings) -> SearchCommand:
    """Return the search that the options describe.

    Raises:
        InvalidInputError: names the option's field, its value and what is allowed.
    """
    if not args.query.strip():
        raise InvalidInputError("QUERY", args.query, "text with at least one character that is not white space")
    scope = scope_from(args, settings)
    filters = _filters(args)
    kinds = _kinds(args.types, filters)
    profile = FULL_PROFILE if args.full else parse_profile(args.profile) if args.profile else profile_for(scope, kinds)
    now = validate_model(_ReferenceTime, {"reference_time": args.reference_time}).reference_time
    params = _params(args, filters, kinds, now)
    params.check_supported()
    return SearchCommand(args.query, scope, params, profile)


def _filters(args: argparse.Namespace) -> Filters:
    names = Filters.model_fields.keys() - Scope.model_fields.keys()
    return validate_model(Filters, given_fields(args, names), "filters")


def _kinds(given: str | None, filters: Filters) -> tuple[ContentType, ...]:
    if given is None:
        return filters.default_content_types
    names: Sequence[str] = [part.strip() for part in given.split(",")]
    for name in names:
        if name not in list(ContentType):
            raise InvalidInputError("--types", name, ", ".join(ContentType))
    return tuple(dict.fromkeys(ContentType(name) for name in names))


def _params(
    args: argparse.Namespace, filters: Filters, kinds: tuple[ContentType, ...], now: datetime | None
) -> SearchParams:
    given = {
        "filters": filters,
        "content_types": kinds,
        "mode": args.mode,
        "limit": args.limit,
        "limit_per_type": not args.no_limit_per_type,
        "order_by": args.order_by,
        "fuzzy": args.fuzzy,
        "apply_content_scoring": not args.no_content_scoring,
        "rerank": args.rerank,
        "rerank_budget_ms": args.rerank_budget_ms,
        "rerank_learned": args.rerank_learned,
        "reference_time": now,
        "debug": args.debug,
    }
    return validate_model(SearchParams, given)
