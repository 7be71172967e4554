"""tau-bench and tau2-bench as they are published: runs of agents at customers' tasks (OPS-4, TRAJ-1).

A file of tau-bench is a JSON list of runs (`task_id`, `trial`, `reward`, `info.task.instruction`, `traj`), one of
tau2-bench an object with `tasks` and `simulations`. The question is what the customer wants, and gold are the runs
that got the full reward at that task, whichever file they stand in. Runs are indexed without that text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from recall_loop.evals.datasets.dataset_parts import Document, LabelledQuestion, RawDataset
from recall_loop.evals.datasets.json_files import PublishedModel, first_byte, iter_items, read_json
from recall_loop.memory.trajectories.capture.runs_file import record_from_run
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.types import ContentType

COLLECTION = "tau"
_SUCCESS = 1.0
_ALLOWED = (
    "results of tau-bench or tau2-bench as published: a file, or a folder of *.json; `recall-loop trajectories add` "
    "stores runs of other files"
)
_Id = str | int


class _TauTask(PublishedModel):
    instruction: str


class _Info(PublishedModel):
    task: _TauTask | None = None  # a run that failed at once has none


class _TauRun(PublishedModel):
    task_id: _Id
    trial: int = 0
    reward: float
    info: _Info
    traj: list[dict[str, Any]]


class _Reward(PublishedModel):
    reward: float


class _Simulation(PublishedModel):
    task_id: _Id
    trial: int = 0
    reward_info: _Reward | None = None
    termination_reason: str | None = None
    start_time: str | None = None
    messages: list[dict[str, Any]]


class _Scenario(PublishedModel):
    instructions: str | dict[str, Any]


class _Tau2Task(PublishedModel):
    id: _Id
    user_scenario: _Scenario


class _Tau2File(PublishedModel):
    tasks: list[_Tau2Task]
    simulations: list[_Simulation] = Field(min_length=1)


@dataclass(frozen=True)
class _AgentRun:
    """One run: its location, what the customer wanted, and whether it was achieved."""

    location: str
    goal: str
    success: bool
    fields: dict[str, Any]


def read_tau(path: Path) -> RawDataset:
    """Read a file, or all `*.json` of a folder; an `InvalidInputError` names file, item and field."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise InvalidInputError("data", str(path), _ALLOWED)
    gold: dict[str, list[str]] = {}
    for run in _runs(files):
        found = gold.setdefault(run.goal, [])
        if run.success:
            found.append(run.fields["id"])
    questions = [
        LabelledQuestion(
            id=f"{COLLECTION}:{number}", collection=COLLECTION, question=wanted, category="same_task", gold=tuple(found)
        )
        for number, (wanted, found) in enumerate(gold.items())
    ]
    return RawDataset({COLLECTION: partial(_documents, files)}, questions, (ContentType.TRAJECTORY,))


def _documents(files: Sequence[Path]) -> Iterator[Document]:
    return (Document(run.location, run.fields, record_from_run) for run in _runs(files))


def _runs(files: Sequence[Path]) -> Iterator[_AgentRun]:
    for path in files:
        yield from _tau2(path) if first_byte(path) == b"{" else _tau(path)


def _tau(path: Path) -> Iterator[_AgentRun]:
    for item in iter_items(path):
        run = validate_model(_TauRun, item.value, item.location)
        if run.info.task is not None and run.traj:
            fields = _fields(path, run.task_id, run.trial, run.traj)
            yield _AgentRun(item.location, run.info.task.instruction, run.reward >= _SUCCESS, fields)


def _tau2(path: Path) -> Iterator[_AgentRun]:
    found = validate_model(_Tau2File, read_json(path), path.name)
    wanted = {task.id: _customer_goal(task, path) for task in found.tasks}
    for number, run in enumerate(found.simulations):
        place = f"{path.name}.simulations.{number}"
        if run.task_id not in wanted:
            raise InvalidInputError(f"{place}.task_id", run.task_id, "the id of one of the tasks")
        if run.messages:
            known = {"termination": run.termination_reason, "start_time": run.start_time}
            fields = _fields(path, run.task_id, run.trial, run.messages, known)
            reward = run.reward_info.reward if run.reward_info else 0.0
            yield _AgentRun(place, wanted[run.task_id], reward >= _SUCCESS, fields)


def _customer_goal(task: _Tau2Task, path: Path) -> str:
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
