"""The requests on the page of records, runs and erasure work as described (OPS-1)."""

from __future__ import annotations

import json
import re
from pathlib import Path

from recall_loop.service.access.api_keys import KeyRole, add_key
from recall_loop.service.app import create_app
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.integration.service.test_service_docs import curls, send
from tests.service_server import running_service

PAGE = "http-records.md"


def test_the_requests_of_the_page_work(root: Path, tmp_path: Path) -> None:
    """Proves: OPS-1, STORE-6."""
    keys = tmp_path / "keys.json"
    _, key = add_key(keys, "acme", KeyRole.ADMIN)
    shown = re.findall(r"^```json\n(.*?)^```$", (root / "docs" / PAGE).read_text(encoding="utf-8"), re.M | re.S)
    files = {"--data-binary": "-d", "@records.jsonl": shown[0]}
    commands = [[files.get(word, word) for word in words] for words in curls(root / "docs" / PAGE)]
    served = running_service(settings=Settings(), embedder=WordHashEmbedder(), config={"keys_file": keys})
    with served as service, service.client() as client:
        answers = [send(words, client, key) for words in commands]
    for words, answer in zip(commands, answers, strict=True):
        assert answer.is_success, (words, answer.text)
    assert answers[6].text == shown[1]
    assert answers[7].json()["hits"][0]["id"] == "m-3"
    found = answers[9].json()
    assert [run["id"] for run in found["failures"] + found["relevant_experiences"]] == ["r-1"]
    assert answers[-1].json()["compacted"]


def test_the_page_names_every_address(root: Path) -> None:
    """Proves: OPS-1."""
    page = (root / "docs" / PAGE).read_text(encoding="utf-8")
    paths = create_app(settings=Settings(), embedder=WordHashEmbedder()).openapi()["paths"]
    for path, methods in paths.items():
        if not re.match("/api/(memory/(add|export|forget|history|records|search|erasure)|trajectories)", path):
            continue
        for method in methods:
            row = re.compile(rf"{method.upper()}.*{re.escape(re.sub('{.*?}', '{id}', path))}`")
            assert any(row.search(line) for line in page.splitlines()), (method, path)


def test_examples_of_the_document_are_sound(root: Path) -> None:
    """Each example of a request body is accepted. Proves: OPS-1."""
    with running_service(settings=Settings(), embedder=WordHashEmbedder()) as served, served.client() as client:
        document = client.get("/openapi.json").json()
        sent = 0
        for path, methods in document["paths"].items():
            if path.startswith(("/api/memory/retrieve", "/health")):
                continue
            for method, operation in methods.items():
                for body in examples(operation, document):
                    address = re.sub("{.*?}", "r-1" if "trajectories" in path else "f-12", path)
                    answer = client.request(method.upper(), address, json=body)
                    refused = answer.status_code == 422 and path.endswith("erasure") and body["of"] == "tenant"
                    assert answer.is_success or refused, (method, path, body, answer.text)
                    sent += 1
    assert sent >= 10


def examples(operation: dict, document: dict) -> list:
    media = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
    found = document["components"]["schemas"].get(name, {}).get("examples", [])
    return [json.loads(json.dumps(one)) for one in found] + [one["value"] for one in media.get("examples", {}).values()]
