"""Prompt sets of a replay: JSON Lines of requests, such as a log of the service, and their labels (OPS-4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from recall_loop.evals.datasets.json_files import JsonItem, PublishedModel, iter_lines
from recall_loop.evals.runs.prompts import UNLABELLED, ReplayPrompt
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.types import Identifier


class _Labels(PublishedModel):
    """Labels of the answer; other keys of a log line are ignored."""

    gold: tuple[Identifier, ...] = ()
    answerable: bool | None = None
    category: Identifier = UNLABELLED


class _GoldLabels(_Labels):
    id: Identifier


def read_requests(path: Path, tenant: str, gold: Path | None = None) -> list[ReplayPrompt]:
    """Read a file of requests, one JSON object a line.

    A line is a `RetrieveRequest` that may also have `gold`, `answerable` and `category`; or an object with the
    request under `request`, as logs have it, whose other keys are left unread. A request without a tenant takes
    `tenant`; one without an id is called by its line. `gold` names a file whose lines say `id` and those labels:
    they count instead of what stands in the requests.

    Raises:
        InvalidInputError: a line is malformed, or a label has no request; names file, line and field.
        OSError: a file can't be read.
    """
    prompts = [_prompt(line, tenant) for line in iter_lines(path)]
    if not prompts:
        raise InvalidInputError("requests", str(path), "a file with at least one request")
    return prompts if gold is None else _labelled(prompts, gold)


def _prompt(line: JsonItem, tenant: str) -> ReplayPrompt:
    value, place = line.value, line.location
    labels = validate_model(_Labels, value, place)
    if "request" in value:
        fields = value["request"]
        if not isinstance(fields, Mapping):
            raise InvalidInputError(f"{place}.request", fields, "the fields of a request")
    else:
        fields = {name: each for name, each in value.items() if name not in _Labels.model_fields}
    request = validate_model(RetrieveRequest, {"id": f"line-{line.number}", "tenant": tenant} | dict(fields), place)
    return ReplayPrompt(request, labels.gold, labels.answerable, labels.category)


def _labelled(prompts: Sequence[ReplayPrompt], path: Path) -> list[ReplayPrompt]:
    known: dict[str, _GoldLabels] = {}
    ids = {prompt.request.id for prompt in prompts}
    for line in iter_lines(path):
        label = validate_model(_GoldLabels, line.value, line.location)
        if label.id in known or label.id not in ids:
            raise InvalidInputError(f"{line.location}.id", label.id, "the id of a request, once")
        known[label.id] = label
    return [_with_labels(prompt, known.get(prompt.request.id or "")) for prompt in prompts]


def _with_labels(prompt: ReplayPrompt, label: _GoldLabels | None) -> ReplayPrompt:
    if label is None:
        return prompt
    return replace(prompt, gold=label.gold, answerable=label.answerable, category=label.category)
