"""The inspector page in a real browser: a whole visit with the keyboard alone, and text that stays text.

Screenshots are kept in the folder that SCREENSHOTS names.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from recall_loop.cli.main import main
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from tests.e2e.page.browser_steps import BROWSER, keep_picture, tab_to, texts

HOSTILE = '<img src=x onerror="document.title=1"> <script>document.title=2</script> <b>Halvard</b> &amp; the kelp dryer'
RUNS = {"Booked the supplier after three quotes": 0.9, "Wrote to one supplier": 0.5, "Lost the supplier's address": 0.1}
UNKNOWN = "Which museum did we visit in Lisbon, and who recommended it?"
QUESTION = "Who is rewiring the tower, and how much did they quote?"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory, embedder: MiniLmEmbedder, root: Path) -> Path:
    path = tmp_path_factory.mktemp("inspector") / "store"
    lines = (root / "cli" / "demo_records.jsonl").read_text(encoding="utf-8").splitlines()
    with MemoryStore.open(path, embedder=embedder) as store:
        store.upsert(json.loads(line) for line in lines)
        store.upsert(
            {
                "id": f"supplier-{score}",
                "kind": "trajectory",
                "text": task,
                "attributes": {
                    "task": task,
                    "execution": {"status": "completed"},
                    "outcome_score": score,
                    "turns": [{"messages": [{"role": "user", "content": "Three quotes, please."}]}],
                },
            }
            for task, score in RUNS.items()
        )
        store.upsert([{"id": "hostile", "kind": "fact", "text": HOSTILE, "subject": "<i>Halvard</i>"}])
    return path


def ask(page: Any, question: str) -> None:
    tab_to(page, "#question")
    page.keyboard.press("Control+A")
    page.keyboard.type(question)
    page.keyboard.press("Enter")
    page.locator("#said", has_text="confidence").wait_for(state="attached", timeout=60_000)


def test_a_whole_visit_with_the_keyboard_alone(page: Any, screenshots: Path | None) -> None:
    """Proves: OPS-1, TRAJ-3, TRAJ-5. Ask, watch, open a fact's evidence, compare past runs, switch the theme."""
    ask(page, QUESTION)
    assert texts(page, "#iterations h3")[0].startswith("Iteration 1: direct")
    yields = texts(page, "#iterations .queries .yield")
    assert yields and any(text.split(" new")[0] != "0" for text in yields if "new of" in text)
    assert page.locator("#chart rect.bars").count() == len(texts(page, "#chart circle.dot"))
    assert "Stopped after" in page.inner_text("#stop")
    assert len(texts(page, "#confidence .bar")) == 4
    assert "memory holds an answer" in page.inner_text("#answerable")
    first = page.locator("#fact-1")
    assert first.locator("mark").count() >= 1 and first.locator(".bar").count() >= 5
    tab_to(page, "#fact-1 .evidence summary")
    page.keyboard.press("Enter")
    assert first.locator(".evidence[open] blockquote").count() >= 1
    keep_picture(page, "ask.png", screenshots)
    page.reload()
    page.wait_for_selector("#types input", state="attached")
    ask(page, UNKNOWN)
    heads = texts(page, "#iterations h3")
    assert len(heads) >= 2 and len(set(heads)) == len(heads)
    assert page.locator("#iterations s").count() >= 1  # repeats, which weren't asked
    assert page.locator("#chart rect.bars").count() == page.locator("#chart circle.dot").count() >= 2
    keep_picture(page, "iterations.png", screenshots)
    page.reload()
    page.wait_for_selector("#types input", state="attached")
    tab_to(page, "#tab-ask")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    tab_to(page, "#task")
    page.keyboard.type("book a supplier")
    page.keyboard.press("Enter")
    page.wait_for_selector("#runs-found .card")
    assert len(page.locator("#runs-found .columns > section").all()) == 3
    tab_to(page, "#runs-found .card .tip button")
    tooltip = page.locator('.tip:focus-within [role="tooltip"]')
    assert tooltip.is_visible() and "how the run ended" in tooltip.inner_text().lower()
    keep_picture(page, "runs.png", screenshots)
    page.keyboard.press("Escape")
    assert not tooltip.is_visible()
    labels = page.locator("#runs-found .card .labels").first.inner_text()
    assert "Execution: " in labels and "Learning value: " in labels
    tab_to(page, "#runs-found .card > button")
    page.keyboard.press("Enter")
    page.wait_for_selector("#run-shown article")
    assert page.evaluate("document.activeElement.id") == "run-shown"
    assert "Three quotes, please." in page.locator("#run-shown").inner_text()
    for _ in range(200):
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.id") == "theme":
            break
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light
    keep_picture(page, "dark.png", screenshots)


def test_text_from_the_store_is_never_html(page: Any) -> None:
    """Proves: OPS-1. What a memory holds is shown as it is written, in facts, queries and provenance."""
    title = page.title()
    ask(page, "What about Halvard and the <u>kelp</u> dryer?")
    fact = page.locator("#facts .card", has_text="onerror").first
    assert HOSTILE in fact.inner_text()
    assert page.locator("#facts img, #facts script, #facts b, #facts i:not(.bar i), #iterations u").count() == 0
    assert page.title() == title


def test_problems_are_shown_in_the_services_words(page: Any) -> None:
    """Proves: OPS-1. A field that is refused is named with what is allowed; the page goes on."""
    tab_to(page, "#ask details summary")
    page.keyboard.press("Enter")
    page.fill("[name=agent_id]", "")
    page.select_option("[name=scope]", "constellation")
    page.fill("#question", "Who?")
    page.press("#question", "Enter")
    page.wait_for_selector("#ask-problem .problem")
    assert "agent" in page.inner_text("#ask-problem")
    assert page.inner_text("#ask-problem").count("allowed: ") == 1
    page.select_option("[name=scope]", "local")
    ask(page, QUESTION)
    assert page.inner_text("#ask-problem") == ""


def test_a_replay_report_opens_in_the_page(page: Any, memory: Path, root: Path, tmp_path: Path) -> None:
    """Proves: OPS-4. The file that `recall-loop replay --json` writes; another file is refused with words."""
    report = tmp_path / "report.json"
    questions = tmp_path / "questions.jsonl"
    for line in (root / "cli" / "demo_questions.jsonl").read_text(encoding="utf-8").splitlines()[:3]:
        asked = json.loads(line)
        with questions.open("a", encoding="utf-8") as file:
            file.write(json.dumps({name: asked[name] for name in ("id", "messages")}) + "\n")
    policies = ("--policy", "old", "--policy", "new")
    command = ["replay", "--requests", str(questions), "--store", str(memory), *policies, "--json", str(report)]
    with ThreadPoolExecutor(1) as thread:  # the browser's loop runs in this one
        assert thread.submit(main, command).result() == 0
    page.click("#tab-replay")
    page.set_input_files("#report", report)
    page.wait_for_selector("#report-shown table")
    assert {"old", "new"} <= set(texts(page, "#report-shown thead th"))
    assert page.locator("#report-shown svg .curve").count() == 2
    other = tmp_path / "other.json"
    other.write_text("[1]")
    page.set_input_files("#report", other)
    page.wait_for_selector("#report-problem .problem")
    assert "no replay report" in page.inner_text("#report-problem")
