"""Tuned weights: the embedder's own, changed to put conversations near the questions that they answer (STORE-5).

A patch holds the bytes that differ from those of the model's file. onnxruntime folds
weights that are stored as integers into numbers before it lets anyone replace them, so the file's own bytes are
replaced, in memory, before it sees them. Both files are named by their sha256, so places can't shift.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from recall_loop.state.errors import EmbedderError, InvalidInputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Tuned by benchmarks/weights/tune_embedder.py on the conversations that NOTICE names.
SHIPPED_PATCH = Path(__file__).with_name("minilm-talk.npz")
SHIPPED_PATCH_SHA256 = "803a92ea083316ed7cf323e6957bf0822bd48e4c4d0e3a37b34f052bd1c5c8d1"


@dataclass(frozen=True)
class WeightPatch:
    """A file of tuned weights, and the sha256 that it has to have."""

    file: Path
    digest: str

    @classmethod
    def from_file(cls, file: Path) -> WeightPatch:
        """Return the weights of a file, as yet unchecked.

        Raises:
            InvalidInputError: it can't be read.
        """
        if file == SHIPPED_PATCH:
            return cls(file, SHIPPED_PATCH_SHA256)
        try:
            data = file.read_bytes()
        except OSError as error:
            allowed = "a file written by benchmarks/weights/tune_embedder.py"
            raise InvalidInputError("minilm_weights", str(file), f"{allowed} ({error.strerror})") from error
        return cls(file, hashlib.sha256(data).hexdigest())


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


def pack_patch(places: NDArray[np.int64], values: NDArray[np.uint8]) -> bytes:
    """Return a file of replaced bytes.

    Args:
        places: int64 [n, 2], where each run of bytes starts in the model's file, and how long it is.
        values: uint8 [sum of the lengths], the bytes, run after run.
    """
    import numpy as np

    stream = io.BytesIO()
    np.savez_compressed(stream, places=places, values=values)
    return stream.getvalue()


def apply_patch(model: bytes, weights: bytes, name: str) -> bytes:
    """Return `model` with the bytes that `weights` replaces; `name` is for messages.

    Raises:
        EmbedderError: `weights` isn't a file that `pack_patch` made, or reaches beyond the model.
    """
    import numpy as np

    try:
        with np.load(io.BytesIO(weights), allow_pickle=False) as parts:
            places, values = parts["places"], parts["values"]
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise EmbedderError(f"minilm: {name} is not a file written by benchmarks/weights/tune_embedder.py") from error
    if (named := int(places[:, 1].sum())) != len(values):
        raise EmbedderError(f"minilm: {name} names {named} bytes and holds {len(values)}")
    changed, taken = bytearray(model), 0
    for start, length in places.tolist():
        if not 0 <= start <= start + length <= len(model):
            raise EmbedderError(f"minilm: {name} replaces {length} bytes at {start} of a model of {len(model)}")
        changed[start : start + length] = values[taken : taken + length].tobytes()
        taken += length
    return bytes(changed)
