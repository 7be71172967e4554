"""Reads the mapping that makes a probability of what a run measured: the shipped one, or the user's own (CONF-4)."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from pathlib import Path

from recall_loop.policy.confidence.confidence_mapping import Calibration, identity_calibration
from recall_loop.state.errors import InvalidInputError, validate_model

IDENTITY, DEFAULT = "identity", "default"
_SHIPPED = "default_calibration.json"
_MOST_BYTES = 1_000_000


def load_calibration(name: str | None) -> Calibration:
    """Return the mapping in a file; None or "default" = the shipped one, "identity" = none.

    Raises:
        InvalidInputError: the file can't be read, or holds no mapping that this version knows.
    """
    if name == IDENTITY:
        return identity_calibration()
    return _shipped() if name in (None, DEFAULT) else _read(str(name))


@cache
def _shipped() -> Calibration:
    return _parsed(files("recall_loop.policy.confidence").joinpath(_SHIPPED).read_text(encoding="utf-8"), _SHIPPED)


def _read(name: str) -> Calibration:
    path = Path(name)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise InvalidInputError("calibration_file", name, f"a file of at most {_MOST_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        allowed = f"a readable file of `recall-loop calibrate`, {DEFAULT} or {IDENTITY}"
        raise InvalidInputError("calibration_file", name, allowed) from error
    return _parsed(text, name)


def _parsed(text: str, name: str) -> Calibration:
    try:
        raw = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidInputError("calibration_file", name, "a JSON file of `recall-loop calibrate`") from error
    if not isinstance(raw, dict):
        raise InvalidInputError("calibration_file", name, "a JSON object as `recall-loop calibrate` writes it")
    return validate_model(Calibration, raw, f"calibration_file {name}")
