"""The requests in the documentation work as described (OPS-1)."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import httpx

from recall_loop.service.access.api_keys import KeyRole, add_key
from recall_loop.service.core.problems import _DETAILS, _TITLES, Problem
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import running_service

_FENCE = re.compile(r"^```(?:sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SERVED = "http://127.0.0.1:8321"


def curls(page: Path) -> list[list[str]]:
    """Return the words of each curl command of a page."""
    code = "".join(_FENCE.findall(page.read_text(encoding="utf-8"))).replace("\\\n", " ")
    words = shlex.split(code.replace("$(", "("), comments=True)
    starts = [at for at, word in enumerate(words) if word == "curl"]
    ends = [*starts[1:], len(words)]
    return [words[start + 1 : end] for start, end in zip(starts, ends, strict=True)]


def send(words: list[str], client: httpx.Client, key: str) -> httpx.Response:
    """Do what curl does with the words that the documentation uses; any other is an error."""
    method, headers, body, url = "", {}, None, ""
    left = iter(words)
    for word in left:
        if word == "-X":
            method = next(left)
        elif word == "-H":
            name, _, value = next(left).partition(": ")
            headers[name] = value.replace("$KEY", key)
        elif word == "-d":
            body = next(left)
        elif word.startswith(_SERVED):
            url = word.removeprefix(_SERVED)
        elif word in ("-s", "-sN"):
            continue
        else:
            break  # the next command of the block
    return client.request(method or ("POST" if body else "GET"), url, headers=headers, content=body)


def test_the_requests_of_the_page_work(root: Path, tmp_path: Path) -> None:
    """Proves: OPS-1."""
    keys = tmp_path / "keys.json"
    _, key = add_key(keys, "acme", KeyRole.WRITE)
    commands = curls(root / "docs" / "http.md")
    assert len(commands) > 6
    served = running_service(settings=Settings(), embedder=WordHashEmbedder(), config={"keys_file": keys})
    with served as service, service.client() as client:
        answers = [send(words, client, key) for words in commands]
    for words, answer in zip(commands, answers, strict=True):
        assert answer.is_success, (words, answer.text)
    written, retrieved, streamed = answers[:3]
    assert [one["status"] for one in written.json()["outcomes"]] == ["created", "created"]
    assert retrieved.json()["facts"][0]["id"] in ("f1", "m1")
    assert streamed.text.startswith("event: accepted")


def test_the_problem_that_the_page_shows_is_one(root: Path) -> None:
    """Proves: OPS-1 (its example, and a row for each status)."""
    text = (root / "docs" / "http.md").read_text(encoding="utf-8")
    shown = json.loads(re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[0])
    assert set(shown) == set(Problem.model_fields)
    rows = "".join(line.split("|")[1] for line in text.splitlines() if re.match(r"\| \d{3}", line))
    for status in {*_TITLES, *_DETAILS}:
        assert str(status) in rows


def test_every_route_has_examples_or_words(root: Path, tmp_path: Path) -> None:
    """Proves: OPS-1 (OpenAPI: a summary and a description for each operation)."""
    from recall_loop.service.app import create_app

    schema = create_app(settings=Settings(), embedder=WordHashEmbedder()).openapi()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation.get("summary"), (method, path)
            assert operation.get("description"), (method, path)
