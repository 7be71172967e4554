"""Token vectors as they are stored: projected to fewer dimensions, in 8-bit integers.

A matrix of token vectors takes 384 × 4 bytes a token as the model gives it. Projected on the directions in
which tokens of general text differ most, and in integers, 96 bytes a token are left, without a loss that
could be measured (benchmarks/README.md).
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.embed.embedders import Embedder, TokenEmbedder, normalise_vectors
from recall_loop.memory.store.embed.minilm import MINILM_FINGERPRINT
from recall_loop.memory.store.embed.weight_patch import read_verified
from recall_loop.state.errors import EmbedderError, InvalidInputError

BASIS_FILE = Path(__file__).with_name("token-basis.npy")
BASIS_SHA256 = "3c44002597b8034a3b27b447748ee864975aea1203b5e7960841f66bdebeb47a"
# The model whose tokens the basis was fitted on. Tuned on talk they keep .44 of their length on it, untuned .46.
BASIS_MODEL = MINILM_FINGERPRINT
FORMAT_VERSION = 1
MAX_DIMENSIONS = 65_535
_MAX_STEP = 127
# Below this many multiplications, OpenBLAS computes in the calling thread.
_DIRECT = 240_000
# Version, dimensions, tokens, and the step size of the integers.
_HEADER = struct.Struct("<BHIf")


@dataclass(frozen=True)
class PackedTokens:
    """Token vectors of one text: integers [t, D], and the factor that makes unit vectors of them."""

    values: NDArray[np.int8]
    scale: float


@dataclass(frozen=True)
class TokenCodec:
    """How the token vectors of one embedder are made small.

    Attributes:
        dimension: length of a token vector as the embedder gives it.
        basis: float32 [dimension, D] that it is projected on; None keeps its length.
        fingerprint: name of embedder, basis and format; stored tokens with another one are of no use.
    """

    dimension: int
    basis: NDArray[np.float32] | None
    fingerprint: str

    @property
    def width(self) -> int:
        """Length D of a vector after projection."""
        return self.dimension if self.basis is None else int(self.basis.shape[1])

    def project(self, tokens: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return unit vectors [t, D].

        Raises:
            EmbedderError: `tokens` isn't [t, dimension], or holds NaN or infinity.
        """
        given = np.asarray(tokens, dtype=np.float32)
        if given.ndim != 2 or given.shape[1] != self.dimension or not np.isfinite(given).all():
            raise EmbedderError(f"token vectors of shape {given.shape}; needed: finite numbers [t, {self.dimension}]")
        return normalise_vectors(given if self.basis is None else _product(given, self.basis))

    def compress(self, tokens: NDArray[np.float32]) -> PackedTokens:
        """Return the projected vectors as integers; errors as `project`."""
        vectors = self.project(tokens)
        largest = float(np.abs(vectors).max(initial=0.0))
        scale = float(np.float32(largest / _MAX_STEP)) or 1.0
        return PackedTokens(np.rint(vectors / np.float32(scale)).clip(-_MAX_STEP, _MAX_STEP).astype(np.int8), scale)

    def pack(self, tokens: NDArray[np.float32]) -> bytes:
        """Return `tokens` [t, dimension] as bytes to be stored: 11, and D for each token; errors as `project`."""
        packed = self.compress(tokens)
        count, width = packed.values.shape
        return _HEADER.pack(FORMAT_VERSION, width, count, packed.scale) + packed.values.tobytes()

    def unpack(self, data: bytes) -> PackedTokens:
        """Undo `pack`, but for projection and rounding.

        Raises:
            InvalidInputError: `data` was not packed by this version for vectors of this length.
        """
        if len(data) < _HEADER.size:
            raise InvalidInputError("tokens", data[:16], "packed token vectors")
        version, width, count, scale = _HEADER.unpack_from(data)
        if (version, width) != (FORMAT_VERSION, self.width) or len(data) != _HEADER.size + width * count:
            expected = f"version {FORMAT_VERSION} with {self.width} dimensions"
            raise InvalidInputError("tokens", f"version {version}, {width} × {count} in {len(data)} bytes", expected)
        values = np.frombuffer(data, dtype=np.int8, offset=_HEADER.size).reshape(count, width)
        return PackedTokens(values, float(scale))


def codec_for_embedder(embedder: Embedder) -> TokenCodec | None:
    """Return how the tokens of `embedder` are stored; None where it has no token vectors.

    Tokens of another model than the basis was made of keep their dimensions; tuned weights don't make it another one.

    Raises:
        EmbedderError: the basis can't be read or isn't this version's, or the vectors are too long to be stored.
    """
    if not isinstance(embedder, TokenEmbedder):
        return None
    if embedder.fingerprint.split("+")[0] == BASIS_MODEL:
        basis = load_basis()
        return TokenCodec(len(basis), basis, f"{embedder.fingerprint}/{BASIS_SHA256[:12]}/{FORMAT_VERSION}")
    if not 1 <= embedder.token_dimension <= MAX_DIMENSIONS:
        raise EmbedderError(
            f"{embedder.name}: token vectors of length {embedder.token_dimension}; allowed: 1–{MAX_DIMENSIONS}"
        )
    return TokenCodec(embedder.token_dimension, None, f"{embedder.fingerprint}/whole/{FORMAT_VERSION}")


def _product(rows: NDArray[np.float32], basis: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return `rows` [t, d] times the basis [d, D], in blocks small enough to be multiplied without threads.

    A text has too few tokens for OpenBLAS's threads to be worth waiting for: where other work holds the processors
    that takes a hundred times as long as the product.
    """
    block = max(_DIRECT // basis.size, 1)
    if len(rows) <= block:
        return rows @ basis
    count = len(rows) // block
    end, width = count * block, basis.shape[1]
    product = np.empty((len(rows), width), dtype=np.float32)
    np.matmul(rows[:end].reshape(count, block, len(basis)), basis, out=product[:end].reshape(count, block, width))
    # The last block overlaps: for a single row, the last digits would differ.
    np.matmul(rows[-block:], basis, out=product[-block:])
    return product


@lru_cache(maxsize=1)
def load_basis() -> NDArray[np.float32]:
    """Return the basis, float32 [384, D], columns of length one.

    Raises:
        EmbedderError: the file can't be read, or isn't the one that this version was made with.
    """
    data = read_verified(BASIS_FILE, BASIS_SHA256)
    stored: NDArray[np.float16] = np.load(io.BytesIO(data), allow_pickle=False)
    basis: NDArray[np.float32] = stored.astype(np.float32)
    basis.setflags(write=False)
    return basis
