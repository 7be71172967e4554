"""Proper names of people and organizations, entities and noun phrases in a text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter

from recall_loop.text.names.name_spans import (
    CALENDAR,
    HONORIFICS,
    SurfaceWord,
    empty_words,
    naming_runs,
    ordinary_words,
    surface_words,
)
from recall_loop.text.words.folding import fold
from recall_loop.text.words.languages import ENGLISH, stop_words
from recall_loop.text.words.related_terms import proper_terms
from recall_loop.text.words.stop_words import QUESTION_TAILS, word_set
from recall_loop.text.words.tokens import text_language, words

_LONGEST_TITLE_WORDS = 8
_LONGEST_PHRASE_WORDS = 4
_LONGEST_ENTITY = 100
_QUOTED = re.compile(
    r"\"([^\"\n]{2,80})\"|\u201c([^\u201d\n]{2,80})\u201d|\u00ab\s*([^\u00bb\n]{2,80}?)\s*\u00bb"
    r"|(?<![\w'])'([^'\n]{2,80})'(?![\w'])|(?<!\w)\u2018([^\u2018\u2019\n]{2,80})\u2019(?!\w)"
)


@lru_cache(maxsize=4096)
def find_entities(text: str) -> tuple[str, ...]:
    """Return the names in `text`, as written, each once and in order.

    These are quoted titles of up to eight words, and the naming runs of `name_spans` outside of them (up to 100
    characters).
    """
    titles = [(quoted.span(), _title(quoted)) for quoted in _QUOTED.finditer(text)]
    titles = [(span, title) for span, title in titles if _is_title(title)]
    taken = {at for (start, end), _ in titles for at in range(start, end)}
    runs = naming_runs(text, list(surface_words(text)))
    names = ((run[0].start, text[run[0].start : run[-1].end]) for run in runs)
    entities = [(start, title) for (start, _), title in titles]
    entities += [(start, name) for start, name in names if start not in taken and len(name) <= _LONGEST_ENTITY]
    return tuple(unique_folded(entity for _, entity in sorted(entities, key=itemgetter(0))))


def find_noun_phrases(text: str) -> list[str]:
    """Return runs of one to four content words between stop words and punctuation, as in RAKE.

    Verbs of asking (tell, show, know, say) and words that belong to the question form end a run. Longer runs are cut
    into pieces of four. Each phrase comes once, in order, as written.
    """
    phrases: list[str] = []
    run: list[SurfaceWord] = []
    before = ""
    tokens = list(surface_words(text))
    empty = empty_words(text_language(text))
    for token in tokens:
        content = _is_content(token, before, empty)
        if run and (not content or _breaks(text[run[-1].end : token.start])):
            phrases += _pieces(run)
            run = []
        if content:
            run.append(token)
        if token.possessive:
            phrases += _pieces(run)
            run = []
        before = token.plain
    return unique_folded(phrases + _pieces(run))


def unique_folded(items: Iterable[str]) -> list[str]:
    """Return `items` without those that differ from an earlier one only in case or accents."""
    unique: dict[str, str] = {}
    for item in items:
        unique.setdefault(fold(item), item)
    return list(unique.values())


def _title(quoted: re.Match[str]) -> str:
    return next(filter(None, quoted.groups()), "").strip(" ,.;:!?")


def _is_title(text: str) -> bool:
    title = words(text)
    return len(title) <= _LONGEST_TITLE_WORDS and not stop_words(text_language(text)).issuperset(title)


def _breaks(gap: str) -> bool:
    return gap.strip(" '\u2019") != "" or len(gap) > 3


def _is_content(token: SurfaceWord, before: str, empty: frozenset[str]) -> bool:
    plain = token.plain
    if plain in QUESTION_TAILS.get(before, ()) or token.surface == "&":
        return False
    if len(plain) == 1 and plain.isascii() and not plain.isdigit():
        return False
    return not set(plain.split()) <= empty


def _pieces(run: list[SurfaceWord]) -> list[str]:
    size = _LONGEST_PHRASE_WORDS
    return [" ".join(word.surface for word in run[at : at + size]) for at in range(0, len(run), size)]


_ORGANIZATION_WORDS = word_set(
    """inc ltd llc llp gmbh ag corp corporation co company plc sa bv oy university college school academy institute
    institution bank club team association foundation society agency ministry department committee council
    commission union league federation hospital clinic church museum library laboratory laboratories lab labs studio
    studios group holdings partners ventures technologies systems solutions industries airlines airways motors
    pharmaceuticals center centre office bureau organization organisation party parliament senate congress court
    police army navy orchestra choir theatre theater press times news network media radio store shop market cafe
    restaurant bakery gym shelter startup nonprofit charity trust fund"""
)
_PLACE_WORDS = word_set(
    """street road avenue lane square park beach lake river mountain mountains mount island islands city town village
    county state bay valley forest canyon falls hill hills airport station bridge garden gardens ocean sea coast
    trail north south east west republic kingdom"""
)
_NO_ORGANIZATION = word_set("us uk usa eu uae un ussr nyc la dc sf ca ny tx id it")
_PLACE_BEFORE = word_set("in at into near around across outside inside throughout")
_TRAVEL = word_set(
    """moved move moving went go going gone flew fly flying trip trips travel travelled traveled travelling traveling
    drove drive driving visit visited visiting headed back relocated journey flight train bus"""
)
_INTRODUCING = word_set(
    """named called with by about both meet met meeting told asked thank thanks hi hey hello dear hugged married dating
    friend friends brother sister mother father mom mum dad son daughter husband wife partner boyfriend girlfriend
    fiance fiancee cousin uncle aunt grandma grandpa grandmother grandfather nephew niece neighbor neighbour
    colleague coworker boss manager teacher coach doctor professor mentor roommate therapist baby dog cat congrats
    congratulations bye sorry wow yeah yes sure absolutely totally"""
)
_QUESTION_AUXILIARY = word_set("did does do is was has had will would can could should are were have might may")
_NO_VERB = word_set("in on at of near from the a an this that its not")
_DOING = word_set(
    """is was has had will would can could should might says said tells told asks asked thinks thought feels felt knows
    knew loves loved likes liked wants wanted needs needed goes went gone comes came gets got gives gave takes took
    makes made buys bought sells sold eats ate drinks drank runs ran plays played writes wrote reads read sings sang
    lives lived works worked moves moved visits visited meets met sees saw hears heard enjoys enjoyed plans planned
    hopes hoped decides decided starts started stops stopped joins joined leaves left loses lost wins won finds
    found keeps kept believes believed studies studied teaches taught learns learned paints painted cooks cooked
    adopts adopted owns owned just also recently never always"""
)
_WORK = word_set(
    "work works worked working job intern interned internship employed position role career engineer"
    " manager founder ceo cto director employee volunteer volunteers volunteered volunteering studies"
    " studied studying hired"
)
_JOINING = word_set("joined join joining founded cofounded hired acquired")
_ENTER = word_set("at for with by of")
_NAME = re.compile(r"[^\W\d_]+(?:['\u2019\-\u2010\u2011][^\W\d_]+)*\.?")


@lru_cache(maxsize=4096)
def find_people(text: str) -> tuple[str, ...]:
    """Return the people that `text` names, as written, each once and in order; see the module's rules."""
    tokens = list(surface_words(text))
    index = {token.start: at for at, token in enumerate(tokens)}
    runs = [run for run in naming_runs(text, tokens) if _may_be_person(run)]
    bounds = [(index[run[0].start], index[run[0].start] + len(run)) for run in runs]
    persons = [_is_person(text, tokens, at, end) for at, end in bounds]
    _spread(tokens, bounds, persons, range(len(runs)))
    _spread(tokens, bounds, persons, range(len(runs) - 1, -1, -1))
    names = [_name(text, run) for run in runs]
    sure = {fold(name) for name, person in zip(names, persons, strict=True) if person}
    return tuple(unique_folded(name for name in names if fold(name) in sure))


