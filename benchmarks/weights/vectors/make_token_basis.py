"""Make memory/store/embed/token-basis.npy: the directions in which the tokens of general text differ most.

    python benchmarks/weights/vectors/make_token_basis.py --passages FILE.jsonl […] [--dimensions 96] [--out FILE]

Each line of a file is an object with `text` and perhaps `title`: general passages, such as those of an
encyclopedia, of which many thousand tokens are wanted. They should not be what ranking is measured on. The
basis is the leading eigenvectors of the tokens' second moments; the sign of each is fixed, so that the same
passages give the same file but for rounding. The file's sha256 goes into memory/store/embed/token_vectors.py: stores
that hold tokens of another basis don't use them any more, until they are rebuilt.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from rich.console import Console

from recall_loop.memory.store.embed.minilm import MiniLmEmbedder

OUT = Path(__file__).resolve().parents[3] / "memory" / "store" / "embed" / "token-basis.npy"
BATCH = 256


def passages(files: Iterable[Path]) -> Iterator[str]:
    """Yield the texts of the passages, title first."""
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for line in lines:
                found = json.loads(line)
                yield f"{found['title']}: {found['text']}" if found.get("title") else found["text"]


def second_moments(texts: Iterable[str]) -> tuple[np.ndarray, int]:
    """Return the sum of the outer products of all token vectors, and how many there were."""
    embedder = MiniLmEmbedder()
    total, count = np.zeros((embedder.dimension, embedder.dimension)), 0
    for batch in batches(texts):
        for tokens in embedder.embed_documents_with_tokens(batch)[1]:
            total += tokens.T.astype(np.float64) @ tokens
            count += len(tokens)
    return total, count


def batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield lists of at most 256 texts."""
    gathered: list[str] = []
    for text in texts:
        gathered.append(text)
        if len(gathered) == BATCH:
            yield gathered
            gathered = []
    if gathered:
        yield gathered


def basis_of(moments: np.ndarray, dimensions: int) -> np.ndarray:
    """Return the leading eigenvectors as columns, float16; the largest component of each is positive."""
    _, vectors = np.linalg.eigh(moments)
    leading = vectors[:, ::-1][:, :dimensions]
    signs = np.sign(leading[np.abs(leading).argmax(axis=0), np.arange(dimensions)])
    return (leading * signs).astype(np.float16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=Path, nargs="+", required=True, help="JSON Lines with text and title")
    parser.add_argument("--dimensions", type=int, default=96)
    parser.add_argument("--out", type=Path, default=OUT)
    chosen = parser.parse_args()
    moments, count = second_moments(passages(chosen.passages))
    basis = basis_of(moments, chosen.dimensions)
    kept = float(np.square(np.linalg.cholesky(moments + np.eye(len(moments))).T @ basis.astype(float)).sum())
    np.save(chosen.out, basis, allow_pickle=False)
    digest = hashlib.sha256(chosen.out.read_bytes()).hexdigest()
    Console().print(f"{count:,} tokens, {kept / np.trace(moments):.1%} of their length kept, sha256 {digest}")


if __name__ == "__main__":
    main()
