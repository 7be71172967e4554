"""The Memory view in a real browser: by keyboard alone, on a small screen, in dark mode, checked with axe-core."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from tests.e2e.page.browser_steps import BROWSER, keep_picture, tab_to, texts, until

HOSTILE = '<img src=x onerror="document.title=1"> the kelp dryer is broken'
TAGS = ["oak, ash", " two\nlines", "creaks"]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory, embedder: MiniLmEmbedder) -> Path:
    path = tmp_path_factory.mktemp("memory-view") / "store"
    told = [
        {"id": "m1", "text": "I moved to Bergen.", "author": "Ada", "user_id": "ada", "conversation_id": "c"},
        {"id": "m2", "text": "Did the ferry leave?", "author": "Bo", "user_id": "bo", "agent_id": "lena"},
        {"id": "hostile", "kind": "archival", "label": "<b>Kelp</b>", "text": HOSTILE},
        {"id": "old", "kind": "fact", "subject": "Ada", "text": "Ada lives in Oslo.", "valid_until": "2024-06-01"},
        {"id": "new", "kind": "fact", "subject": "Ada", "text": "Ada lives in Bergen.", "source_ids": ["m1", "gone"]},
    ]
    dated = [{**record, "created_at": f"2024-05-{day:02}T09:00:00Z"} for day, record in enumerate(told, start=1)]
    dated[3]["superseded_by"] = "new"
    told_with_tags = {"id": "tagged", "kind": "archival", "text": "The stairs creak.", "tags": TAGS}
    many = [{"id": f"n{at:03}", "kind": "archival", "text": f"Buoy {at} is red."} for at in range(120)]
    with MemoryStore.open(path, embedder=embedder) as store:
        store.upsert([*dated, *({**one, "created_at": "2023-01-01T00:00:00Z"} for one in (*many, told_with_tags))])
    return path


def open_view(page: Any) -> None:
    tab_to(page, "#tab-ask")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#records .card")


def shown(page: Any) -> list[str]:
    return texts(page, "#records .card .plain")


def enter(page: Any, selector: str) -> None:
    tab_to(page, selector, 400)
    page.keyboard.press("Enter")


def test_a_memory_is_read_changed_and_erased_with_the_keyboard_alone(page: Any, screenshots: Path | None) -> None:
    """Proves: PAGE-1."""
    open_view(page)
    assert [text.startswith("fact") for text in shown(page)[:3]] == [True, True, False]
    assert "50 records shown, newest first; there are more" in page.inner_text("#browse-said")
    enter(page, "#records li:first-child button")
    page.wait_for_selector("#record-shown article")
    assert page.evaluate("document.activeElement.id") == "record-shown"
    article = page.inner_text("#record-shown")
    for words in ("Ada lives in Bergen.", "Supersedes", "Ada lives in Oslo.", "Drawn from", "I moved to Bergen."):
        assert words in article
    assert "1 source no longer there" in article and "It was never changed." in article
    assert "Not recalled since" in article
    keep_picture(page, "memory.png", screenshots)
    enter(page, '#record-shown section[aria-label="Drawn from"] button')
    page.wait_for_selector('#record-shown article[aria-label="Record m1"]')
    assert "Facts drawn from it" in page.inner_text("#record-shown")
    enter(page, "#record-shown .row button:nth-child(1)")
    assert page.evaluate("document.activeElement.name") == "text"
    page.keyboard.press("Control+A")
    page.keyboard.type("I moved to Bergen in May.")
    enter(page, "#record-shown form button[type=submit]")
    page.wait_for_selector("#record-shown summary:has-text('1 earlier version')")
    assert "I moved to Bergen in May." in page.inner_text("#record-shown .text")
    enter(page, "#record-shown .row button:nth-child(2)")
    page.keyboard.type("01012099")
    enter(page, "#record-shown form button[type=submit]")
    page.wait_for_selector("#record-shown dd:has-text('2099-01-01')")
    enter(page, "#record-shown .row button:nth-child(3)")
    ask = page.inner_text("#record-shown form")
    assert "with 2 earlier versions" in ask and "Also 1 fact drawn from it" in ask
    assert page.evaluate("document.activeElement.name") == "derived"
    page.keyboard.press("Space")
    enter(page, "#record-shown form button[type=submit]")
    page.wait_for_selector("#record-shown p[role=status]")
    assert page.inner_text("#record-shown") == "Erased 2 records."
    assert not any("Bergen" in text for text in shown(page))


def test_records_are_filtered_searched_paged_and_added(page: Any) -> None:
    """Proves: PAGE-1."""
    open_view(page)
    assert "<b>Kelp</b>" in " ".join(shown(page)) and page.locator("#records img, #records b").count() == 0
    enter(page, "#more")
    until(page, "document.querySelectorAll('#records > li').length === 100")
    assert page.evaluate("document.activeElement.closest('#records > li') !== null")
    page.select_option("#browse-kind", "message")
    until(page, "document.querySelectorAll('#records > li').length < 10")
    assert all(text.startswith("message") for text in shown(page))
    page.select_option("#browse-act", "question")
    until(page, "document.querySelectorAll('#records > li').length === 1")
    assert "Did the ferry leave?" in shown(page)[0]
    page.select_option("#browse-kind", "")
    page.select_option("#browse-act", "")
    page.fill("#browse [name=agent_id]", "lena")
    page.fill("#browse [name=from]", "2024-05-02")
    page.press("#browse-query", "Enter")
    until(page, "document.querySelectorAll('#records > li').length === 1")
    page.fill("#browse [name=agent_id]", "")
    page.fill("#browse [name=from]", "")
    page.fill("#browse-query", "kelp dryr")
    page.press("#browse-query", "Enter")
    page.wait_for_selector("#browse-said:has-text('best first')")
    assert "kelp dryer" in shown(page)[0]
    page.fill("#browse-query", "")
    page.press("#browse-query", "Enter")
    page.wait_for_selector("#browse-said:has-text('newest first')")
    enter(page, "#add-one summary")
    tab_to(page, "#add-text")
    page.keyboard.type("The boathouse is locked.")
    enter(page, "#add button[type=submit]")
    page.wait_for_selector("#browse-said:has-text('Saved as')")
    assert "The boathouse is locked." in shown(page)[0]
    page.fill("#browse [name=user_id]", "nobody")
    page.press("#browse-query", "Enter")
    page.wait_for_selector("#browse-said:has-text('No record matches')")


def test_an_edit_keeps_tags_of_any_characters_and_takes_further_ones(page: Any) -> None:
    """Proves: PAGE-1."""
    open_view(page)
    page.fill("#browse-query", "stairs creak")
    page.press("#browse-query", "Enter")
    page.wait_for_selector("#browse-said:has-text('best first')")
    enter(page, "#records li:first-child button")
    page.wait_for_selector('#record-shown article[aria-label="Record tagged"]')
    assert texts(page, "#record-shown dd .tag") == ["oak, ash", "two lines", "creaks"]
    enter(page, "#record-shown .row button:nth-child(1)")
    tab_to(page, "#record-shown fieldset label:nth-of-type(3) input")
    page.keyboard.press("Space")
    tab_to(page, "#record-shown fieldset textarea")
    page.keyboard.type("beech, birch")
    with page.expect_response(lambda answer: answer.request.method == "PATCH") as written:
        enter(page, "#record-shown form button[type=submit]")
    assert written.value.json()["tags"] == ["oak, ash", " two\nlines", "beech, birch"]


@pytest.mark.parametrize("width", [375, 1280])
def test_a_record_that_is_chosen_far_down_comes_into_view(page: Any, address: str, width: int) -> None:
    """Proves: PAGE-1. Its beginning, however long it is."""
    path = f"{address}api/memory/records/long"
    long = {"kind": "archival", "text": "The tide rises. " * 800, "created_at": "2023-01-01T00:00:00Z"}
    assert page.request.put(path, data=long).ok
    page.set_viewport_size({"width": width, "height": 800})
    open_view(page)
    page.fill("#browse-query", "buoy tide rises")
    page.press("#browse-query", "Enter")
    page.wait_for_selector("#browse-said:has-text('best first')")
    for record, begins in (("long", "The tide rises"), ("n040", "Buoy 40 ")):
        page.locator("#records li", has_text=begins).locator("button").click()
        page.wait_for_selector(f'#record-shown article[aria-label="Record {record}"]')
        until(page, "document.activeElement.id === 'record-shown'")
        top = page.evaluate("document.querySelector('#record-shown h2').getBoundingClientRect().top")
        assert 0 <= top < 800
    assert page.request.delete(path).ok


def test_an_edit_changes_only_what_was_touched(page: Any, address: str) -> None:
    """Proves: PAGE-1 (another tab's change of the text stands, and so do line ends that no form holds)."""
    path, text = f"{address}api/memory/records/pier", "The pier is closed.\r\nUntil May."
    assert page.request.put(path, data={"kind": "archival", "text": "The pier is open."}).ok
    open_view(page)
    enter(page, "#records li:first-child button")
    page.wait_for_selector('#record-shown article[aria-label="Record pier"]')
    enter(page, "#record-shown .row button:nth-child(1)")
    assert page.request.patch(path, data={"text": text}).ok
    tab_to(page, "#record-shown fieldset textarea")
    page.keyboard.type("shore")
    for tags in (["shore"], ["shore"]):
        enter(page, "#record-shown form button[type=submit]")
        page.wait_for_selector("#record-shown article:not(:has(form))")
        kept = page.request.get(path).json()
        assert (kept["text"], kept["tags"]) == (text, tags)
        enter(page, "#record-shown .row button:nth-child(1)")
    assert page.request.delete(path).ok


def test_the_start_view_gives_an_overview_of_memory(page: Any) -> None:
    """Proves: PAGE-1."""
    page.wait_for_selector("#welcome .card")
    assert "In memory" in page.inner_text("#welcome") and "from 2023-01-01 to" in page.inner_text("#welcome")
    questions = texts(page, "#welcome button")
    assert len(questions) == 3
    enter(page, "#welcome button")
    page.locator("#said", has_text="confidence").wait_for(state="attached", timeout=60_000)
    assert page.input_value("#question") == questions[0]
    assert page.inner_text("#welcome") == ""


def test_an_empty_store_says_how_to_fill_it(page: Any) -> None:
    """Proves: PAGE-1."""
    nothing = '{"records": 0, "kinds": {}, "users": {}, "agents": {}, "first": null, "last": null}'
    page.route("**/api/memory/overview", lambda route: route.fulfill(body=nothing, content_type="application/json"))
    page.reload()
    page.wait_for_selector("#welcome .card")
    assert "recall-loop ingest" in page.inner_text("#welcome")
    enter(page, "#welcome button")
    assert page.evaluate("document.activeElement.id") == "add-text"


@pytest.mark.parametrize(("width", "theme"), [(320, "dark"), (1280, "light")])
def test_axe_finds_nothing_on_any_width_in_any_theme(
    page: Any, width: int, theme: str, screenshots: Path | None
) -> None:
    """Proves: PAGE-1 (and nothing is wider than the screen)."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed").Axe()
    page.set_viewport_size({"width": width, "height": 800})
    page.select_option("#theme", theme)
    looks = {
        "welcome": lambda: page.wait_for_selector("#welcome .card"),
        "memory": lambda: (page.click("#tab-memory"), page.wait_for_selector("#records .card")),
        "record": lambda: (page.click("#records li button"), page.wait_for_selector("#record-shown article")),
        "erase": lambda: page.click("#record-shown button.danger"),
        "runs": lambda: page.click("#tab-runs"),
        "replay": lambda: page.click("#tab-replay"),
    }
    for name, look in looks.items():
        look()
        until(page, "document.getAnimations().length === 0")
        found = axe.run(page, options={"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]})
        assert found.violations_count == 0, f"{name}:\n{found.generate_report()}"
        keep_picture(page, f"{name}-{width}-{theme}.png", screenshots)
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"), name