@lru_cache(maxsize=4096)
def find_organizations(text: str) -> tuple[str, ...]:
    """Return the organizations that `text` names, as written, each once and in order."""
    tokens = list(surface_words(text))
    index = {token.start: at for at, token in enumerate(tokens)}
    runs = (run for run in naming_runs(text, tokens) if _is_organization(tokens, run, index[run[0].start]))
    return tuple(unique_folded(text[run[0].start : run[-1].end] for run in runs))


def _spread(
    tokens: list[SurfaceWord], bounds: list[tuple[int, int]], persons: list[bool], order: Sequence[int]
) -> None:
    """Mark, in the given order, runs that `and` or `or` joins to a run already marked."""
    for previous, current in pairwise(order):
        left, right = min(previous, current), max(previous, current)
        between = tokens[bounds[left][1] : bounds[right][0]]
        if persons[previous] and len(between) == 1 and between[0].plain in ("and", "or"):
            persons[current] = True


def _name(text: str, run: Sequence[SurfaceWord]) -> str:
    first = 1 if len(run) > 1 and run[0].plain in HONORIFICS else 0
    return text[run[first].start : run[-1].end]


def _may_be_person(run: Sequence[SurfaceWord]) -> bool:
    if len(run) > 4 or not all(_NAME.fullmatch(word.surface) for word in run):
        return False
    plain = {word.plain for word in run}
    if plain & (_ORGANIZATION_WORDS | _PLACE_WORDS | {"of", "for"}) or plain <= CALENDAR:
        return False
    return not any(word.acronym for word in run) and fold(" ".join(word.plain for word in run)) not in proper_terms()


