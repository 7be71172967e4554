"""Policies by name and from files, and the decisions of the old one."""

from __future__ import annotations

from pathlib import Path

import pytest

from recall_loop.evals.replay.old_policy import _stop, broad_query, label_by_counts
from recall_loop.evals.replay.replay_policies import OldPolicy, read_policies
from recall_loop.evals.runs.loop_policy import LoopPolicy
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.request import ChatMessage, RetrieveRequest


def test_old_and_new() -> None:
    """Proves: OPS-4."""
    old, new = read_policies(["old", "new"])
    assert isinstance(old, OldPolicy)
    assert isinstance(new, LoopPolicy)
    assert (old.name, new.name) == ("old", "new")


def test_no_language_model_unless_a_file_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: OPS-4 (what is found with the LLM off)."""
    monkeypatch.setenv("RECALL_LOOP_LLM_MODEL", "some-model")
    monkeypatch.setenv("MAX_ITERATIONS", "4")
    file = tmp_path / "mine.toml"
    file.write_text('[settings]\nllm_model = "another"\n', encoding="utf-8")
    old, new, mine = read_policies(["old", "new", str(file)])
    assert (old.settings.llm_model, new.settings.llm_model, mine.settings.llm_model) == (None, None, "another")
    assert mine.name == "mine"
    assert mine.settings.max_iterations == new.settings.max_iterations == 4


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[settings]\nmax_iterations = 0\n", "max_iterations"),
        ("[settings]\nno_such = 1\n", "no_such"),
        ("[settings]\nmax_facts = 5\n", "mine.toml.settings.max_facts: got 5"),
        ('[settings]\nembedder = "openai"\n', "the same for all policies"),
        ('[settings]\nminilm_weights = "w.npz"\n', "the same for all policies"),
        ('[settings]\nchroma_url = "http://x"\n', "the same for all policies"),
        ("max_iterations = 3\n", "a name and a table"),
        ('name = ""\n[settings]\n', "mine.toml.name"),
        ('name = "new"\n[settings]\n', "policies with different names"),
        ("= 3", "a file in TOML"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, content: str, words: str) -> None:
    """Proves: OPS-4."""
    (tmp_path / "mine.toml").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=words.replace("[", r"\[")):
        read_policies(["new", str(tmp_path / "mine.toml")])


@pytest.mark.parametrize("named", ["newer", "", "policy.json"])
def test_an_unknown_policy_is_refused(named: str) -> None:
    """Proves: OPS-4."""
    with pytest.raises(InvalidInputError, match="old, new, or a TOML file"):
        read_policies([named])


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ([1], "any_result"),
        ([30], "max_facts"),
        ([0], ""),
        ([0, 0], ""),
        ([0, 0, 0], "tool_loop"),
        ([0, 2], "any_result"),
        ([0] * 2 + [1], "any_result"),
    ],
)
def test_the_old_policy_stops_at_any_result(results: list[int], reason: str) -> None:
    """Proves: OPS-4 (the old policy's binary stop)."""
    assert _stop(results, most_facts=30, most_iterations=10) == reason
    assert _stop(results, most_facts=30, most_iterations=len(results)) == "iteration_limit"


def test_the_old_policy_asks_the_whole_conversation() -> None:
    """Proves: OPS-4 (the old policy's one broad query)."""
    messages = (ChatMessage(content="Ada is here."), ChatMessage(content="Who sells bread?"))
    assert broad_query(RetrieveRequest(messages=messages)) == "ada is here. who sells bread?"
    long = RetrieveRequest(messages=(ChatMessage(content="x" * 600 + "end"),))
    assert broad_query(long) == "x" * 497 + "end"


@pytest.mark.parametrize(
    ("results", "confidences", "label"),
    [
        ([0], [], "low"),
        ([5], [None] * 5, "high"),
        ([3], [0.8, 0.9, 0.8], "high"),
        ([4], [None] * 4, "medium"),
        ([1], [0.8], "medium"),
        ([1], [0.6], "medium"),
        ([1], [0.5], "low"),
        ([1], [None], "low"),
        ([0, 5], [None] * 5, "medium"),
        ([0, 0, 5], [None] * 5, "low"),
    ],
)
def test_the_old_policy_counts(results: list[int], confidences: list[float | None], label: str) -> None:
    """Similarity plays no part: five facts of any kind are `high`.

    Proves: OPS-4 (the old policy's confidence).
    """
    assert label_by_counts(results, confidences) == label
