"""Deterministic query forms, and the filter that drops repeats (QUERY-1 to QUERY-3, LOOP-4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise, zip_longest

from recall_loop.policy.facts.change_words import shared_words
from recall_loop.policy.question.follow_ups import Dependence
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.state.run.state_entries import PlannedQuery, QueryNarrowing, QueryOutcome
from recall_loop.state.types import QuerySource
from recall_loop.text.speech.first_person import has_first_person
from recall_loop.text.words.languages import asking_words
from recall_loop.text.words.related_terms import RelatedTerms, related_terms
from recall_loop.text.words.tokens import content_words, jaccard, query_terms, stems, text_language

SOURCE_WEIGHTS = {
    QuerySource.PHRASE: 1.0,
    QuerySource.SYNONYM: 0.5,
    QuerySource.TEMPORAL: 0.5,
    QuerySource.KEYWORD: 0.5,
    QuerySource.NOUN_PHRASE: 0.4,
    QuerySource.ENTITY: 0.3,
    QuerySource.FEEDBACK: 0.5,
    QuerySource.STATEMENT: 0.9,
    QuerySource.MEMBER: 0.8,
    QuerySource.LLM: 0.9,
}
PART_WEIGHT = 0.9
PERIOD_WEIGHT = 1.0
# Earlier messages count little: the question may be about something else.
_TOPIC_WEIGHT = 0.3
TermSelector = Callable[[RelatedTerms], Sequence[str]]
_SHORT_WORDS = 3
_MIN_QUERIES = 6
# The share of common terms from which one round's queries repeat each other; the setting's default.
REPEAT_SIMILARITY = 0.9


def make_query(text: str, source: QuerySource, weight: float | None = None) -> PlannedQuery:
    """Return a planned query; the repeat filter sets its rank."""
    return {
        "text": text,
        "spoken": None,
        "source": source.value,
        "rank": 0,
        "weight": SOURCE_WEIGHTS[source] if weight is None else weight,
        "seed": None,
        "entity": None,
        "missing": [],
        "narrowed": None,
    }


def shorten_query(text: str, most: int) -> str:
    """Return at most `most` characters of a query, cut at a word boundary; a single longer word is cut."""
    text = " ".join(text.split())
    if len(text) <= most:
        return text
    head = text[: most + 1].rsplit(" ", 1)[0]
    return head if len(head) <= most else text[:most]


def content_query(text: str) -> str:
    """Return the content words of `text` as a query; verbs of asking stay only if there is nothing else."""
    content, asking = content_words(text), asking_words(text_language(text))
    return " ".join([word for word in content if word not in asking] or content)


def fallback_queries(
    question: AnalysedQuestion, most: int, longest: int, *, periods: bool = True
) -> list[PlannedQuery]:
    """Return up to `most` distinct queries of at most `longest` characters, best first (usually 6 to 12).

    Related terms, single words and pairs of words fill the list only if the question gives fewer than six queries that
    don't repeat each other; three content words besides verbs of asking are enough for six. The list is empty only if
    the question has no content word and isn't about the asker, its window has no name, and there is no goal. Without
    `periods` no query is restricted to records from the times that the question names.
    """
    queries: list[PlannedQuery] = []
    repeats = RepeatFilter({}, REPEAT_SIMILARITY)
    _collect(queries, _question_queries(question, periods=periods), most, longest, repeats)
    _collect(queries, _filling_queries(question), min(most, _MIN_QUERIES), longest, repeats)
    return [{**query, "rank": rank} for rank, query in enumerate(queries, 1)]


def _collect(
    collected: list[PlannedQuery], queries: Iterable[PlannedQuery], most: int, longest: int, repeats: RepeatFilter
) -> None:
    """Add queries that repeat nothing to `collected` until it has `most`."""
    for query in queries:
        if len(collected) >= most:
            return
        collected += repeats.keep([{**query, "text": shorten_query(query["text"], longest)}], 1)


def _question_queries(question: AnalysedQuestion, *, periods: bool) -> Iterator[PlannedQuery]:
    main = make_query(main_query(question), QuerySource.PHRASE)
    yield main if question.referents else {**main, "spoken": question.text}
    if periods:
        yield from period_queries(question, main["text"])
    if question.topic:
        topical = " ".join([*question.topic, content_query(question.text)])
        weight = PART_WEIGHT if question.depends is Dependence.WHOLE else _TOPIC_WEIGHT
        yield make_query(topical, QuerySource.PHRASE, weight)
    if len(question.parts) > 1:
        for part in question.parts:
            yield make_query(with_anchor(content_query(part), question.names), QuerySource.PHRASE, PART_WEIGHT)
    if question.goal:
        yield make_query(with_anchor(content_query(question.goal), question.names), QuerySource.PHRASE, PART_WEIGHT)
    yield make_query(_keywords(question), QuerySource.KEYWORD)
    for phrase in question.phrases:
        yield make_query(with_anchor(phrase, question.names), QuerySource.NOUN_PHRASE)
    yield from (make_query(name, QuerySource.ENTITY) for name in question.names)


def period_queries(question: AnalysedQuestion, main: str) -> Iterator[PlannedQuery]:
    """Yield the question without its times, restricted to records made in these times or soon after.

    The text begins with the days of the period; otherwise it would repeat the query for all times.
    """
    if question.period is None:
        return
    start, end = (question.period[name][:10] for name in ("start_time", "end_time"))
    narrowed: QueryNarrowing = {"tool": None, "filters": dict(question.period)}
    spoken = None if question.referents else question.text
    text = f"{start} to {end} {without_times(main, question)}"
    yield {**make_query(text, QuerySource.TEMPORAL, PERIOD_WEIGHT), "spoken": spoken, "narrowed": narrowed}


def without_times(text: str, question: AnalysedQuestion) -> str:
    """Return `text` without the words that belong to one of the question's times."""
    return " ".join(word for word in text.split() if not question.time_terms.issuperset(stems(word)))


