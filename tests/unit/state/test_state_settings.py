"""Settings: the sources of values, and errors at start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import ENV_PREFIX, Settings
from recall_loop.state.types import ConfidenceLabel

FIELDS: dict[str, dict[str, Any]] = Settings.model_json_schema(by_alias=False)["properties"]


def _numeric(part: dict[str, Any]) -> dict[str, Any] | None:
    """The integer or number in a field's schema, behind `| None` too."""
    options = part.get("anyOf", [part])
    return next((option for option in options if option.get("type") in ("integer", "number")), None)


NUMERIC = {name: found for name, part in FIELDS.items() if (found := _numeric(part))}
# The last integer and the last number: one of each.
KINDS = {part["type"]: name for name, part in NUMERIC.items()}


def _outside(name: str) -> list[str]:
    """Values just outside the range; for one integer and one number, also what is none."""
    part = NUMERIC[name]
    step = 1 if part["type"] == "integer" else 0.001
    low = part["minimum"] - step if "minimum" in part else part["exclusiveMinimum"]
    ends = [f"{low:g}", f"{part['maximum'] + step:.10g}"]
    if name not in KINDS.values():
        return ends
    fraction = ["1.5"] if part["type"] == "integer" else []
    return [*ends, "-1", "nan", "inf", "-inf", "many", "true", *fraction]


def _range(part: dict[str, Any]) -> str:
    noun = "an integer" if part["type"] == "integer" else "a number"
    if "minimum" in part:
        return f"{noun} from {part['minimum']:.0f} to {part['maximum']:.0f}"
    return f"{noun} above {part['exclusiveMinimum']:.0f} and at most {part['maximum']:.0f}"


def test_defaults() -> None:
    """Proves: STOP-4."""
    settings = Settings()
    assert settings.early_stop_min_iterations == 2
    assert settings.novelty_min_new_facts == 1
    assert settings.novelty_patience == 2
    assert settings.stop_confidence_required is ConfidenceLabel.HIGH
    assert settings.max_iterations == 10
    assert settings.max_facts == 30


def test_every_number_has_a_range() -> None:
    """Proves: STOP-4 (a knob without bounds could not be rejected)."""
    assert len(NUMERIC) > 20
    for part in NUMERIC.values():
        assert "maximum" in part
        assert "minimum" in part or "exclusiveMinimum" in part


@pytest.mark.parametrize("name", NUMERIC)
def test_out_of_range_from_the_environment(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: STOP-4 (variable, value and whole range are named)."""
    variable = ENV_PREFIX + name.upper()
    for value in _outside(name):
        monkeypatch.setenv(variable, value)
        with pytest.raises(InvalidInputError) as caught:
            Settings.from_env()
        assert caught.value.field == variable
        assert str(caught.value) == f"{variable}: got {value!r}; allowed: {_range(NUMERIC[name])}"


@pytest.mark.parametrize("name", [name.lower() for name in Settings.BARE_NAMES if name.lower() in NUMERIC])
def test_out_of_range_from_the_bare_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: STOP-4 (the name that was read is the name that is told)."""
    monkeypatch.setenv(name.upper(), "-7")
    with pytest.raises(InvalidInputError) as caught:
        Settings()
    assert str(caught.value) == f"{name.upper()}: got '-7'; allowed: {_range(NUMERIC[name])}"


@pytest.mark.parametrize("name", NUMERIC)
@pytest.mark.parametrize("value", [True, False, float("nan"), [], "x"])
def test_out_of_range_as_an_argument(name: str, value: object) -> None:
    """Proves: STOP-4 (a boolean is no number, though Python counts it as one)."""
    with pytest.raises(InvalidInputError) as caught:
        Settings(**{name: value})
    assert caught.value.field == name
    assert caught.value.allowed == _range(NUMERIC[name])


@pytest.mark.parametrize("name", NUMERIC)
def test_the_ends_of_the_range_are_inside(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: STOP-4."""
    part = NUMERIC[name]
    monkeypatch.setenv("RECALL_LOOP_CONF_HIGH", "1")
    for end in [part["maximum"], part.get("minimum")]:
        if end is not None:
            monkeypatch.setenv("RECALL_LOOP_CONF_MEDIUM", "0")
            monkeypatch.setenv(ENV_PREFIX + name.upper(), str(end))
            assert getattr(Settings(), name) == end


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("STOP_CONFIDENCE_REQUIRED", "certain", "one of low, medium, high"),
        ("RECALL_LOOP_STOP_CONFIDENCE_REQUIRED", "HIGH!", "one of low, medium, high"),
        ("RECALL_LOOP_SEARCH_MODE", "psychic", "one of vector, fts, hybrid, auto"),
        (
            "RECALL_LOOP_EMBEDDER",
            "glove",
            "one of minilm, minilm-plain, multilingual, openai, onnx:FOLDER, or provider:model such as"
            " openai:text-embedding-3-small",
        ),
        ("RECALL_LOOP_TENANT", "t" * 513, "text of 1 to 512 characters"),
        ("RECALL_LOOP_TENANT", "  ", "text with at least one character that is not white space"),
    ],
)
def test_other_bad_values(variable: str, value: str, allowed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: STOP-4."""
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidInputError) as caught:
        Settings()
    assert caught.value.field == variable
    assert caught.value.allowed == allowed
    assert caught.value.value.startswith(repr(value)[:100])


def test_precedence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: STOP-4 (argument over prefixed variable over bare variable over default)."""
    assert Settings().max_facts == 30
    monkeypatch.setenv("MAX_FACTS", "9")
    assert Settings().max_facts == 9
    monkeypatch.setenv("RECALL_LOOP_MAX_FACTS", "7")
    assert Settings().max_facts == 7
    assert Settings(max_facts=5).max_facts == 5


def test_a_named_file_is_read_below_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: STOP-4 (pydantic-settings' own ways to name one)."""
    (tmp_path / "env").write_text("RECALL_LOOP_MAX_FACTS=7\nRECALL_LOOP_MAX_ITERATIONS=5\n", encoding="utf-8")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "recall_loop_llm_api_key").write_text("k", encoding="utf-8")
    monkeypatch.setenv("RECALL_LOOP_MAX_FACTS", "9")
    found = Settings(_env_file=tmp_path / "env", _secrets_dir=tmp_path / "secrets")
    assert (found.max_facts, found.max_iterations, found.llm_api_key) == (9, 5, "k")


