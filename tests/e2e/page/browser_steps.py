"""What somebody does in a browser, and the browser that there is."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an app on a free port, and yield its root."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/"
    server.should_exit = True
    thread.join()


def tab_to(page: Any, selector: str, most: int = 150) -> None:
    """Go to an element as somebody without a mouse does."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("chosen => document.activeElement.matches(chosen)", selector):
            return
    raise AssertionError(f"the Tab key doesn't reach {selector}")


def texts(page: Any, selector: str) -> list[str]:
    return [str(text) for text in page.locator(selector).all_inner_texts()]


def keep_picture(page: Any, name: str, folder: Path | None) -> None:
    """Keep a screenshot for somebody to look at."""
    if folder is not None:
        page.screenshot(path=folder / name)


def until(page: Any, expression: str, seconds: float = 20) -> None:
    """Wait until an expression holds; the page's policy lets the browser evaluate none by itself."""
    end = time.monotonic() + seconds
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"not so: {expression}"
        page.wait_for_timeout(50)
