"""Lives generated from a seed: each kind in each scenario by itself, and lives of several matters (LIVE-8).

The seed decides words, wordings and order; the grammar decides the kinds. The same seed gives the same lives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from recall_loop.evals.living.grammar import Grammar, Kind, draw_values, fill, load_grammar
from recall_loop.evals.living.life import Around, Form, Life, Part, Scenario
from recall_loop.evals.living.life_writer import LifeWriter, Matter
from recall_loop.evals.runs.prompts import draw_sample

_AUTHORS = (None, "Robin")
_OTHER_FORMS = (Form.LONG, Form.WITH_QUESTION, Form.FACT, Form.NOTE, Form.TOOL)
_FACTS_OF_A_TYPE = 3
_BLOCK = 5  # kinds that lives of several matters mix: lives of a block are held out together
_FULL_SHARE = 2  # a life of several matters for so many kinds
_FULL_SCENARIOS = (
    Scenario.ONCE,
    Scenario.ECHO,
    Scenario.CORRECTED,
    Scenario.UNSAID,
    Scenario.REPEATED,
    Scenario.NEVER,
)


def generate_lives(
    languages: Sequence[str], part: Part | str = Part.DEV, seed: int = 0, limit: int | None = None
) -> list[Life]:
    """Return the lives of some languages: all, or `limit` (1 or more) of them drawn with the seed."""
    chosen = Part(part)
    lives = [life for name in languages for life in _lives(load_grammar(name), chosen, seed)]
    return draw_sample(lives, limit, seed)


def _lives(grammar: Grammar, part: Part, seed: int) -> Iterator[Life]:
    for number, kind in enumerate(grammar.kinds_of(part)):
        yield from _KindLives(grammar, part, kind, number, seed).all()
    yield from _fact_lives(grammar, part, seed)
    count = -(-len(grammar.kinds_of(part)) // _FULL_SHARE)
    yield from (_full_life(grammar, part, number, seed) for number in range(count))


@dataclass(frozen=True)
class _KindLives:
    """The lives of one matter each that a kind has."""

    grammar: Grammar
    part: Part
    kind: Kind
    number: int
    seed: int

    def all(self) -> Iterator[Life]:
        """Yield a life for each scenario that the kind is fit for."""
        odd = bool(self.number % 2)
        yield self._life("once", Matter.once)
        form = _OTHER_FORMS[self.number % len(_OTHER_FORMS)]
        yield self._life(f"once-{form}", lambda matter: matter.once(form))
        yield self._life("echo", lambda matter: matter.echo(later=not odd, same_words=self.number % 4 < 2))
        for asked_before in (True, False):
            name = "unsaid" if asked_before else "never"
            yield self._life(f"{name}-near", self._unanswered(self.kind, self.kind.never, asked_before))
            other = self.grammar.kinds_of(self.part)[self.number - 1 - asked_before]
            yield self._life(f"{name}-far", self._unanswered(other, other.asked, asked_before))
        yield self._life("repeated", Matter.repeated)
        yield self._life("forgotten", lambda matter: matter.forgotten(expired=odd))
        if self.kind.changes:
            yield self._life("users", Matter.users)
        if self.kind.changes and self.kind.corrected:
            yield self._life("corrected", Matter.corrected)

    def _unanswered(self, other: Kind, questions: Sequence[str], asked_before: bool) -> Callable[[Matter], None]:
        """Ask for something never said: another detail of the same matter, or an unrelated question of a kind."""

        def script(matter: Matter) -> None:
            words = draw_values(self.grammar.choices(other), matter.writer.draw)
            values = {**words, **matter.values} if other is matter.kind else words
            question = fill(matter.writer.draw.choice(questions), values)
            matter.ask_unanswered(question, asked_before=asked_before)

        return script

    def _life(self, name: str, script: Callable[[Matter], None]) -> Life:
        stem = f"{self.grammar.language}:{self.part}:{self.kind.name}"
        draw = Random(f"{self.seed} {stem} {name}")
        writer = LifeWriter(f"{stem}:{name}", self.grammar, self.part, draw, _AUTHORS[self.number % len(_AUTHORS)])
        script(Matter(self.kind, writer))
        return writer.finish(_group(self.grammar, self.part, self.number), alone=True)


def _fact_lives(grammar: Grammar, part: Part, seed: int) -> Iterator[Life]:
    """Yield lives of one fact each, some of every type with other words."""
    for fact in grammar.facts_of(part):
        stem = f"{grammar.language}:{part}:fact:{fact.type}"
        for number in range(_FACTS_OF_A_TYPE):
            name = f"{stem}:{number}"
            writer = LifeWriter(name, grammar, part, Random(f"{seed} {name}"))
            values = draw_values(grammar.choices(fact), writer.draw)
            gold = writer.write_fact(fact, values)
            writer.ask(fill(fact.asked, values), Scenario.FACT, fact.type, form=Form.FACT, gold=(gold,))
            yield writer.finish(stem, alone=True, around=Around.FACTS)


def _full_life(grammar: Grammar, part: Part, number: int, seed: int) -> Life:
    """Return a life of several matters, with small talk between and sessions that mix them."""
    stem = f"{grammar.language}:{part}:life:{number}"
    draw = Random(f"{seed} {stem}")
    kinds, blocks = grammar.kinds_of(part), -(-len(grammar.kinds_of(part)) // _BLOCK)
    block = number % blocks
    chosen = kinds[block * _BLOCK : (block + 1) * _BLOCK]
    draw.shuffle(chosen)
    writer = LifeWriter(stem, grammar, part, draw, _AUTHORS[number % len(_AUTHORS)], opened=True)
    turn = number % len(_FULL_SCENARIOS)
    for kind, scenario in zip(chosen, _FULL_SCENARIOS[turn:] + _FULL_SCENARIOS[:turn], strict=False):
        writer.session()
        writer.chat()
        _live(Matter(kind, writer), scenario)
        writer.chat()
    return writer.finish(_group(grammar, part, block * _BLOCK), alone=False)


def _group(grammar: Grammar, part: Part, number: int) -> str:
    """Return the group of the lives of a kind, by its number, and of the kinds that it is mixed with."""
    return f"{grammar.language}:{part}:{number // _BLOCK}"


def _live(matter: Matter, scenario: Scenario) -> None:
    kind, draw = matter.kind, matter.writer.draw
    if scenario is Scenario.ECHO:
        matter.echo(later=draw.random() < 0.5, same_words=draw.random() < 0.5)
    elif scenario in (Scenario.UNSAID, Scenario.NEVER):
        matter.ask_unanswered(matter.any(kind.never), asked_before=scenario is Scenario.UNSAID)
    elif scenario is Scenario.REPEATED:
        matter.repeated()
    elif scenario is Scenario.CORRECTED and kind.changes and kind.corrected:
        matter.corrected()
    else:
        matter.once(draw.choice((Form.PLAIN, Form.LONG, Form.WITH_QUESTION)))
