"""Beside a package that brings an earlier SDK, as langchain-mcp-adapters does, everything but MCP works."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import httpx
import pytest

from recall_loop.service.core.config import MCP_SINCE
from tests.service_server import ServiceProcess

pytestmark = pytest.mark.slow  # processes that load all of Chroma and LangGraph


@pytest.fixture
def earlier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An SDK of version 1 that processes find before the installed one; it has nothing of what is used of it."""
    packages = tmp_path / "packages"
    for name, text in (("mcp/__init__.py", ""), ("mcp-1.30.0.dist-info/METADATA", "Name: mcp\nVersion: 1.30.0\n")):
        (packages / name).parent.mkdir(parents=True)
        (packages / name).write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(packages))


@pytest.mark.usefixtures("earlier")
def test_the_command_names_the_version_and_what_to_install(tmp_path: Path) -> None:
    """Proves: OPS-6."""
    command = [sys.executable, "-m", "recall_loop.cli", "mcp", "--store", "./store"]
    done = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "pip install 'recall-loop[mcp]' first; installed is mcp 1.30.0" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("earlier")
def test_the_service_answers_without_mcp(tmp_path: Path) -> None:
    """Proves: OPS-1, OPS-6."""
    served = ServiceProcess(["--store", "./store"], tmp_path)
    try:
        served.ready()
        assert httpx.post(f"{served.url}/mcp", json={}).status_code == 404
    finally:
        served.end()


def test_the_version_asked_for_is_the_one_of_the_extra(root: Path) -> None:
    """Proves: OPS-6."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    (extra,) = project["optional-dependencies"]["mcp"]
    assert extra.startswith(f"mcp>={'.'.join(map(str, MCP_SINCE))},")
