"""Ids that are unique in one thread only: what another user, or another thread, has under them stays (API-1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from recall_loop import Fact, Memory
from recall_loop.state.errors import RejectedRecordsError
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(embedder=WordHashEmbedder(), settings=Settings()) as opened:
        opened.add(HumanMessage("I keep bees.", id="1"), user_id="bo", conversation_id="monday")
        opened.add(Fact(id="f", text="Bo keeps bees."), user_id="bo", conversation_id="monday")
        yield opened


OF_OTHERS: list[tuple[Any, dict[str, str], str]] = [
    (HumanMessage("I sail.", id="1"), {"user_id": "ada"}, "another user"),
    ({"id": "1", "text": "I sail.", "user_id": "ada"}, {}, "another user"),
    (Fact(id="f", text="Ada sails."), {"user_id": "ada"}, "another user"),
    (HumanMessage("I sail.", id="1"), {"user_id": "bo", "conversation_id": "tuesday"}, "another conversation"),
]


@pytest.mark.parametrize(("content", "owner", "what"), OF_OTHERS)
def test_an_id_replaces_nothing_of_others(memory: Memory, content: Any, owner: dict[str, str], what: str) -> None:
    """Proves: API-1, SEARCH-2."""
    with pytest.raises(RejectedRecordsError, match=rf"records\.1\.id: got '[1f]'; .* no record of {what} has"):
        memory.add([Fact(id="g", text="Hello."), content], **owner)
    assert sorted(record.text for record in memory.list()) == ["Bo keeps bees.", "I keep bees."]


@pytest.mark.parametrize(("content", "owner", "what"), OF_OTHERS)
def test_an_id_of_others_rejects_its_own_item_only(
    memory: Memory, content: Any, owner: dict[str, str], what: str
) -> None:
    """Proves: API-1, API-2 (said in the same words, which tell nothing of whose it is)."""
    added = memory.add([Fact(id="g", text="Hello."), content], on_reject="report", **owner)
    assert [(one.index, one.status) for one in added.outcomes] == [(0, "created"), (1, "rejected")]
    assert f"no record of {what} has" in str(added.outcomes[1].error) and "bo" not in str(added.outcomes[1].error)
    assert sorted(record.text for record in memory.list()) == ["Bo keeps bees.", "Hello.", "I keep bees."]


def test_ones_own_is_replaced(memory: Memory) -> None:
    """Proves: API-1 (a fact may be told anew in a later conversation; another tenant has ids of its own)."""
    memory.add(Fact(id="f", text="Bo sold the bees."), user_id="bo", conversation_id="tuesday")
    memory.add(HumanMessage("I keep wild bees.", id="1"), user_id="bo", conversation_id="monday")
    memory.add(HumanMessage("I sail.", id="1"), user_id="ada", tenant="other")
    assert [memory.get(record_id).text for record_id in ("f", "1")] == ["Bo sold the bees.", "I keep wild bees."]  # type: ignore[union-attr]
