"""The links of Chroma's vector index, which is hnswlib's: whether all of them lead to rows that the index holds."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

# Version, first offset, capacity, rows, bytes per row, offsets of label and vector in it, highest level, entry point,
# maximum links of a row above the lowest level and on it.
_HEADER = "<iQQQQQQiIQQ"
_CHUNK = 10_000


def has_dangling_links(folder: Path) -> bool:
    """Return whether an index under `folder` links to rows beyond those it holds, on the lowest level.

    Its header is then older than its rows. An index of another layout is passed over. Reads the whole index.

    Raises:
        OSError: a file can't be read.
    """
    return any(map(_dangles, folder.rglob("header.bin")))


def _dangles(header: Path) -> bool:
    found = header.read_bytes()
    data = header.with_name("data_level0.bin")
    if len(found) < struct.calcsize(_HEADER) or not data.is_file():
        return False
    _, _, _, rows, row_bytes, *_, most = struct.unpack_from(_HEADER, found)
    links = 4 * (1 + most)  # their number, then each
    if links > row_bytes or data.stat().st_size < rows * row_bytes:
        return False
    with data.open("rb") as stream:
        for start in range(0, rows, _CHUNK):
            part = min(_CHUNK, rows - start)
            table = np.frombuffer(stream.read(part * row_bytes), dtype=np.uint8).reshape(part, row_bytes)
            numbers = np.ascontiguousarray(table[:, :links]).view("<u4")
            linked = np.arange(most) < (numbers[:, :1] & 0xFFFF)
            if (numbers[:, 1:][linked] >= rows).any():
                return True
    return False
