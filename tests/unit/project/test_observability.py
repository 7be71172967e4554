"""What docs/observability.md and the dashboard name is what there is (OPS-7)."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import Counter, Histogram, MeterProvider
from prometheus_client import REGISTRY, generate_latest

from recall_loop.service.core.service_metrics import Metrics
from recall_loop.telemetry import metrics, names

SPANS = [value for name, value in vars(names).items() if name.endswith("_SPAN")]
_PARTS = re.compile(r"_(bucket|count|sum)$")


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "observability.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def dashboard(root: Path) -> dict[str, Any]:
    return json.loads((root / "docs" / "grafana-dashboard.json").read_text(encoding="utf-8"))


def table(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table under a header row, without code marks."""
    rows = page.partition(f"| {heading} |")[2].split("\n")[2:]
    taken = rows[: next(at for at, row in enumerate(rows) if not row.startswith("|"))]
    return [[cell.strip().strip("`") for cell in row.strip("|").split("|")] for row in taken]


def typed(exposition: bytes) -> dict[str, str]:
    """Return the metrics of an exposition, with their kinds."""
    lines = exposition.decode().splitlines()
    return {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE ")}


@pytest.fixture(scope="module")
def instruments() -> Iterator[dict[str, str]]:
    """The kinds of the module's metrics, made once more for OpenTelemetry's own exporter, each with a value."""
    provider = MeterProvider([PrometheusMetricReader()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("opentelemetry.metrics.get_meter", provider.get_meter)
        made = runpy.run_path(str(metrics.__file__)).values()
    kinds = {}
    for instrument in made:
        if isinstance(instrument, Counter):
            instrument.add(1)
            kinds[instrument.name] = "counter"
        elif isinstance(instrument, Histogram):
            instrument.record(1)
            kinds[instrument.name] = "histogram"
    yield kinds
    provider.shutdown()


@pytest.fixture(scope="module")
def through_otel(instruments: dict[str, str]) -> dict[str, str]:
    """The names of the metrics where OpenTelemetry's own exporter hands them to Prometheus."""
    found = typed(generate_latest(REGISTRY))
    return {name: kind for name, kind in found.items() if name.startswith(("recall_loop_", "gen_ai_"))}


@pytest.fixture(scope="module")
def of_the_service() -> dict[str, str]:
    return {name: kind for name, kind in typed(Metrics().exposition()).items() if not name.endswith("_created")}


def test_every_metric_is_documented(page, instruments, through_otel):
    """Proves: OPS-7."""
    rows = table(page, "metric | Prometheus | kind | counts")
    assert [(row[0], row[2]) for row in rows] == list(instruments.items())
    assert {row[1]: row[2] for row in rows} == through_otel


def test_every_figure_of_the_service_is_documented(page, of_the_service):
    """Proves: OPS-7."""
    assert {row[0]: row[1] for row in table(page, "metric | kind | counts")} == of_the_service


def test_every_span_and_attribute_is_documented(page):
    """Proves: OPS-7."""
    assert [row[0] for row in table(page, "span | kind | covers")] == SPANS
    ours = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    ours = {value for value in ours if value.startswith("recall_loop.")} - set(SPANS)
    said = " ".join(row[0] for row in table(page, "attribute | on | value"))
    assert set(re.findall(r"recall_loop[\w.]+", said)) == ours


def test_the_dashboard_asks_for_metrics_that_there_are(dashboard, through_otel, of_the_service):
    """Proves: OPS-7 (each of them, and no other)."""
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    used = {_PARTS.sub("", found) for text in expressions for found in re.findall(r"\b(\w+?)(?:\{[^}]*\})?\[", text)}
    used |= set(re.findall(r"\b(recall_loop_http_in_flight)\b", " ".join(expressions)))
    assert used == set(through_otel) | set(of_the_service)
    labels = {
        label for text in expressions for part in re.findall(r"by \(([^)]*)\)", text) for label in part.split(", ")
    }
    keys = {value.replace(".", "_") for name, value in vars(names).items() if name.isupper() and isinstance(value, str)}
    assert labels <= keys | {"le", "route", "status", "limit", "reason"}


def test_the_dashboard_is_one(dashboard):
    """Proves: OPS-7 (panels have places of their own, and take the source that is chosen)."""
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(numbers)) == len(numbers) and dashboard["schemaVersion"] >= 36
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken and max(x for x, _ in cells) < 24
        taken |= cells
        for target in panel.get("targets", ()):
            assert panel["datasource"]["uid"] == "${source}" and target["expr"].count("(") == target["expr"].count(")")


def test_a_library_says_nothing_by_itself():
    """Proves: OPS-3 (no handler is set up, and nothing reaches standard error)."""
    code = """
import logging
from recall_loop.telemetry import logs, spans, metrics
assert [type(one) for one in logging.getLogger("recall_loop").handlers] == [logging.NullHandler]
assert not logging.getLogger().handlers
logging.getLogger("recall_loop.nodes.execute_tool").error("nobody listens")
with spans.span("nobody", {}) as span:
    assert not span.is_recording() and spans.trace_id(span) is None
import sys
assert "opentelemetry.sdk" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
