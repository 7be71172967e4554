"""Bytes that damage a file: random, and the same on every run. DAMAGE_SEED draws others."""

from __future__ import annotations

import os
import random

SEED = os.environ.get("DAMAGE_SEED", "1")


def garbage(length: int, label: str = "") -> bytes:
    """Return `length` bytes that depend on the seed and the label alone."""
    return random.Random(f"{SEED} {label} {length}").randbytes(length)
