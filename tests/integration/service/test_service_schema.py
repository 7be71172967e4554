"""The OpenAPI document against the service, by schemathesis; `make schema` is the long run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from recall_loop.service.access.api_keys import KeyRole, add_key
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import running_service

pytestmark = pytest.mark.slow

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "ignored_auth",
)
RUN = """
{"id":"r-1","messages":[{"role":"user","content":"Book the ferry."},{"role":"assistant","content":"Done."}]}
"""


@pytest.mark.timeout(3600 if "SCHEMA_PHASES" in os.environ else 120)
def test_the_service_does_what_its_document_says(tmp_path):
    """No 5xx, and no answer that isn't documented. Proves: OPS-1."""
    keys = tmp_path / "keys.json"
    _, key = add_key(keys, "acme", KeyRole.ADMIN)
    limits = {"rate_per_minute": 10_000_000, "rate_burst": 1_000_000, "keys_file": keys}
    with (
        running_service(config=limits, settings=Settings(), embedder=WordHashEmbedder()) as served,
        served.client(key) as client,
    ):
        client.put("/api/memory/records/f-12", json={"kind": "fact", "text": "Ada works at the harbour office."})
        client.post("/api/trajectories", content=RUN, headers={"Content-Type": "application/json"})
        words = [
            *(sys.executable, "-c", "import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())"),
            *("run", f"{served.url}/openapi.json", "-H", f"Authorization: Bearer {key}"),
            *("--phases", os.environ.get("SCHEMA_PHASES", "examples,fuzzing")),
            *("-n", os.environ.get("SCHEMA_EXAMPLES", "2"), "-c", ",".join(CHECKS)),
            *("--generation-deterministic", "--continue-on-failure", "--no-color", "--warnings", "off"),
            *("--suppress-health-check", "all", "--request-timeout", "60"),
        ]
        hooks = str(Path(__file__).parents[2] / "schema_hooks.py")
        done = subprocess.run(
            words,
            check=False,
            env={**os.environ, "SCHEMATHESIS_HOOKS": hooks},
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 generated" not in done.stdout
