"""How many records are written and acknowledged at a time, unless a caller says otherwise."""

from __future__ import annotations

BATCH_SIZE = 1000
MAX_BATCH_SIZE = 5000
