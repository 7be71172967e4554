"""Tuned weights of the embedder: what a model's file holds in other places than its authors' (STORE-5).

onnxruntime folds weights that are stored as integers into numbers before it lets anyone replace them, so the file's
own bytes are replaced, in memory, before it sees them. Both files are named by their sha256, so places can't shift.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recall_loop.state.errors import EmbedderError, InvalidInputError

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Weights:
    """Tuned weights: their file's name and bytes, and the sha256 of these."""

    name: str
    data: bytes
    digest: str

    @classmethod
    def read(cls, file: Path) -> Weights:
        """Return what `file` holds, as yet unchecked.

        Raises:
            InvalidInputError: it can't be read.
        """
        try:
            data = file.read_bytes()
        except OSError as error:
            allowed = "a file that benchmarks/tune_embedder.py wrote"
            raise InvalidInputError("minilm_weights", str(file), f"{allowed} ({error.strerror})") from error
        return cls(file.name, data, hashlib.sha256(data).hexdigest())


def packed(places: NDArray[np.int64], values: NDArray[np.uint8]) -> bytes:
    """Return a file of replaced bytes.

    Args:
        places: int64 [n, 2], where each run of bytes starts in the model's file, and how long it is.
        values: uint8 [sum of the lengths], the bytes, run after run.
    """
    import numpy as np

    stream = io.BytesIO()
    np.savez_compressed(stream, places=places, values=values)
    return stream.getvalue()


def patched(model: bytes, weights: bytes, name: str) -> bytes:
    """Return `model` with the bytes that `weights` replaces; `name` is for messages.

    Raises:
        EmbedderError: `weights` isn't what `packed` made, or reaches beyond the model.
    """
    import numpy as np

    try:
        with np.load(io.BytesIO(weights), allow_pickle=False) as parts:
            places, values = parts["places"], parts["values"]
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise EmbedderError(f"minilm: {name} is no file that benchmarks/tune_embedder.py wrote") from error
    if (named := int(places[:, 1].sum())) != len(values):
        raise EmbedderError(f"minilm: {name} names {named} bytes and holds {len(values)}")
    changed, taken = bytearray(model), 0
    for start, length in places.tolist():
        if not 0 <= start <= start + length <= len(model):
            raise EmbedderError(f"minilm: {name} replaces {length} bytes at {start} of a model of {len(model)}")
        changed[start : start + length] = values[taken : taken + length].tobytes()
        taken += length
    return bytes(changed)
