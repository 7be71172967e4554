"""The statements and questions that the reader learns from are whole (`benchmarks/weights/reading/pairs`)."""

from __future__ import annotations

from pathlib import Path

import pytest

PAIRS = Path(__file__).parents[4] / "benchmarks" / "weights" / "reading" / "pairs"


@pytest.mark.parametrize("path", sorted(PAIRS.rglob("*.tsv")), ids=lambda path: path.stem)
def test_each_line_has_a_statement_and_questions(path: Path) -> None:
    """Proves: OPEN-2."""
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    assert all(len(line) > 1 and all(field == field.strip() != "" for field in line) for line in lines)
    near = [question.startswith("! ") for line in lines for question in line[1:]]
    assert 0.3 < sum(near) / len(near) < 0.8, "answered questions and near misses"
    texts = [line[0] for line in lines]
    assert len(set(texts)) == len(texts), "no statement stands twice"
