"""The examples run as they stand, and show what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHOWN = {
    "chat_that_recalls": ["friday> Who services the engine", "Tamme services the engine of the launch before"],
    "agent_with_searches": ['"id": "f1"', "ai: Tamme services the engine [f1]"],
    "parent_with_interrupts": [
        "waits for: {'ticket': 7, 'recalled': ['The ferry Birk leaves at nine.']}",
        "answers: The ferry Birk leaves at nine. Yours, the desk.",
        "remembers: 3 messages",
    ],
}


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_shows_what_it_says(name, capsys):
    """Proves: OPS-2, OPS-5."""
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    for words in SHOWN[name]:
        assert words in printed
    assert "herring" not in printed
