"""The page of figures: its measured parts and its picture, from a report."""

from __future__ import annotations

import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

PAGE = """# Benchmarks

By hand.

<!-- measured: run -->
yesterday
<!-- end -->

<!-- measured: figures -->
<!-- end -->
"""


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "page"))
    import render_page

    yield render_page
    for name in ("render_page", "bars"):
        sys.modules.pop(name, None)


def row(name: str, recall: float, milliseconds: float, megabytes: float) -> dict[str, Any]:
    shares = {"recall@10": recall, "ndcg@10": recall - 0.1, "any@10": 1.0, "gold_in_context": recall}
    latency = {"latency_ms": {"p50": milliseconds, "p95": 2 * milliseconds}, "data_mb": megabytes}
    return {"name": name, "versions": {name: "1.2"}, **shares, **latency}


def report() -> dict[str, Any]:
    talk = {
        "key": "talk",
        "title": "Talk & more",
        "note": "Talk of two.",
        "wide": False,
        "collections": 3,
        "documents": 3435,
        "questions": 200,
        "peers": [row("chroma", 0.42, 6.24, -0.2), row("recall-loop", 0.8346, 1061.4, 130.0)],
        "failed": {"mem0": "exit code 1: no such library at /a/b"},
    }
    phone = talk | {
        "title": "Phone",
        "wide": True,
        "collections": 1,
        "peers": [row("bm25s", 0.3, 0.2, 3)],
        "failed": {},
    }
    machine = {"processor": "A chip", "cores": 2, "memory_gb": 16, "system": "Linux", "python": "3.12.1"}
    return {"machine": machine, "date": "2026-11-24", "seed": 7, "asked": 30, "sets": [talk, phone]}


def test_the_page_is_written_from_a_report(page: Any, tmp_path: Path) -> None:
    """Without measuring: machine, seed, versions, a table a set with the best in bold, what failed; the rest stays.

    Proves: OPS-4.
    """
    (tmp_path / "report.json").write_text(json.dumps(report()), encoding="utf-8")
    (tmp_path / "benchmarks.md").write_text(PAGE, encoding="utf-8")
    for _ in range(2):
        assert page.main([str(tmp_path / "report.json"), "--docs", str(tmp_path)]) == 0
    text = (tmp_path / "benchmarks.md").read_text(encoding="utf-8")
    assert text.startswith("# Benchmarks\n\nBy hand.\n") and "yesterday" not in text
    for said in ("2026-11-24", "A chip, 2 cores, 16 GB", "seed 7", "its 30 best", "bm25s 1.2, chroma 1.2"):
        assert said in text
    assert "200 questions, 3,435 documents in 3 collections. Talk of two." in text
    assert "| | Recall@10 | nDCG@10 | gold in 1,000 tokens | ms per question | MB |" in text
    assert "| Recall Loop | **.835** | **.735** | **.835** | 1,061 | 130 |\n| Chroma | .420 " in text
    assert "| Chroma | .420 | .320 | .420 | **6.2** | **0.0** |" in text
    assert "Not measured: mem0, which failed." in text and "/a/b" not in text
    assert "| bm25s | **.300** | **.200** | **1.000** | **.300** | **0.2** | **3.0** |" in text


def test_the_picture_has_a_bar_for_every_figure(page: Any) -> None:
    """As long as its figure, a dash where a peer didn't run, in the colours of a light and of a dark page.

    Proves: OPS-4.
    """
    drawn = page.draw_bars(report()["sets"])
    root = ElementTree.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    bars = [each for each in root.iter(f"{space}rect") if each.get("class") in ("own", "other")]
    lengths = {each.get("class"): float(each.get("width", "0")) for each in bars[:2]}
    assert len(bars) == 3 and lengths["own"] / lengths["other"] == pytest.approx(0.8346 / 0.42, abs=0.02)
    texts = [each.text for each in root.iter(f"{space}text")]
    assert {"Talk & more", "Phone", "200 questions", "Recall Loop", ".83", ".42", ".30"} <= set(texts)
    assert texts.count("–") == 3
    assert "prefers-color-scheme: dark" in drawn


@pytest.mark.parametrize(
    "given", [{}, [], {**report(), "sets": []}, {**report(), "sets": [{"title": "A", "peers": []}]}]
)
def test_a_report_without_figures_is_refused(
    page: Any, given: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is written, and the error names what is wrong.

    Proves: OPS-4.
    """
    (tmp_path / "report.json").write_text(json.dumps(given), encoding="utf-8")
    (tmp_path / "benchmarks.md").write_text(PAGE, encoding="utf-8")
    assert page.main([str(tmp_path / "report.json"), "--docs", str(tmp_path)]) == 2
    assert re.search(r"page: error: report\S*: got", capsys.readouterr().err)
    assert (tmp_path / "benchmarks.md").read_text(encoding="utf-8") == PAGE
    (tmp_path / "benchmarks.md").write_text("# No part\n", encoding="utf-8")
    (tmp_path / "report.json").write_text(json.dumps(report()), encoding="utf-8")
    assert page.main([str(tmp_path / "report.json"), "--docs", str(tmp_path)]) == 2
    assert "benchmarks.md: got" in capsys.readouterr().err


def test_the_page_of_the_project_has_the_parts(page: Any) -> None:
    """What is in the tree can be written again.

    Proves: OPS-4.
    """
    text = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert "### Phone\n" in page.write_parts(text, report())
