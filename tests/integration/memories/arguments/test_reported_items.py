"""With on_reject="report" each item that can't be stored rejects itself alone, whatever is wrong with it (API-2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage

from recall_loop import Fact, InvalidInputError, Memory, RejectedRecordsError, Settings
from tests.embedders import WordHashEmbedder

UNFIT: list[tuple[Any, str]] = [
    ({"text": "Bo sails.", "subject": "Bo", "user_id": "bo"}, r"records.2.user_id: got 'bo'; allowed: 'ada'"),
    ({"role": "user", "content": "I sail.", "user_id": "bo"}, r"records.2.user_id: got 'bo'; allowed: 'ada'"),
    (Fact(id="f", text="Bo sails.", user_id="bo"), r"records.2.user_id: got 'bo'; allowed: 'ada'"),
    (7, r"records.2: got 7; allowed: a message"),
    (None, r"records.2: got None; allowed: a message"),
    ({"role": "user", "content": "I sail.", "timestmp": 3}, r"records.2.timestmp: got 3; allowed: fields of a message"),
    ({"subject": "Bo"}, r"records.2.text: got nothing; allowed: text"),
    ({"text": "Bo sails.", "colour": "red"}, r"records.2.colour: got 'red'"),
]


@pytest.fixture
def memory() -> Iterator[Memory]:
    with Memory(embedder=WordHashEmbedder(), settings=Settings()) as opened:
        yield opened


def around(unfit: Any) -> list[Any]:
    return [SystemMessage("Be brief."), HumanMessage("Tea is at four.", id="m"), unfit, Fact(id="g", text="Ada sails.")]


@pytest.mark.parametrize(("unfit", "words"), UNFIT)
def test_the_others_are_written_and_the_reason_names_the_item(memory: Memory, unfit: Any, words: str) -> None:
    """Proves: API-1, API-2 (places are those in the call, whatever was skipped before)."""
    added = memory.add(around(unfit), user_id="ada", on_reject="report")
    assert added.ids == ("m", "g")
    assert [(one.index, one.status) for one in added.outcomes] == [(1, "created"), (2, "rejected"), (3, "created")]
    assert str(added.outcomes[1].error).startswith(words)
    assert [one.index for one in added.skipped] == [0]
    assert sorted(record.text for record in memory.list(user_id="ada")) == ["Ada sails.", "Tea is at four."]


@pytest.mark.parametrize(("unfit", "words"), UNFIT)
def test_nothing_is_written_where_one_raises(memory: Memory, unfit: Any, words: str) -> None:
    """Proves: API-2."""
    with pytest.raises(InvalidInputError) as caught:
        memory.add(around(unfit), user_id="ada")
    assert words.removeprefix("records") in str(caught.value)
    assert len(memory.list()) == 0


def test_all_may_be_rejected(memory: Memory) -> None:
    """Proves: API-2."""
    added = memory.add(
        [3, {"text": "x", "user_id": "bo", "agent_id": "z"}], user_id="ada", agent_id="a", on_reject="report"
    )
    assert (added.ids, [one.status for one in added.outcomes]) == ((), ["rejected", "rejected"])
    assert str(added.outcomes[1].error).count("records.1.") == 2
    with pytest.raises(InvalidInputError, match="something to store"):
        memory.add([AIMessage("")], on_reject="report")


def test_every_reason_is_told_at_once(memory: Memory) -> None:
    """Proves: API-2 (an item of another user, and an id that another user has)."""
    memory.add(Fact(id="f", text="Bo sails."), user_id="bo")
    with pytest.raises(RejectedRecordsError) as caught:
        memory.add([Fact(id="f", text="I sail."), {"text": "x", "user_id": "bo"}], user_id="ada")
    assert [(one.index, one.field) for one in caught.value.rejections] == [(1, "user_id"), (0, "id")]
