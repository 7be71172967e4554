"""One search call of the planned queries: with retries (STOP-6), and by words alone once the embedder has failed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any, cast

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_exponential,
)

from recall_loop.memory.search.query.query_preparation import SearchResponse
from recall_loop.nodes.runtime.run_context import RunContext
from recall_loop.policy.planning.query_search import is_reranked, limit_parameter, query_mode
from recall_loop.policy.planning.round_plan import content_types_of
from recall_loop.state.errors import EmbedderError, RecallError, StoreError
from recall_loop.state.language_codes import LanguageCode
from recall_loop.state.run.state_entries import Plan, PlannedQuery
from recall_loop.state.scope import Filters
from recall_loop.state.search import MAX_RERANK_POOL, SearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import SearchMode, ToolName
from recall_loop.telemetry import names
from recall_loop.telemetry.logs import log_failure
from recall_loop.telemetry.spans import record_error, set_attributes, set_content, span
from recall_loop.text.words.languages import ENGLISH

_log = logging.getLogger(__name__)


def search_with_retries(plan: Plan, run: RunContext, deadline: float) -> tuple[list[SearchResponse], int, str | None]:
    """Search with retries and backoff until `deadline`; return responses, attempts, and the error of the last one.

    If the embedder fails each time, this and all later searches of the run are by words alone.
    """
    labels = {names.OPERATION: "execute_tool", names.TOOL: plan["tool"], names.TOOL_TYPE: "datastore"}
    with span(names.TOOL_SPAN.format(tool=plan["tool"]), labels) as opened:
        set_content(opened, names.TOOL_ARGUMENTS, {"queries": [query["text"] for query in plan["queries"]]})
        found, attempts, failure = _attempted(plan, run, deadline)
        if isinstance(failure, EmbedderError) and run.search_mode not in (SearchMode.FTS, SearchMode.VECTOR):
            run.unembedded = failure.told
            found, more, failure = _attempted(plan, run, deadline)
            attempts += more
        if failure is not None:
            record_error(opened, failure)
        if opened.is_recording():
            results = len({hit.record.id for response in found.values() for hit in response.hits})
            attributes: dict[str, Any] = {
                names.STRATEGY: plan["strategy"],
                names.QUERIES: len(plan["queries"]),
                names.RESULTS: results,
                names.ATTEMPTS: attempts,
            }
            set_attributes(opened, attributes)
    responses = [found[place] for place in sorted(found)]
    return responses, attempts, None if failure is None else f"{type(failure).__name__}: {failure.told}"


def _attempted(
    plan: Plan, run: RunContext, deadline: float
) -> tuple[dict[int, SearchResponse], int, RecallError | None]:
    """Return the responses by place in the plan, the number of attempts, and the error of the last one."""
    retrying = _retrying(run.settings, deadline)
    found: dict[int, SearchResponse] = {}
    failure: RecallError | None = None
    try:
        for attempt in retrying:
            with attempt:
                for places, arguments in _searches(plan, run):
                    found |= zip(places, run.parts.search(run.store, **arguments), strict=True)
    except (StoreError, EmbedderError) as error:
        failure = error
        found.clear()
    attempts = int(retrying.statistics["attempt_number"])
    retrying.iter_state.reset()  # breaks a reference cycle with `retrying`
    return found, attempts, failure


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, StoreError) or (isinstance(error, EmbedderError) and not error.retried)


# Made once: each instance is a reference cycle, left to the garbage collector.
_TRANSIENT = retry_if_exception(_may_pass)


def _retrying(settings: Settings, deadline: float) -> Retrying:
    """Return the attempts of one call: none starts if its wait would end after `deadline`."""
    return Retrying(
        retry=_TRANSIENT,
        stop=stop_after_attempt(settings.tool_attempts) | stop_before_delay(deadline - time.time()),
        wait=wait_exponential(multiplier=settings.tool_backoff_seconds),
        after=_log_failure,
        reraise=True,
    )


def _log_failure(tries: RetryCallState) -> None:
    error = tries.outcome.exception() if tries.outcome else None
    log_failure(_log, "search failed", error, attempt=tries.attempt_number)


def _searches(plan: Plan, run: RunContext) -> Iterator[tuple[list[int], dict[str, Any]]]:
    """Yield the searches of a plan, one for each tool: the places of its queries in the plan, and the arguments."""
    tools = [(query["narrowed"] and query["narrowed"]["tool"]) or plan["tool"] for query in plan["queries"]]
    for tool in dict.fromkeys(tools):
        places = [place for place, name in enumerate(tools) if name == tool]
        queries = [plan["queries"][place] for place in places]
        yield (
            places,
            {
                "queries": [query["text"] for query in queries],
                "scope": run.scope,
                "params": _params(tool, plan, run),
                "filters": [_filters(query, run) for query in queries],
                "spoken": [query["spoken"] or query["text"] for query in queries],
                "limits": [plan["parameters"][limit_parameter(query)] for query in queries],
                "modes": [query_mode(query, run.search_mode) for query in queries],
                "reranked": list(map(is_reranked, queries)),
                "fallback": False,
            },
        )


def _params(tool: str, plan: Plan, run: RunContext) -> SearchParams:
    return SearchParams(
        filters=run.request.filters,
        content_types=content_types_of(ToolName(tool), run.request.content_types),
        mode=run.search_mode,
        limit=plan["parameters"]["limit"],
        fuzzy=max(run.request.fuzzy, plan["parameters"].get("fuzzy", 0)),
        language=_language(run),
        time_suffixes=False,  # times in a question are the planner's
        rerank_pool=MAX_RERANK_POOL,
        rerank_learned=run.settings.learned_order,
        debug=run.request.debug,
    )


def _language(run: RunContext) -> LanguageCode | None:
    """Return the language of a run's queries: they are too short to detect it, but the question isn't."""
    asked = run.question.language
    return run.request.language or (None if asked == ENGLISH else cast("LanguageCode", asked))


def _filters(query: PlannedQuery, run: RunContext) -> Filters:
    """Return the request's filters, narrowed by those of the query."""
    if not query["narrowed"] or not query["narrowed"]["filters"]:
        return run.request.filters
    return Filters.model_validate(run.request.filters.model_dump(exclude_none=True) | query["narrowed"]["filters"])
