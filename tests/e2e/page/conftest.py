"""The service with a store, and a real browser on its page. Screenshots go to the folder that SCREENSHOTS names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.service.app import create_app
from recall_loop.service.core.config import ServiceConfig
from recall_loop.state.settings.settings import Settings
from tests.e2e.page.browser_steps import ARGUMENTS, BROWSER, served


@pytest.fixture(scope="module")
def address(memory: Path, embedder: MiniLmEmbedder) -> Iterator[str]:
    app = create_app(ServiceConfig(), settings=Settings(store_path=str(memory)), embedder=embedder)
    with served(app) as root:
        yield root


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=BROWSER, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Any, address: str) -> Iterator[Any]:
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    said: list[str] = []
    opened.on("console", lambda message: said.append(message.text) if message.type in ("error", "warning") else None)
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.goto(address)
    opened.wait_for_selector("#types input", state="attached")  # what the page's scripts make
    yield opened
    opened.close()
    assert said == []


@pytest.fixture(scope="module")
def screenshots() -> Path | None:
    """Where they are kept."""
    if not (named := os.environ.get("SCREENSHOTS")):
        return None
    folder = Path(named)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
