"""Vectors of records that are written: one of each, token vectors, and those of the pieces of long ones (GUARD-8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.embed.embedders import Embedder, group_by_model, run_embedder
from recall_loop.memory.store.embed.token_vectors import TokenCodec
from recall_loop.state.types import ContentType

Tokens = list[NDArray[np.float32] | None]

# An embedder reads some two hundred words, so that one vector stands for the beginning of a long run only. Its text is
# cut at its lines, one of which is the task, a message of a user, the tools or an error.
PIECE_CHARACTERS = 900
"""Characters that an embedder surely reads to their end."""
# Short lines are joined into one piece until it has this many characters.
_SHORT = 300
MAX_PIECES = 24
"""Pieces of one record; of a longer text so many are taken, at equal distances."""
MAX_PIECE_TOKENS = 1024
"""Token vectors of one long record; where there are more, so many neighbours become one that they are as few."""


@dataclass(frozen=True, slots=True)
class EmbeddedTexts:
    """What n records are embedded as.

    Attributes:
        vectors: of each record, of what the embedder reads of it [n, d].
        tokens: packed token vectors, of a long record those of all of its pieces; None without a codec.
        pieces: vectors of a long record's pieces as they are stored, float16 [pieces, d]; b"" for a short one.
    """

    vectors: NDArray[np.float32]
    tokens: list[bytes | None]
    pieces: list[bytes]


def embed_texts(
    embedder: Embedder, codec: TokenCodec | None, dimension: int, texts: Sequence[tuple[str, str]]
) -> EmbeddedTexts:
    """Embed records, each given by its kind and index text.

    Without a codec (the embedder has no token vectors, or they aren't wanted) there are no token vectors. Where the
    embedder has a conversational one, texts go to two models.

    Raises:
        EmbedderError: the embedder fails, or gives vectors of another length, number or NaN.
    """
    vectors, tokens = _embedded(embedder, codec, dimension, texts)
    packed = [None if codec is None or matrix is None else codec.pack(matrix) for matrix in tokens]
    pieces = [b""] * len(texts)
    for row, (kind, text) in enumerate(texts):  # one by one: token vectors of a long record take megabytes
        if parts := pieces_of(kind, text):
            made, of_parts = _embedded(embedder, codec, dimension, [(kind, part) for part in parts])
            pieces[row] = made.astype(np.float16).tobytes()
            held = [part for part in of_parts if part is not None]
            if codec is not None and held:
                packed[row] = codec.pack(_thinned(np.concatenate(held)))
    return EmbeddedTexts(vectors, packed, pieces)


def _thinned(tokens: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return at most `MAX_PIECE_TOKENS` vectors, sums of so many neighbours."""
    every = -(-len(tokens) // MAX_PIECE_TOKENS)
    return tokens if every == 1 else np.add.reduceat(tokens, np.arange(0, len(tokens), every), axis=0)


def _embedded(
    embedder: Embedder, codec: TokenCodec | None, dimension: int, texts: Sequence[tuple[str, str]]
) -> tuple[NDArray[np.float32], Tokens]:
    """Return vectors [n, dimension], and token vectors of each text, from one run of each model."""
    vectors = np.zeros((len(texts), dimension), dtype=np.float32)
    tokens: Tokens = [None] * len(texts)
    for model, rows in group_by_model(embedder, [kind for kind, _ in texts]):
        given = [texts[row][1] for row in rows]
        vectors[rows], made = run_embedder(model, given, dimension, with_tokens=codec is not None)
        for row, matrix in zip(rows, made, strict=True):
            tokens[row] = matrix
    return vectors, tokens


def pieces_of(kind: str, text: str) -> list[str]:
    """Return the pieces of a record's index text; none of a kind, or of a text, that one vector is enough for."""
    if kind != ContentType.TRAJECTORY or len(text) <= PIECE_CHARACTERS:
        return []
    found = list[str]()
    for line in text.split("\n"):
        for part in _cut(line):
            if found and len(found[-1]) < _SHORT and len(found[-1]) + len(part) < PIECE_CHARACTERS:
                found[-1] += "\n" + part
            elif part:
                found.append(part)
    most = min(len(found), MAX_PIECES)
    return [found[at * len(found) // most] for at in range(most)]


def _cut(line: str) -> list[str]:
    """Cut a line into parts that are short enough, at blanks where there are any."""
    parts, start = list[str](), 0
    while len(line) - start > PIECE_CHARACTERS:
        blank = line.rfind(" ", start + PIECE_CHARACTERS // 2, start + PIECE_CHARACTERS)
        end = start + PIECE_CHARACTERS if blank < 0 else blank
        parts.append(line[start:end].strip())
        start = end
    return [*parts, line[start:].strip()]
