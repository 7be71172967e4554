"""Queries for more members of the list that a question asks for (PIECES-1).

A list's members are in several records, and one search finds those that are worded like the question. So further ones
are searched for

- by kind: with each word in memory for a member of the asked kind ("sports": golf, karate);
- by shared words: the question with words that the best records share, among statements;
- by form: with the question's other words and their synonyms ("I played …");
- by session: in the sessions in which members were found.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from recall_loop.policy.evidence.members import ends_in_question, is_said_by
from recall_loop.policy.evidence.pool_entries import entry_terms
from recall_loop.policy.planning.query_forms import main_query, make_query, shorten_query
from recall_loop.policy.question.question import AnalysedQuestion
from recall_loop.policy.question.titles import expected_speaker
from recall_loop.state.run.state_entries import PlannedQuery, PoolEntry, QueryNarrowing
from recall_loop.state.types import QuerySource, SpeechAct
from recall_loop.text.words.kinds import members_of
from recall_loop.text.words.related_terms import related_terms
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.tokens import content_words, stems

# Most words of one kind that are looked up in a round and in all, and the largest share or number of records that may
# have such a word, whichever is more: a very frequent word says nothing.
MAX_WORDS, MAX_LOOKED_UP, MAX_ROW_SHARE, MAX_ROWS = 4, 8, 0.05, 3
MENTIONED_DEPTH = 5
FORM_WEIGHT, SESSION_WEIGHT = 0.5, 0.8
_BEST, _READ_CHARACTERS = 8, 1000
_SEEDS, _SESSIONS, _SHARED = 3, 2, 2
# A message's words are also in the windows of its two neighbours.
_WINDOWS = 3


def kind_words(question: AnalysedQuestion) -> list[str]:
    """Return the words for members of the kind that a question asks for, whether or not memory has them.

    They are the known members of everyday kinds, and the narrower terms of the related-terms table.
    """
    if question.listed is None or not question.listed.kind:
        return []
    kind = question.listed.kind
    known = members_of(kind, question.language)
    narrower = (term for word in [kind, *kind.split()] for term in related_terms(word, question.table).narrower)
    asked, language = frozenset(stems(question.text)), question.language
    return [word for word in dict.fromkeys((*known, *narrower)) if not asked.issuperset(_stems_of(word, language))]


# A kind may have thousands of words, and each round of a request reads all of them.
@lru_cache(maxsize=8192)
def _stems_of(word: str, language: str) -> frozenset[str]:
    return frozenset(stem(part, language) for part in word.split())


def words_to_look_up(words: Sequence[str], tried: Sequence[str]) -> list[str]:
    """Return the words that no query for a member has had, while there are few such queries; after that none."""
    if len(tried) >= MAX_LOOKED_UP:
        return []
    if not tried:
        return list(words)
    taken = [set(query.split()) for query in tried]
    return [word for word in words if not any(set(word.split()) <= terms for terms in taken)]


def stems_by_word(words: Sequence[str], language: str) -> dict[str, frozenset[str]]:
    """Return the stems of each of some terms of one or more words."""
    return {word: _stems_of(word, language) for word in words}


def words_in_memory(words: Mapping[str, frozenset[str]], frequencies: Mapping[str, int], rows: int) -> list[str]:
    """Return the words that a few records have, the rarest first; of words with the same stems only the first.

    Terms of several words come after single words, and are left out if one of their words is looked up ("golf game").

    Args:
        words: terms with their stems.
        frequencies: the number of windows with each of their stems.
        rows: number of records.
    """
    found: dict[frozenset[str], tuple[int, str]] = {}
    for word, terms in words.items():
        rarest = min(frequencies.get(term, 0) for term in terms)
        if 0 < rarest <= _WINDOWS * max(MAX_ROW_SHARE * rows, MAX_ROWS):
            found.setdefault(terms, (rarest, word))
    single = frozenset().union(*(terms for terms in found if len(terms) == 1))
    ordered = sorted(found.items(), key=lambda item: (len(item[0]) > 1, item[1][0]))
    return [word for terms, (_, word) in ordered if len(terms) == 1 or terms.isdisjoint(single)]


def words_not_mentioned(words: Sequence[str], best: Sequence[PoolEntry], language: str) -> list[str]:
    """Return the words that none of the best records has in its own text: members that haven't been found yet."""
    mentioned = frozenset().union(*(entry_terms(entry) for entry in best[:MENTIONED_DEPTH]))
    return [word for word, terms in stems_by_word(words, language).items() if not terms <= mentioned]


