"""People and organizations in a text, recognised by the words around a name (LOOP-7, STOP-5).

There is no list of given names, so names in any language are found; a name without any of these signs is left out.

A person is a naming run (`name_spans`) of one to four words, without digits, acronyms or words for organizations and
places, with at least one of these signs:

1. an honorific before it (`Dr. Lee`), a possessive after it (`Anna's`);
2. a word that introduces people before it: named, called, with, by, about, a word for a relative, friend or colleague
   (`my sister Ruth`), a greeting or thanks (`Hi Ruth`);
3. a verb of saying, feeling, moving or doing after it (`Ruth said`, `Ruth is moving`), or an auxiliary of a question
   before it and neither a name nor a preposition or article after it (`did Ruth buy`);
4. `and` or `or` between it and a person on either side; a colon after it at the beginning of a line (a speaker).

A run after `in`, `at`, `into`, `near` or after travelling (`moved to`, `trip to`) is a place unless a sign other than
3 applies. Technologies and other terms with a capital in the related-terms table are never people.

An organization is a run that contains a word for one (Inc, University, Bank, Club, Team), an acronym that is no
country and no chat shorthand, or a run after `works at`, `joined`, `CEO of`, `hired by` and the like, or after `at`
unless it ends in a word for a place.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from recall_loop.text.names.name_spans import (
    CALENDAR,
    HONORIFICS,
    SurfaceWord,
    naming_runs,
    ordinary_words,
    surface_words,
)
from recall_loop.text.names.phrases import unique_folded
from recall_loop.text.words.related_terms import proper_terms
from recall_loop.text.words.stop_words import STOP_WORDS, word_set
from recall_loop.text.words.tokens import fold

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
        ordinary = STOP_WORDS | _NO_ORGANIZATION | ordinary_words() | proper_terms()
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