def _filling_queries(question: AnalysedQuestion) -> Iterator[PlannedQuery]:
    yield from synonym_queries(question)
    yield from (make_query(phrase, QuerySource.NOUN_PHRASE, 0.3) for phrase in question.phrases)
    words = content_query(question.text).split()
    yield from (make_query(word, QuerySource.KEYWORD, 0.3) for word in words)
    yield from (make_query(f"{first} {second}", QuerySource.KEYWORD, 0.3) for first, second in combinations(words, 2))


def main_query(question: AnalysedQuestion) -> str:
    """Return the whole question as one query, with the referents of its pronouns.

    A question about the asker with stop words only ("Who am I?", "What do I like?") stays as it is.
    """
    text = " ".join(filter(None, [*question.referents, content_query(question.text)]))
    return text or (question.text if _is_about_speaker(question) else "")


def _is_about_speaker(question: AnalysedQuestion) -> bool:
    named = not shared_words("speakers").isdisjoint(question.all_words)
    return named or has_first_person(question.text, question.language)


def _keywords(question: AnalysedQuestion) -> str:
    """Return the short form: the anchor and the first three words of the longest noun phrase."""
    longest = max(question.phrases, key=len, default="")
    return " ".join([*question.names[:1], *longest.split()[:_SHORT_WORDS]])


def with_anchor(text: str, names: Sequence[str]) -> str:
    """Put the anchor before a text unless it has a name itself."""
    terms = set(stems(text))
    if not text or not names or any(set(stems(name)) <= terms for name in names):
        return text
    return f"{names[0]} {text}"


def synonym_queries(question: AnalysedQuestion) -> Iterator[PlannedQuery]:
    """Yield the main query with one of its terms replaced by a synonym."""
    return _replacement_queries(
        question, lambda terms: (*terms.synonyms, *terms.also), SOURCE_WEIGHTS[QuerySource.SYNONYM]
    )


