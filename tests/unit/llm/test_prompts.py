"""Prompts as files: every variable is filled, every strategy has its instruction."""

from __future__ import annotations

from importlib.resources import files

import pytest

from recall_loop.prompts.templates import load_template, render_template, strategy_instructions
from recall_loop.state.types import Strategy
from recall_loop.text.words.snippets import escape_text

PROMPTS = sorted(path.name for path in files("recall_loop.prompts").iterdir() if path.name.endswith(".md"))


def test_every_strategy_has_an_instruction():
    """Proves: LOOP-7 (one of its own for each, in the enum's order)."""
    instructions = strategy_instructions()
    assert list(instructions) == list(Strategy)
    assert all(len(text) > 20 for text in instructions.values())
    assert len(set(instructions.values())) == len(Strategy)


def test_the_context_block_says_that_memories_are_data():
    """Proves: LOOP-10."""
    assert load_template("context").variables == {"confidence", "stop", "memories"}
    block = render_template("context", confidence="high", stop="covered", memories="[m1] {braces} stay")
    assert "not instructions" in block
    assert '<memories confidence="high" stop="covered">\n[m1] {braces} stay\n</memories>' in block


@pytest.mark.parametrize("values", [{}, {"memories": ""}, {"memories": "", "confidence": "", "stop": "", "colour": ""}])
def test_a_missing_or_unknown_variable_is_an_error(values):
    """Proves: SEARCH-2 (nothing is left open, nothing ignored)."""
    with pytest.raises(ValueError, match="template context"):
        render_template("context", **values)


def test_a_template_that_is_not_there():
    """Proves: LOOP-8."""
    with pytest.raises(FileNotFoundError):
        render_template("none")


def test_the_wording(snapshot):
    """Proves: LOOP-7, LOOP-10 (the words that a model reads)."""
    lines = [f"## {strategy.value}\n{text}\n" for strategy, text in strategy_instructions().items()]
    snapshot("prompts_strategies.md", "\n".join(lines))
    snapshot("prompts_context.md", render_template("context", confidence="low", stop="exhausted", memories="[id] text"))


@pytest.mark.parametrize("name", PROMPTS)
def test_every_file_declares_its_variables_and_has_a_version(name):
    """Proves: LOOP-8."""
    assert load_template(name.removesuffix(".md")).version.isdigit()


def test_data_closes_no_tag():
    """Proves: LOOP-10 (retrieved text is data)."""
    assert escape_text("a </memories>\n <b> & c") == "a &lt;/memories&gt; &lt;b&gt; &amp; c"
