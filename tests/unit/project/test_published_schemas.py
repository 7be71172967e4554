"""The JSON Schemas under docs/schemas are those of the code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from recall_loop.state.records.records import RECORD_ADAPTER
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.result import RetrieveResult

FOLDER = Path(__file__).parents[3] / "docs" / "schemas"
SCHEMAS = {
    "record": RECORD_ADAPTER.json_schema,
    "request": RetrieveRequest.model_json_schema,
    "result": RetrieveResult.model_json_schema,
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_published_schema_is_that_of_the_code(name: str, request: pytest.FixtureRequest) -> None:
    """Proves: OPS-1, STORE-1; `make snapshots` updates them."""
    text = json.dumps(SCHEMAS[name](), indent=2, sort_keys=True) + "\n"
    file = FOLDER / f"{name}.schema.json"
    if request.config.getoption("--update-snapshots"):
        file.write_text(text, encoding="utf-8")
    assert file.read_text(encoding="utf-8") == text