def broader_queries(question: AnalysedQuestion) -> Iterator[PlannedQuery]:
    """Yield the main query with one of its terms replaced by a broader one."""
    return _replacement_queries(question, lambda terms: terms.broader, 0.4)


def narrower_queries(question: AnalysedQuestion) -> Iterator[PlannedQuery]:
    """Yield the main query with one of its terms replaced by a narrower one, then pairs of the question's words."""
    yield from _replacement_queries(question, lambda terms: terms.narrower, 0.4)
    words = [word for phrase in question.phrases for word in phrase.split()]
    for first, second in pairwise(words):
        yield make_query(with_anchor(f"{first} {second}", question.names), QuerySource.KEYWORD, 0.3)


def _replacement_queries(question: AnalysedQuestion, pick: TermSelector, weight: float) -> Iterator[PlannedQuery]:
    """Replace one word or phrase at a time; the first alternatives of all terms come first."""
    words = main_query(question).split()
    terms = unique_terms(question)
    alternatives = zip_longest(*(pick(related_terms(term, question.table)) for term in terms))
    for row in alternatives:
        for term, replacement in zip(terms, row, strict=True):
            if replacement is not None:
                yield make_query(_replace_term(words, term, replacement), QuerySource.SYNONYM, weight)


def unique_terms(question: AnalysedQuestion) -> list[str]:
    """Return the noun phrases and the single words of a question, without names."""
    words = [word for word in content_query(question.text).split() if not question.name_terms.issuperset(stems(word))]
    return list(dict.fromkeys([*(phrase for phrase in question.phrases if " " in phrase), *words]))


def _replace_term(words: Iterable[str], term: str, replacement: str) -> str:
    removed = set(stems(term))
    kept = [word for word in words if not set(stems(word)) & removed]
    return " ".join([*kept, replacement])


class RepeatFilter:
    """Decides whether a query may run, given those already tried; `dropped` has the texts of refused ones.

    Variants in case, space, punctuation, stop words, word form and word order count as the same, and so do queries
    whose terms overlap by at least `threshold` (Jaccard, in [0,1]). A query that failed with an error may run again;
    a query without results may run again with another fingerprint (tool and filters).
    """

    def __init__(
        self,
        outcomes: Mapping[str, QueryOutcome],
        threshold: float,
        fingerprint: Callable[[PlannedQuery], str] = lambda _: "",
    ) -> None:
        self._threshold = threshold
        self._fingerprint = fingerprint
        self._tried = [(query_terms(query), outcome) for query, outcome in outcomes.items()]
        self._accepted: list[frozenset[str]] = []
        self.dropped: list[str] = []

    def allows(self, query: str, fingerprint: str = "") -> bool:
        """Tell whether `query` doesn't repeat one that was tried or accepted before."""
        terms = query_terms(query)
        if not terms or any(self._same(terms, other) for other in self._accepted):
            return False
        return not any(
            self._same(terms, other) and not _may_retry(outcome, fingerprint) for other, outcome in self._tried
        )

    def _same(self, terms: frozenset[str], other: frozenset[str]) -> bool:
        return terms == other or jaccard(terms, other) >= self._threshold

    def keep(self, queries: Iterable[PlannedQuery], most: int) -> list[PlannedQuery]:
        """Accept the first `most` queries that repeat nothing, and return them ranked from 1."""
        kept: list[PlannedQuery] = []
        for query in queries:
            if len(kept) >= most:
                break
            if not self.allows(query["text"], self._fingerprint(query)):
                self.dropped.append(query["text"])
                continue
            self._accepted.append(query_terms(query["text"]))
            kept.append({**query, "rank": len(kept) + 1})
        return kept


def _may_retry(outcome: QueryOutcome, fingerprint: str) -> bool:
    return outcome["error"] is not None or (outcome["results"] == 0 and outcome["fingerprint"] != fingerprint)