def test_a_bad_variable_that_is_overridden_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_FACTS", "many")
    monkeypatch.setenv("RECALL_LOOP_MAX_FACTS", "7")
    assert Settings().max_facts == 7


def test_bare_names_are_read_for_the_named_knobs_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_LIMIT", "5")
    monkeypatch.setenv("TENANT", "other")
    assert (Settings().search_limit, Settings().tenant) == (30, "default")
    for name in Settings.BARE_NAMES:
        assert name.lower() in FIELDS


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECALL_LOOP_MAX_FACTS", "")
    monkeypatch.setenv("MAX_FACTS", "11")
    assert Settings().max_facts == 11
    monkeypatch.setenv("MAX_FACTS", "0")
    with pytest.raises(InvalidInputError, match=r"^MAX_FACTS: got '0'; allowed: an integer from 1 to 1000$"):
        Settings()


def test_unknown_argument_names_the_known_ones() -> None:
    with pytest.raises(InvalidInputError, match=r"^max_fact: got 3; allowed: known fields: store_path, .*max_facts"):
        Settings(max_fact=3)


def test_medium_above_high(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: CONF-1 (the label's thresholds are in order)."""
    monkeypatch.setenv("RECALL_LOOP_CONF_MEDIUM", "0.9")
    assert Settings().conf_high is None, "one alone is in order with whatever the mapping says of the other"
    monkeypatch.setenv("RECALL_LOOP_CONF_HIGH", "0.75")
    with pytest.raises(InvalidInputError) as caught:
        Settings()
    assert str(caught.value) == "RECALL_LOOP_CONF_MEDIUM: got 0.9; allowed: a number from 0 to conf_high (0.75)"


def test_settings_are_frozen_and_hide_the_key() -> None:
    settings = Settings(openai_api_key="secret-key")
    assert "secret-key" not in repr(settings)
    with pytest.raises(ValueError, match="frozen"):
        settings.max_facts = 3


def test_the_environment_is_parsed_once_for_each_of_its_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: STOP-4 (`retrieve` reads settings at each call: what they are parsed from is looked at, and no more)."""
    first = Settings.from_env()
    monkeypatch.setenv("A_VARIABLE_OF_SOMEBODY_ELSE", "1")
    assert Settings.from_env() is first
    for variable in ("RECALL_LOOP_MAX_FACTS", "recall_loop_max_facts", "MAX_FACTS"):
        with monkeypatch.context() as changed:
            changed.setenv(variable, "11")
            assert Settings.from_env().max_facts == 11
            changed.setenv(variable, "12")
            assert Settings.from_env().max_facts == 12
            changed.setenv(variable, "0")
            for _ in range(2):
                with pytest.raises(InvalidInputError, match=variable):
                    Settings.from_env()
        assert Settings.from_env().max_facts == first.max_facts
