"""Tuned weights: the embedder's own, changed to put conversations near the questions that they answer (STORE-5).

A patch holds the bytes that differ from those of the model's file. onnxruntime folds weights that are stored as
integers into numbers before it lets anyone replace them, so the file's own bytes are replaced, in memory, before it
sees them. All files are named by their sha256, so places can't shift.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path

from recall_loop.state.errors import EmbedderError, InvalidInputError

# Tuned by benchmarks/weights/tune_embedder.py on the conversations that NOTICE names.
SHIPPED_PATCH = Path(__file__).with_name("minilm-talk.npz")
SHIPPED_PATCH_SHA256 = "bcbba72ac66027c783bc72daaafabbdbd43fa944dd81464d7ee27ef1559d306a"


@dataclass(frozen=True)
class WeightPatch:
    """A file of tuned weights, and the sha256 that it has to have."""

    file: Path
    digest: str

    @classmethod
    def from_file(cls, file: Path) -> WeightPatch:
        """Return the weights of a file, as yet unchecked; raises `InvalidInputError` where it can't be read."""
        if file == SHIPPED_PATCH:
            return cls(file, SHIPPED_PATCH_SHA256)
        try:
            data = file.read_bytes()
        except OSError as error:
            allowed = "a file written by benchmarks/weights/tune_embedder.py"
            raise InvalidInputError("minilm_weights", str(file), f"{allowed} ({error.strerror})") from error
        return cls(file, hashlib.sha256(data).hexdigest())


# Nodes that look words up as they are stored, made by benchmarks/weights/vectors/make_lookup.py: onnxruntime would hold
# the whole table as numbers, four times as large.
_LOOKUP_SHA256 = "0fda9b54df25479075f9d289c634638db834b3047d3293624fe49475abc3a444"
LOOKUP_PATCH = WeightPatch(Path(__file__).with_name("minilm-lookup.npz"), _LOOKUP_SHA256)


def read_verified(file: Path, expected: str) -> bytes:
    """Return what `file` holds.

    Raises:
        EmbedderError: it can't be read, or hasn't the sha256 that was expected.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise EmbedderError(f"{file.name} can't be read: {error.strerror}") from error
    digest = hashlib.sha256(data).hexdigest()
    if digest != expected:
        raise EmbedderError(f"{file.name} has sha256 {digest[:12]}…, expected {expected[:12]}…")
    return data


def apply_patch(model: bytes, weights: bytes, name: str) -> bytes:
    """Return `model` with the bytes that `weights` replaces; `name` is for messages.

    Raises:
        EmbedderError: `weights` isn't a file of replaced bytes, or reaches beyond the model.
    """
    import numpy as np

    try:
        with np.load(io.BytesIO(weights), allow_pickle=False) as parts:
            places, values = parts["places"], parts["values"]
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise EmbedderError(f"minilm: {name} is not a file written by benchmarks/weights/tune_embedder.py") from error
    if (named := int(places[:, 1].sum())) != len(values):
        raise EmbedderError(f"minilm: {name} names {named} bytes and holds {len(values)}")
    changed, given, taken = bytearray(model), memoryview(values), 0
    for start, length in places.tolist():
        if not 0 <= start <= start + length <= len(model):
            raise EmbedderError(f"minilm: {name} replaces {length} bytes at {start} of a model of {len(model)}")
        changed[start : start + length] = given[taken : taken + length]
        taken += length
    return bytes(changed)
