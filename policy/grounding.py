"""How far a language model's query may be trusted: by what it shares with the request and the evidence.

A model may plan for another question than the one asked: it misreads, makes names up, or follows what a memory
tells it. Its query is grounded by the share of its terms that stand in the question, its window, its goal, their
synonyms, or in the best facts so far; and the best hits of a grounded query ground further ones, so that a chain
of hops counts although only its first link names what the question names. What isn't grounded weighs less: its
hits come in, and displace nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from recall_loop.policy.coverage import own_terms
from recall_loop.policy.merging import Found, probe
from recall_loop.policy.question import Question
from recall_loop.state.agent_state import Facet, PoolEntry
from recall_loop.state.request import ChatMessage
from recall_loop.state.types import QuerySource
from recall_loop.text.keys import query_terms
from recall_loop.text.tokens import stems

GROUNDED_SHARE = 0.5
LEAST_FACTOR = 0.2
_HITS = 3
_FACTS = 10
_MESSAGES = 6
_READ = 2000


def ground(question: Question, messages: Sequence[ChatMessage], facets: Iterable[Facet]) -> frozenset[str]:
    """Return the stems of what is asked: question, goal, recent window, and the synonyms of its phrases."""
    texts = [question.text, question.goal or "", *question.referents]
    texts += [message.content[:_READ] for message in messages[-_MESSAGES:]]
    asked = {term for text in texts for term in stems(text)}
    other = {term for facet in facets for terms in facet["alternatives"].values() for term in terms}
    return frozenset(asked | other)


def weighted(found: Sequence[Found], asked: frozenset[str], ranked: Sequence[PoolEntry]) -> list[Found]:
    """Return what was found, with the weights of a language model's queries lowered as far as they aren't grounded.

    Args:
        found: what each query of the call found.
        asked: see `ground`.
        ranked: the facts before the call, best first.
    """
    known = set(asked)
    for entry in ranked[:_FACTS]:
        known |= own_terms(entry)
    shares = _shares(found, known)
    return [
        part
        if at not in shares
        else Found({**part.query, "weight": _factor(shares[at]) * part.query["weight"]}, part.hits)
        for at, part in enumerate(found)
    ]


def _shares(found: Sequence[Found], known: set[str]) -> dict[int, float]:
    """Return the grounded share of each query of a language model; `known` grows by what grounded ones find."""
    open_ones = {at: query_terms(part.query["text"]) for at, part in enumerate(found) if _is_advised(part)}
    shares: dict[int, float] = {}
    while open_ones:
        at, share = max(((at, _share(terms, known)) for at, terms in open_ones.items()), key=lambda pair: pair[1])
        shares[at] = share
        del open_ones[at]
        if share >= GROUNDED_SHARE:
            for hit in found[at].hits[:_HITS]:
                known |= own_terms(probe(hit))
    return shares


def _is_advised(part: Found) -> bool:
    return part.query["source"] == QuerySource.LLM


def _share(terms: frozenset[str], known: set[str]) -> float:
    return len(terms & known) / len(terms) if terms else 0.0


def _factor(share: float) -> float:
    """Return what a query's weight is multiplied with; squared, for a few words are shared by chance."""
    return max(min(share / GROUNDED_SHARE, 1.0) ** 2, LEAST_FACTOR)
