"""The context of one run, shared by its nodes, and the functions that measurements may replace."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from recall_loop.memory.search.engine import search_many
from recall_loop.memory.search.query.query_preparation import SearchResponse
from recall_loop.policy.confidence.asked_values import asks_for_kind, holds_asked_kind
from recall_loop.policy.evidence.coverage import FacetMatcher
from recall_loop.policy.evidence.ranking import RankedEntry, rank_entries
from recall_loop.policy.evidence.statements import (
    as_evidence,
    first_person_text,
    put_asked_first,
    put_asked_person_first,
    put_statements_first,
    states_something,
    without_lines,
)
from recall_loop.policy.facts.persons.asked_persons import AskedPerson, asked_by_name, asked_person, known_author
from recall_loop.policy.facts.persons.exchanged_roles import has_exchanged_roles
from recall_loop.policy.planning.round_plan import DEFAULT_PLANNING_PARTS, PlanningParts
from recall_loop.policy.question.answer_kinds import AnswerKind
from recall_loop.policy.question.asked_identifiers import has_asked_identifier, lacks_identifier
from recall_loop.policy.question.periods import matches_time
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.agent_state import AgentState
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.run.state_entries import Facet, PoolEntry
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import SearchMode
from recall_loop.text.names.introductions import asked_own_name, with_plain_name
from recall_loop.text.speech.negations import is_negated
from recall_loop.text.speech.person_words import is_person_word
from recall_loop.text.words.tokens import query_terms

if TYPE_CHECKING:
    from recall_loop.llm.client import ChatClient
    from recall_loop.memory.store.store import MemoryStore


@dataclass(frozen=True)
class RetrievalParts:
    """The functions that a retrieval uses; the defaults are the product's own.

    Attributes:
        planning: the functions that make queries.
        search: searches several queries, as `search_many` does.
    """

    planning: PlanningParts = DEFAULT_PLANNING_PARTS
    search: Callable[..., list[SearchResponse]] = search_many


DEFAULT_RETRIEVAL_PARTS = RetrievalParts()
# The fields of an entry that decide which part of it is evidence.
_EvidenceField = Literal["record", "window", "alignment", "similarity"]
# Characters of a text in which exchanged roles are looked for.
_OPENING = 200
# Alignment with a question about any event or duty, which a record can answer without sharing a word.
_OPEN_QUESTION_ALIGNMENT = [0.6, 0.6, 0.6]
_EVIDENCE: tuple[_EvidenceField, ...] = ("record", "window", "alignment", "similarity")


@dataclass
class RunContext:
    """One request as every node sees it, and the results that the nodes have computed so far.

    All of it is a pure function of the state: rebuilt, as after a resume in another process, a run gives the same
    result. It ends with its run, so no text is kept longer than the request that read it. `missing_store` says that
    `store` is an empty one in place of one that doesn't exist yet; `long_texts` has, by record id, the texts of which
    the pool has only a passage, `tags` those of all found records, which the pool leaves out, and `readings`, by text,
    the probability that it answers the question; `unread` says why they aren't read, where they can't be, and
    `unembedded` why the embedder isn't asked any more, once it has failed.
    """

    request: RetrieveRequest
    question: AnalysedQuestion
    reference_time: datetime
    settings: Settings
    facets: Sequence[Facet]
    store: MemoryStore
    chat_client: ChatClient | None = None
    parts: RetrievalParts = DEFAULT_RETRIEVAL_PARTS
    missing_store: str | None = None
    ordered: tuple[list[RankedEntry], list[RankedEntry]] | None = None
    long_texts: dict[str, str] = field(default_factory=dict)
    tags: dict[str, tuple[str, ...]] = field(default_factory=dict)
    readings: dict[str, float] = field(default_factory=dict)
    unread: str | None = None
    unembedded: str | None = None
    _ranking: tuple[int, list[RankedEntry]] | None = None
    _supported: dict[str, tuple[dict[str, Any], str, frozenset[int]]] = field(default_factory=dict)
    _stating: dict[str, tuple[str, bool]] = field(default_factory=dict)
    _stated: dict[str, tuple[PoolEntry, PoolEntry]] = field(default_factory=dict)
    _asked_person: AskedPerson | None = None
    _knows_identifier: bool = False

    @property
    def search_mode(self) -> SearchMode:
        """The mode of searches."""
        return self.settings.search_mode if self.unembedded is None else SearchMode.FTS

    @property
    def wants_answer(self) -> bool:
        """Whether an answer is to be written."""
        wanted = self.request.write_answer
        return self.chat_client is not None and (self.settings.write_answer if wanted is None else wanted)

    def seconds_left(self, started: float) -> float:
        """Return how many seconds the deadline leaves a run that began at a Unix time; infinite without one."""
        return started + (self.settings.deadline_seconds or math.inf) - time.time()

    @cached_property
    def scope(self) -> Scope:
        """The scope that the request may read."""
        return self.request.read_scope()

    @cached_property
    def terms(self) -> frozenset[str]:
        """The stems of the question, for choosing snippets."""
        return query_terms(self.question.text)

    @cached_property
    def _matcher(self) -> FacetMatcher:
        return FacetMatcher(self.facets, self.question)

    def ranked(self, state: AgentState) -> list[RankedEntry]:
        """Return all entries of the pool, best first. The pool grows only when the iteration number does."""
        if self._ranking is None or self._ranking[0] != state["iteration"]:
            entries, question = state["evidence_pool"].values(), self.question
            self._update_asked_person(entries)
            people = question.name_terms if question.listed else None
            answers = self._may_answer if asks_for_kind(question) and question.listed is None else None
            ranked = rank_entries(
                entries, self.settings, self.reference_time, question.text, question.event_times, people, answers
            )
            least = self.settings.novelty_min_similarity
            ranked = put_statements_first(ranked, self.states, self.supported_facets, least)
            ranked = put_asked_person_first(ranked, self.is_about_another, self._is_on_matter)
            ranked = put_asked_first(ranked, self._answers_open_question)
            self._ranking = (state["iteration"], ranked)
        return self._ranking[1]

    def ranked_entries(self, state: AgentState) -> list[PoolEntry]:
        """Return the pool, best first."""
        return [item.entry for item in self.ranked(state)]

    def mark_new(self, state: AgentState, new: frozenset[str]) -> dict[str, PoolEntry]:
        """Return the pool with the entries of the keys in `new` marked as NEW; the mark changes no rank."""
        marked: dict[str, PoolEntry] = {
            key: {**entry, "is_new": True} if key in new else entry for key, entry in state["evidence_pool"].items()
        }
        ranked = [
            replace(item, entry=marked[item.entry["key"]]) if item.entry["key"] in new else item
            for item in self.ranked(state)
        ]
        self._ranking = (state["iteration"], ranked)
        return marked

    def states(self, entry: PoolEntry) -> bool:
        """Return whether a record states anything; every record does if the question asks what was asked (LIVE-2)."""
        if self.question.about_questions:
            return True
        text, stating = self._stating.get(entry["key"], ("", False))
        if text != entry["record"]["text"]:
            text, stating = entry["record"]["text"], states_something(entry, self.question.all_words, self._answers)
            self._stating[entry["key"]] = (text, stating)
        return stating

    def _answers(self, entry: PoolEntry) -> bool:
        return holds_asked_kind(self.question, entry)

    def _may_answer(self, entry: PoolEntry) -> bool:
        """Tell whether a record has the kind of answer that is asked for, or may say that there is none."""
        return self._answers(entry) or is_negated(entry["record"]["text"])

    def _update_asked_person(self, entries: Iterable[PoolEntry]) -> None:
        """Update the asked person and whether the question's identifiers are known; a change clears cached results."""
        asked = self._find_asked_person(entries)
        known = any(has_asked_identifier(self.question, each["record"]) and self.states(each) for each in entries)
        if asked != self._asked_person or known != self._knows_identifier:
            self._asked_person, self._knows_identifier = asked, known
            self._supported.clear()
            self._stated.clear()

    def _find_asked_person(self, entries: Iterable[PoolEntry]) -> AskedPerson | None:
        question = self.question
        # "I" refers to nobody mentioned before.
        names = set(question.names).difference(question.referents)
        named = [name for name in names if not is_person_word(name, question.language)]  # "Dad" is a relative
        asks_person = question.asked is AnswerKind.PERSON and asked_own_name(question.text) is None
        if question.about_questions or asks_person:
            return None
        if named:
            (name, *others), texts = named, (first_person_text(entry["record"]) for entry in entries)
            return None if others else asked_by_name(question.text, question.language, name, texts)
        asked = asked_person(question.text, question.language, asks_number=question.asked is AnswerKind.NUMBER)
        return asked and replace(asked, author=known_author(self.request.question.author, entries))

    def is_about_another(self, entry: PoolEntry) -> bool:
        """Tell whether a record is about another person or thing than the question."""
        if lacks_identifier(self.question, entry, known=self._knows_identifier):
            return True
        record, question = entry["record"], self.question
        if question.kind.statement_pattern is not None and not question.kind.stems_if_mentioned(record["text"]):
            return True
        asks_who = question.asked is AnswerKind.PERSON
        if asks_who and has_exchanged_roles(question.text, question.language, first_person_text(record)[:_OPENING]):
            return True
        asked = self._asked_person
        if asked is None or asked.owns_record(entry):
            return False
        return asked.rules_out(first_person_text(record)) or asked.is_by_another(record.get("author"), record["text"])

    def _answers_open_question(self, entry: PoolEntry) -> bool:
        question = self.question
        asks_duty = question.kind.statement_pattern is not None
        if not (asks_duty or question.asks_only_about_times) or not self.states(entry):
            return False
        if asks_duty and self.is_about_another(entry):
            return False
        if asks_duty and not question.event_times:
            return True
        return any(matches_time(entry, time) for time in question.event_times)

    def _is_on_matter(self, entry: PoolEntry) -> bool:
        asked = self._asked_person
        states_name = asked is not None and asked.states_asked_name(first_person_text(entry["record"]))
        return states_name or bool(self.supported_facets(entry))

    def is_evidence(self, entry: PoolEntry) -> bool:
        """Tell whether a record may be evidence about the person in the question (CONF-3)."""
        return self.states(entry) and not self.is_about_another(entry)

    def evidence(self, entry: PoolEntry) -> PoolEntry:
        """Return a record reduced to its evidence."""
        if self.question.about_questions:
            return entry
        read, stated = self._stated.get(entry["key"], (None, None))
        if read is None or stated is None or any(read[name] is not entry[name] for name in _EVIDENCE):
            read, stated = self._stated[entry["key"]] = (entry, self._find_evidence(entry))
        if stated is read:
            return entry
        kept: dict[str, Any] = {name: stated[name] for name in _EVIDENCE}
        return {**entry, **kept}  # type: ignore[typeddict-item]

    def _find_evidence(self, entry: PoolEntry) -> PoolEntry:
        asked = self._asked_person
        if asked is not None and asked.states_asked_name(first_person_text(entry["record"])):
            text = with_plain_name(first_person_text(entry["record"]))
            return {**entry, "record": {**entry["record"], "text": text}}
        stated = as_evidence(entry, self.terms, self._answers)
        if self._answers_open_question(entry):
            return {**stated, "alignment": _OPEN_QUESTION_ALIGNMENT, "similarity": _OPEN_QUESTION_ALIGNMENT[0]}
        if asked is None or asked.owns_record(entry):
            return stated
        if entry["record"].get("author"):
            stated = without_lines(stated, asked.is_line_by_another)
        return without_lines(stated, lambda line: asked.rules_out(first_person_text({**entry["record"], "text": line})))

    def misleads(self, entry: PoolEntry) -> bool:
        """Tell whether a record was found by an event that doesn't imply the state in question."""
        return self._matcher.misleads(self.evidence(entry))

    def supported_facets(self, entry: PoolEntry) -> frozenset[int]:
        """Return the indices of the facets that one record supports."""
        record, window, facets = self._supported.get(entry["key"], ({}, "", frozenset()))
        if window != entry["window"] or record != entry["record"]:
            facets = self._matcher(self.evidence(entry)) if self.is_evidence(entry) else frozenset()
            self._supported[entry["key"]] = (entry["record"], entry["window"], facets)
        return facets
