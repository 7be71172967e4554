"""The page with keys of two tenants, in a real browser: it shows only the chosen key's tenant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.service.access.api_keys import KeyRole, add_key
from recall_loop.service.app import create_app
from recall_loop.service.core.config import ServiceConfig
from recall_loop.state.settings.settings import Settings
from tests.e2e.page.browser_steps import BROWSER, served, texts, until

TEXTS = {"acme": "The ferry to Ulvey leaves at nine.", "beta": "The bakery opens at six."}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    file = tmp_path_factory.mktemp("page-keys") / "keys.json"
    plain = {tenant: add_key(file, tenant, KeyRole.WRITE)[1] for tenant in TEXTS}
    return file, plain | {"reads": add_key(file, "acme", KeyRole.READ)[1], "empty": add_key(file, "e", KeyRole.READ)[1]}


@pytest.fixture(scope="module")
def address(keys: tuple[Path, dict[str, str]], embedder: MiniLmEmbedder) -> Iterator[str]:
    path = keys[0].parent / "store"
    with MemoryStore.open(path, embedder=embedder) as store:
        for tenant, text in TEXTS.items():
            store.upsert([{"id": "a", "kind": "fact", "text": text}], tenant=tenant)
    app = create_app(ServiceConfig(keys_file=keys[0]), settings=Settings(store_path=str(path)), embedder=embedder)
    with served(app) as root:
        yield root


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Any]:
    """The page, which may be told that something is refused: the browser reports that on its console."""
    opened = browser.new_page()
    opened.goto(address)
    opened.wait_for_selector("#types input", state="attached")
    yield opened
    opened.close()


def give_key(page: Any, key: str) -> None:
    page.fill("#key", key)
    page.press("#key", "Enter")


def test_another_key_shows_its_own_tenant_and_nothing_of_the_last(
    visit: Any, keys: tuple[Path, dict[str, str]]
) -> None:
    """Proves: PAGE-1."""
    visit.click("#tab-memory")
    visit.wait_for_selector("#browse-problem .problem")
    visit.click("header summary")
    give_key(visit, keys[1]["acme"])
    visit.wait_for_selector("#records .card")
    assert texts(visit, "#browse-problem") == [""]
    visit.click("#records .card button")
    visit.wait_for_selector("#record-shown article")
    visit.click("#tab-ask")
    visit.fill("#question", "When does the ferry leave?")
    visit.keyboard.press("Enter")
    visit.wait_for_selector("#facts li")
    give_key(visit, keys[1]["beta"])
    assert visit.is_hidden("#run") and "ferry" not in visit.text_content("#run")
    visit.click("#tab-memory")
    until(visit, "document.querySelector('#records')?.innerText.includes('bakery')")
    assert "ferry" not in visit.inner_text("#records") + visit.inner_text("#record-shown")


def test_a_missing_or_wrong_key_is_reported_at_once(visit: Any, keys: tuple[Path, dict[str, str]]) -> None:
    """Proves: PAGE-1 (also one with characters that no header carries, as texts from elsewhere have them)."""
    visit.wait_for_selector("#welcome .problem")
    visit.click("header summary")
    for key in ("rl_none", "\u201crl_none\u201d", "schlüssel 🔑"):
        give_key(visit, key)
        visit.wait_for_selector("#welcome .problem:has-text('A valid API key is needed')")
        visit.fill("#question", "When does the ferry leave?")
        visit.press("#question", "Enter")
        visit.wait_for_selector("#ask-problem .problem:has-text('A valid API key is needed')")
    give_key(visit, keys[1]["acme"])
    visit.wait_for_selector("#welcome .card")


def test_a_question_without_a_key_is_reported_as_failed(visit: Any) -> None:
    """Proves: OPS-1. What a screen reader is told doesn't stay at "Searching"."""
    visit.fill("#question", "When does the ferry leave?")
    visit.press("#question", "Enter")
    visit.wait_for_selector("#ask-problem .problem")
    assert visit.text_content("#said") == "The request failed"


def test_a_repeated_write_failure_is_reported_once(visit: Any, keys: tuple[Path, dict[str, str]]) -> None:
    """Proves: PAGE-1."""
    visit.click("header summary")
    give_key(visit, keys[1]["acme"])
    visit.click("#tab-memory")
    visit.click("#records .card button")
    visit.click("#record-shown button:has-text('Edit')")
    visit.fill("#record-shown textarea[name=text]", "   ")
    for _ in range(2):
        with visit.expect_response(lambda response: response.request.method == "PATCH"):
            visit.click("#record-shown button:has-text('Save')")
        visit.wait_for_selector("#record-shown .problem")
    assert visit.locator("#record-shown .problem").count() == 1
    assert visit.input_value("#record-shown textarea[name=text]") == "   "


def test_a_read_only_key_sees_no_write_actions_and_the_reason(visit: Any, keys: tuple[Path, dict[str, str]]) -> None:
    """Proves: PAGE-1 (another key is offered it again)."""
    visit.click("header summary")
    give_key(visit, keys[1]["empty"])
    visit.wait_for_selector("#welcome :text('may only read the memory of e')")
    assert visit.locator("#welcome button").count() == 0
    give_key(visit, keys[1]["reads"])
    visit.click("#tab-memory")
    visit.click("#records .card button")
    visit.wait_for_selector("#record-shown article")
    assert "may only read the memory of acme" in visit.inner_text("#add-refused")
    assert "may only read" in visit.inner_text("#record-shown") and visit.is_hidden("#add-one")
    assert texts(visit, "#record-shown .row button") == ["Close"]
    give_key(visit, keys[1]["acme"])
    visit.click("#records .card button")
    visit.wait_for_selector("#record-shown article")
    assert visit.is_visible("#add-one") and visit.is_hidden("#add-refused")
    assert texts(visit, "#record-shown .row button") == ["Edit", "Set expiry", "Erase", "Close"]
