"""tau-bench and tau2-bench as they are published: runs of agents at customers' tasks (OPS-4, TRAJ-1).

A file of tau-bench is a JSON list of runs (`task_id`, `trial`, `reward`, `info.task.instruction`, `traj`), one of
tau2-bench an object with `tasks` and `simulations`. The question is what the customer wants, and gold are the runs
that got the full reward at that task, whichever file they stand in. Runs are indexed without that text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from recall_loop.evals.datasets.dataset_parts import Document, Source
from recall_loop.evals.datasets.json_items import list_items
from recall_loop.evals.datasets.questions import Question
from recall_loop.memory.trajectories.capture.runs_file import record_of_run
from recall_loop.state.errors import InvalidInputError, parse
from recall_loop.state.types import ContentType

COLLECTION = "tau"
_SUCCESS = 1.0
_Id = str | int


class _Task(BaseModel):
    model_config = ConfigDict(extra="ignore")

    instruction: str


class _Info(BaseModel):
    model_config = ConfigDict(extra="ignore")

    task: _Task | None = None  # a run that broke off at once has none


class _Tau(BaseModel):
    model_config = ConfigDict(extra="ignore")

    task_id: _Id
    trial: int = 0
    reward: float
    info: _Info
    traj: list[dict[str, Any]]


class _Reward(BaseModel):
    model_config = ConfigDict(extra="ignore")

    reward: float


class _Simulation(BaseModel):
    model_config = ConfigDict(extra="ignore")

    task_id: _Id
    trial: int = 0
    reward_info: _Reward | None = None
    termination_reason: str | None = None
    start_time: str | None = None
    messages: list[dict[str, Any]]


class _Scenario(BaseModel):
    model_config = ConfigDict(extra="ignore")

    instructions: str | dict[str, Any]


class _Task2(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: _Id
    user_scenario: _Scenario


class _Tau2(BaseModel):
    model_config = ConfigDict(extra="ignore")

    tasks: list[_Task2]
    simulations: list[_Simulation] = Field(min_length=1)


@dataclass(frozen=True)
class _Run:
    """One run: where it stands, what the customer wanted, and whether that came about."""

    place: str
    wanted: str
    success: bool
    fields: dict[str, Any]


def read_tau(path: Path) -> Source:
    """Read a file, or all `*.json` of a folder.

    Raises:
        InvalidInputError: names file, item and field.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    gold: dict[str, list[str]] = {}
    for run in _runs(files):
        found = gold.setdefault(run.wanted, [])
        if run.success:
            found.append(run.fields["id"])
    questions = [
        Question(
            id=f"{COLLECTION}:{number}", collection=COLLECTION, question=wanted, category="same_task", gold=tuple(found)
        )
        for number, (wanted, found) in enumerate(gold.items())
    ]
    return Source({COLLECTION: partial(_documents, files)}, questions, (ContentType.TRAJECTORY,))


def _documents(files: Sequence[Path]) -> Iterator[Document]:
    return (Document(run.place, run.fields, record_of_run) for run in _runs(files))


def _runs(files: Sequence[Path]) -> Iterator[_Run]:
    for path in files:
        yield from _tau2(path) if _is_object(path) else _tau(path)


def _is_object(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


def _tau(path: Path) -> Iterator[_Run]:
    for item in list_items(path):
        run = parse(_Tau, item.value, item.place)
        if run.info.task is not None and run.traj:
            fields = _fields(path, run.task_id, run.trial, run.traj)
            yield _Run(item.place, run.info.task.instruction, run.reward >= _SUCCESS, fields)


def _tau2(path: Path) -> Iterator[_Run]:
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(path.name, str(error) or "nested too deeply", "JSON in UTF-8") from error
    found = parse(_Tau2, value, path.name)
    wanted = {task.id: _wanted(task, path) for task in found.tasks}
    for number, run in enumerate(found.simulations):
        place = f"{path.name}.simulations.{number}"
        if run.task_id not in wanted:
            raise InvalidInputError(f"{place}.task_id", run.task_id, "the id of one of the tasks")
        if run.messages:
            known = {"termination": run.termination_reason, "start_time": run.start_time}
            fields = _fields(path, run.task_id, run.trial, run.messages, known)
            reward = run.reward_info.reward if run.reward_info else 0.0
            yield _Run(place, wanted[run.task_id], reward >= _SUCCESS, fields)


def _wanted(task: _Task2, path: Path) -> str:
    """Return what a customer wants: the reason for the call where the instructions are taken apart."""
    given = task.user_scenario.instructions
    text = given if isinstance(given, str) else given.get("reason_for_call") or given.get("task_instructions")
    if not isinstance(text, str) or not text.strip():
        place = f"{path.name}.tasks.{task.id}.user_scenario.instructions"
        raise InvalidInputError(place, given, "a text, or fields with a reason_for_call")
    return text


def _fields(
    path: Path, task: _Id, trial: int, messages: list[dict[str, Any]], known: dict[str, Any] | None = None
) -> dict[str, Any]:
    given = {name: value for name, value in (known or {}).items() if value}
    return {"id": f"{path.stem}:{task}:{trial}", "kind": "trajectory", "messages": messages, **given}