def _is_person(text: str, tokens: list[SurfaceWord], at: int, end: int) -> bool:
    """Apply signs 1 to 4 to the run of `tokens` from `at` to `end`."""
    last = tokens[end - 1]
    before = tokens[at - 1].plain if at else ""
    if last.possessive or tokens[at].plain in HONORIFICS or before in HONORIFICS:
        return before not in _PLACE_BEFORE
    if before in _INTRODUCING or _speaker(text, tokens[at], last):
        return True
    if before in _PLACE_BEFORE or (before in ("to", "from") and _travels(tokens, at)):
        return False
    following = tokens[end] if end < len(tokens) else None
    if following is None or following.opens_sentence or "," in text[last.end : following.start]:
        return False
    asked = before in _QUESTION_AUXILIARY and not following.capital and following.plain not in _NO_VERB
    return asked or following.plain in _DOING


def _speaker(text: str, first: SurfaceWord, last: SurfaceWord) -> bool:
    opens = first.start == 0 or text[first.start - 1] == "\n"
    return opens and text[last.end : last.end + 1] == ":"


def _travels(tokens: list[SurfaceWord], at: int) -> bool:
    return any(token.plain in _TRAVEL for token in tokens[max(at - 4, 0) : at])


def _is_organization(tokens: list[SurfaceWord], run: Sequence[SurfaceWord], at: int) -> bool:
    plain = [word.plain for word in run]
    if len(run) == 1 and run[0].acronym:
        ordinary = stop_words(ENGLISH) | _NO_ORGANIZATION | ordinary_words() | proper_terms()
        return plain[0] not in ordinary
    if len(run) > 1 and _ORGANIZATION_WORDS & set(plain):
        return True
    before = tokens[at - 1].plain if at else ""
    if before == "the" and at > 1:
        before = tokens[at - 2].plain
    if plain[-1] in _PLACE_WORDS or run[0].plain in HONORIFICS:
        return False
    if before in _JOINING or before == "at":
        return True
    return before in _ENTER and any(token.plain in _WORK for token in tokens[max(at - 5, 0) : at])