def list_queries(
    question: AnalysedQuestion, ranked: Sequence[PoolEntry], words: Sequence[str], longest: int, *, narrow: bool = True
) -> list[PlannedQuery]:
    """Return the queries for further members, best first; none if the question asks for no list.

    Args:
        question: the analysed request.
        ranked: what was found so far, best first.
        words: words for members that memory has and that weren't looked up yet.
        longest: most characters of a query's text.
        narrow: whether queries may be narrowed to statements; not if the request filters by speech acts itself.
    """
    if question.listed is None or not ranked:
        return []
    best = _best_statements(question, ranked)
    queries = [*_statement_queries(question, ranked, narrow=narrow), *_member_queries(question, words)]
    queries += [*_form_queries(question), *_session_queries(question, best)]
    return [{**query, "text": shorten_query(query["text"], longest)} for query in queries]


def _best_statements(question: AnalysedQuestion, ranked: Sequence[PoolEntry]) -> list[PoolEntry]:
    """Return the best records that state something, first those said by somebody in the question."""
    speaker = expected_speaker(question.text)
    stating = [entry for entry in ranked[:_BEST] if not ends_in_question(entry["record"]["text"])]
    stating.sort(key=lambda entry: not is_said_by(entry, question.name_terms, speaker))
    return stating[:_SEEDS]


def _statement_queries(
    question: AnalysedQuestion, ranked: Sequence[PoolEntry], *, narrow: bool
) -> Iterator[PlannedQuery]:
    shared = _shared_words(question, ranked)
    if not shared:
        return
    spoken = None if question.referents else question.text
    narrowed: QueryNarrowing = {"tool": None, "filters": {"speech_acts": [SpeechAct.STATEMENT.value]}}
    text = " ".join([main_query(question), *shared])
    yield {**make_query(text, QuerySource.STATEMENT), "spoken": spoken, "narrowed": narrowed if narrow else None}


def _shared_words(question: AnalysedQuestion, ranked: Sequence[PoolEntry]) -> list[str]:
    """Return words that the best records have and the question lacks, the most frequent first."""
    asked = question.name_terms.union(stems(question.text))
    counts: Counter[str] = Counter()
    for entry in ranked[:_BEST]:
        terms = entry_terms(entry) - asked
        counts.update(
            {word for word in content_words(entry["record"]["text"][:_READ_CHARACTERS]) if stem(word) in terms}
        )
    return [word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_SHARED]]


def _member_queries(question: AnalysedQuestion, words: Sequence[str]) -> Iterator[PlannedQuery]:
    for word in words[:MAX_WORDS]:
        yield {**make_query(f"{main_query(question)} {word}", QuerySource.MEMBER), "entity": word}


def _form_queries(question: AnalysedQuestion) -> Iterator[PlannedQuery]:
    """Yield queries worded like statements that answer the question: its other words, irregular forms and synonyms."""
    form = question.listed.form if question.listed else ()
    others = [other for word in form for other in related_terms(word, question.table).synonyms[:2]]
    if form:
        yield make_query(" ".join([*question.names[:1], *form, *others]), QuerySource.STATEMENT, FORM_WEIGHT)


def _session_queries(question: AnalysedQuestion, best: Sequence[PoolEntry]) -> Iterator[PlannedQuery]:
    sessions = dict.fromkeys(session for entry in best if (session := entry["record"].get("session")))
    for session in list(sessions)[:_SESSIONS]:
        narrowed: QueryNarrowing = {"tool": None, "filters": {"session": session}}
        text = f"{main_query(question)} {session}"
        yield {**make_query(text, QuerySource.STATEMENT, SESSION_WEIGHT), "narrowed": narrowed}
