"""The runtime context: made from whatever the caller's graph carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError


@dataclass
class ForeignContext:
    """The context of a parent graph: some names are ours, one only looks so."""

    user_id: str | None = "u1"
    max_facts: int | None = 4
    model: str = "large"


class ForeignModel(BaseModel):
    tenant: str = "t1"
    temperature: float = 0.3


def test_nothing_given() -> None:
    """Proves: OPS-2 (a local run without a context)."""
    assert Context.resolve(None) == Context()
    assert Context.resolve(None, {}) == Context()


def test_configurable_fills_what_our_own_context_leaves_open() -> None:
    """Proves: OPS-2."""
    own = Context(tenant="t1")
    assert Context.resolve(own, {"tenant": "t2"}) == own
    assert Context.resolve(Context(max_facts=5), {"tenant": "t2"}) == Context(tenant="t2", max_facts=5)


def test_mapping() -> None:
    """Proves: OPS-2 (`context={...}` of invoke and of the server)."""
    assert Context.resolve({"tenant": "t1", "max_facts": 3}) == Context(tenant="t1", max_facts=3)


def test_mapping_with_an_unknown_name() -> None:
    with pytest.raises(InvalidInputError) as caught:
        Context.resolve({"tennant": "t1"})
    assert caught.value.field == "context.tennant"
    assert caught.value.allowed == f"known fields: {', '.join(Context.model_fields)}; did you mean tenant?"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (ForeignContext(), Context(user_id="u1", max_facts=4)),
        (ForeignContext(user_id=None, max_facts=None), Context()),
        (ForeignModel(), Context(tenant="t1")),
        (object(), Context()),
    ],
)
def test_foreign_object(given: object, expected: Context) -> None:
    """Proves: OPS-2 (a subgraph is handed its parent's context, whatever that is)."""
    assert Context.resolve(given) == expected


def test_configurable_fills_what_is_left_open() -> None:
    """Proves: OPS-2."""
    configurable = {"tenant": "t2", "max_facts": 9, "thread_id": "th", "checkpoint_ns": ""}
    assert Context.resolve(None, configurable) == Context(tenant="t2", max_facts=9)
    assert Context.resolve({"tenant": "t1"}, configurable) == Context(tenant="t1", max_facts=9)


@pytest.mark.parametrize("name", ["user_id", "tenant", "conversation_id"])
def test_an_empty_name_is_no_absent_one(name: str) -> None:
    """Proves: STORE-3, SEARCH-2 (a host that lost its user's name doesn't read everybody's memory)."""
    for wrong in ("", " "):
        with pytest.raises(InvalidInputError) as caught:
            Context.resolve(None, {name: wrong})
        assert caught.value.field == f"configurable.{name}"


def test_a_servers_run_without_a_login_has_an_empty_user() -> None:
    """Proves: OPS-2."""
    configurable = {"user_id": "", "langgraph_auth_user_id": "", "tenant": "t1"}
    assert Context.resolve(None, configurable) == Context(tenant="t1")


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
        ({"max_facts": 0}, "max_facts", "an integer from 1 to 1000"),
        ({"max_facts": True}, "max_facts", "an integer from 1 to 1000"),
        ({"deadline_seconds": float("inf")}, "deadline_seconds", "a number above 0 and at most 86400"),
        ({"coverage_enough": 2}, "coverage_enough", "a number from 0 to 1"),
        ({"novelty_patience": "often"}, "novelty_patience", "an integer from 1 to 100"),
        ({"scope": "galaxy"}, "scope", "one of local, constellation"),
        (ForeignContext(max_facts=-1), "max_facts", "an integer from 1 to 1000"),
    ],
)
def test_refusals(given: object, field: str, allowed: str) -> None:
    """Proves: STOP-4 (the same ranges as the settings have)."""
    with pytest.raises(InvalidInputError) as caught:
        Context.resolve(given)
    assert (caught.value.field, caught.value.allowed) == (f"context.{field}", allowed)


def test_form_has_a_range_for_every_number() -> None:
    """Proves: OPS-2 (Studio shows the context as a form)."""
    for name, part in Context.model_json_schema()["properties"].items():
        options: list[dict[str, Any]] = part["anyOf"]
        for option in options:
            if option.get("type") in ("integer", "number"):
                assert "maximum" in option, name
                assert "minimum" in option or "exclusiveMinimum" in option, name


def test_a_value_of_configurable_is_named_there() -> None:
    """Proves: OPS-1, SEARCH-2."""
    for given in (None, {"tenant": "t1"}, Context(tenant="t1")):
        with pytest.raises(InvalidInputError) as caught:
            Context.resolve(given, {"user_id": 7})
        assert caught.value.field == "configurable.user_id"
    assert Context.resolve({"user_id": "ann"}, {"user_id": 7}).user_id == "ann"
