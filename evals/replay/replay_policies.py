"""The policies that a replay compares, and the prompts it runs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from recall_loop.evals.datasets.dataset_parts import GoldIds
from recall_loop.evals.datasets.json_files import JsonItem, PublishedModel, iter_lines
from recall_loop.evals.replay.old_policy import OLD, OldPolicy
from recall_loop.evals.runs.loop_policy import NEW, LoopPolicy, Policy
from recall_loop.evals.runs.prompts import UNLABELLED, ReplayPrompt
from recall_loop.state.errors import InvalidInputError, validate_model
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import Identifier

_ALLOWED = "old, new, or a TOML file with a table [settings], and a name where the file's isn't it"
_STORE_SETTINGS = tuple(name for name in Settings.model_fields if name.startswith(("chroma_", "openai_")))
# Settings that all policies of a replay share, or they wouldn't answer the same request from the same store.
_SHARED = {
    **dict.fromkeys(
        (*_STORE_SETTINGS, "embedder", "minilm_weights"),
        "left out: the store and its embedder are the same for all policies",
    ),
    "store_path": "left out: --store names the store",
    "tenant": "left out: each request names its own",
    "max_facts": "left out: the request, or the largest of --k, decides it",
}


def read_policies(named: Sequence[str]) -> list[Policy]:
    """Return the policies that `named` asks for, each `old`, `new` or the path of a TOML file.

    All take their settings from the environment, a language model apart: only a file that sets `llm_model` uses one. A
    policy that is unknown or comes twice, and a setting that is unknown, out of range or shared by all policies, raise
    `InvalidInputError`.
    """
    policies = [_read_policy(name) for name in named]
    names = [policy.name for policy in policies]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInputError("policy", name, "policies with different names")
    return policies


def _read_policy(named: str) -> Policy:
    if named == OLD:
        return OldPolicy(Settings(llm_model=None))
    if named == NEW:
        return LoopPolicy(Settings(llm_model=None))
    if not named.endswith(".toml"):
        raise InvalidInputError("policy", named, _ALLOWED)
    path = Path(named)
    values, name = _overrides(path)
    return LoopPolicy(Settings(**({"llm_model": None} | values)), name)


def _overrides(path: Path) -> tuple[dict[str, Any], str]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(path.name, str(error), "a file in TOML") from None
    values, name = content.get("settings"), content.get("name", path.stem)
    if set(content) - {"name", "settings"} or not isinstance(values, dict):
        raise InvalidInputError(path.name, sorted(content), "a name and a table [settings]")
    if not isinstance(name, str) or not name.strip():
        raise InvalidInputError(f"{path.name}.name", name, "a text")
    for key in values:
        if key in _SHARED:
            raise InvalidInputError(f"{path.name}.settings.{key}", values[key], _SHARED[key])
    return values, name.strip()


class _Labels(PublishedModel):
    """Labels of the answer; other keys of a log line are ignored."""

    gold: GoldIds = ()
    answerable: bool | None = None
    category: Identifier = UNLABELLED


class _GoldLabels(_Labels):
    id: Identifier


def read_requests(path: Path, tenant: str, gold: Path | None = None) -> list[ReplayPrompt]:
    """Read a file of requests, one JSON object a line; a malformed one raises `InvalidInputError`.

    A line is a `RetrieveRequest` that may also have `gold`, `answerable` and `category`; or an object with the
    request under `request`, as logs have it, whose other keys are left unread. A request without a tenant takes
    `tenant`; one without an id is called by its line. `gold` names a file whose lines say `id` and those labels:
    they override those in the requests.
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
        labels = validate_model(_GoldLabels, line.value, line.location)
        if labels.id in known or labels.id not in ids:
            raise InvalidInputError(f"{line.location}.id", labels.id, "the id of a request, once")
        known[labels.id] = labels
    return [
        replace(prompt, gold=label.gold, answerable=label.answerable, category=label.category)
        if (label := known.get(prompt.request.id or ""))
        else prompt
        for prompt in prompts
    ]
