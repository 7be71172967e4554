"""Lives read from files: cases of a statement and its questions, or whole lives with their records (LIVE-8).

`docs/evaluation.md` describes both kinds of line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from recall_loop.evals.datasets.json_files import JsonItem, iter_lines
from recall_loop.evals.living.grammar import Grammar, Kind, load_grammar
from recall_loop.evals.living.life import Life, LifeQuestion, Part, Scenario
from recall_loop.evals.living.life_writer import LifeWriter, Matter
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.records.records import parse_record
from recall_loop.state.types import BodyText, Identifier

_ALLOWED = "a file of JSON Lines with cases or lives, or a folder of such files (*.jsonl)"


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Case(_Line):
    """A statement, a question for it in other words, and optionally a later correction and an unanswered question."""

    language: str
    said: BodyText
    question: BodyText
    kind: str = "case"
    correction: BodyText | None = None
    past_question: BodyText | None = None
    never_said: BodyText | None = None


class _Question(_Line):
    question: BodyText
    scenario: Scenario
    kind: str = "life"
    gold: tuple[Identifier, ...] = ()
    older: tuple[Identifier, ...] = ()
    repeats: int = Field(0, ge=0)
    user_id: Identifier | None = None


class _ScriptedLife(_Line):
    """A life as it is written, and the questions at the end."""

    id: Identifier
    language: str
    group: str | None = None
    alone: bool = Field(False, description="Whether there is one matter in it and nothing else.")
    records: tuple[dict[str, Any], ...] = Field(min_length=1)
    erased: tuple[Identifier, ...] = ()
    questions: tuple[_Question, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _known_ids(self) -> _ScriptedLife:
        known = {record.get("id") for record in self.records}
        named = [("questions", name) for question in self.questions for name in (*question.gold, *question.older)]
        for field, name in [*named, *(("erased", name) for name in self.erased)]:
            if name not in known:
                raise ValueError(f"{field}: ids of the life's records; {name!r} is none")
        return self


def read_lives(path: Path, part: Part | str = Part.DEV, seed: int = 0) -> list[Life]:
    """Return the lives of a file, or of all `*.jsonl` of a folder: lines with `records` are lives, all others cases.

    In the lives of a case stand answers of one who doesn't know: those of `part`, drawn with `seed`. A malformed line
    raises `InvalidInputError`, which names file, line and field.
    """
    files = sorted(path.glob("*.jsonl")) if path.is_dir() else [path] if path.is_file() else []
    lives = [life for file in files for line in iter_lines(file) for life in _lives_of_line(line, Part(part), seed)]
    if not lives:
        raise InvalidInputError("data", str(path), _ALLOWED)
    _require_distinct(lives)
    return lives


def _require_distinct(lives: list[Life]) -> None:
    seen: set[str] = set()
    for life in lives:
        if life.id in seen:
            raise InvalidInputError("id", life.id, "a different id for each life")
        seen.add(life.id)


def _lives_of_line(line: JsonItem, part: Part, seed: int) -> Iterator[Life]:
    if "records" in line.value:
        yield _scripted(validate_model(_ScriptedLife, line.value, line.location), line)
    else:
        yield from _case_lives(validate_model(_Case, line.value, line.location), line, part, seed)


def _case_lives(case: _Case, line: JsonItem, part: Part, seed: int) -> Iterator[Life]:
    """Yield a life for each scenario that a case has the sentences for."""
    grammar = _check_language(case.language, line)
    stem = f"{line.path.stem}:{line.number}"
    said = {name: (text,) for name, text in case.model_dump(exclude_none=True).items()}
    scripts: list[tuple[str, Callable[[Matter], None]]] = [
        ("once", Matter.once),
        ("echo", lambda matter: matter.echo(later=bool(line.number % 2), same_words=True)),
        ("repeated", Matter.repeated),
        ("forgotten", lambda matter: matter.forgotten(expired=bool(line.number % 2))),
    ]
    if case.correction:
        scripts.append(("corrected", Matter.corrected))
    if asked := case.never_said:
        scripts += [
            (name, partial(Matter.ask_unanswered, question=asked, asked_before=before))
            for name, before in (("unsaid", True), ("never", False))
        ]
    for name, script in scripts:
        writer = LifeWriter(f"{stem}:{name}", grammar, part, Random(f"{seed} {stem} {name}"))
        script(Matter(_kind(case, part), writer, said))
        yield writer.finish(stem, alone=True)


def _kind(case: _Case, part: Part) -> Kind:
    """Return a kind whose sentences are those of the case."""
    return Kind(
        name=case.kind,
        part=part,
        told=("{said}",),
        asked=("{question}",),
        corrected=("{correction}",),
        before=("{past_question}",) if case.past_question else (),
        never=("{never_said}",),
    )


def _scripted(found: _ScriptedLife, line: JsonItem) -> Life:
    """Return a life of which each line is a record: those of a session that follow each other are written together."""
    records = []
    for number, fields in enumerate(found.records):
        try:
            records.append(parse_record(fields))
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{line.location}.records.{number}.{error.field}", error.value, error.allowed
            ) from error
    sessions = groupby(records, key=lambda record: (record.conversation_id, record.session))
    questions = tuple(
        LifeQuestion(id=f"{found.id}:q{number}", **question.model_dump())
        for number, question in enumerate(found.questions)
    )
    written = tuple(tuple(session) for _, session in sessions)
    _check_language(found.language, line)
    group, language = found.group or found.id, found.language
    return Life(found.id, group, language, found.alone, written, questions, erased=found.erased)


def _check_language(language: str, line: JsonItem) -> Grammar:
    try:
        return load_grammar(language)
    except InvalidInputError as error:
        raise InvalidInputError(f"{line.location}.language", language, error.allowed) from error
