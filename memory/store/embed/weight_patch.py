"""Tuned weights: the embedder's own, changed to put conversations near the questions that they answer (STORE-5).

A patch holds the bytes that differ from those of the model's file. onnxruntime folds
weights that are stored as integers into numbers before it lets anyone replace them, so the file's own bytes are
replaced, in memory, before it sees them. Both files are named by their sha256, so places can't shift.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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


def apply_patch(model: bytes, weights: bytes, name: str) -> bytearray:
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
    return changed


_IDS = "input_ids"
_GRAPH, _NODE = 7, 1
_INPUT, _OUTPUT, _NAME, _KIND = 1, 2, 3, 4
_BYTES = 2
"""The wire type of everything here: a length, and so many bytes."""


class _Node(NamedTuple):
    """A node of a graph in ONNX's format: names of what goes in and out, what it does, and the rest of it as stored."""

    inputs: list[str]
    outputs: list[str]
    kind: str
    options: bytes

    @classmethod
    def of(cls, data: memoryview) -> _Node:
        """Read a node."""
        fields = list(_fields(data))
        texts = [(number, str(data[start:end], "utf-8")) for number, _, start, end in fields if number <= _KIND]
        rest = b"".join(data[first:end] for number, first, _, end in fields if number > _KIND)
        inputs, outputs = ([text for number, text in texts if number == wanted] for wanted in (_INPUT, _OUTPUT))
        return cls(inputs, outputs, next(text for number, text in texts if number == _KIND), rest)

    def __bytes__(self) -> bytes:
        """Write the node, named by what it gives."""
        texts = [(_INPUT, text) for text in self.inputs] + [(_OUTPUT, text) for text in self.outputs]
        texts += [(_NAME, self.outputs[0]), (_KIND, self.kind)]
        return b"".join(_field(number, text.encode()) for number, text in texts) + self.options


def look_up_stored_rows(model: bytes | bytearray) -> bytes:
    """Return `model` with rows of a table of integers looked up as they are stored, and only these made numbers.

    As it is, onnxruntime makes numbers of the whole table when it loads it, and keeps those: of 30,522 words 47 MB in
    place of 12. The products are the same ones.

    Raises:
        EmbedderError: it has no such table, or isn't in ONNX's format.
    """
    whole = memoryview(model)  # of which parts are no copies: it is large
    try:
        first, start, end = next(field[1:] for field in _fields(whole) if field[0] == _GRAPH)
        graph = _with_lookup(whole[start:end])
        return b"".join([whole[:first], _head(_GRAPH, sum(map(len, graph))), *graph, whole[end:]])
    except (IndexError, StopIteration, UnicodeDecodeError) as error:
        raise EmbedderError("minilm: the model isn't in ONNX's format") from error


def _with_lookup(graph: memoryview) -> list[bytes | memoryview]:
    """Put Gather, Cast, Mul in the place of Cast, Mul, Gather; return the parts of the graph.

    Left in, Cast and Mul would be computed when the graph is loaded, and take 145 MB for that moment.
    """
    nodes = [
        (first, end, _Node.of(graph[start:end])) for number, first, start, end in _fields(graph) if number == _NODE
    ]
    made_by = {node.outputs[0]: node for _, _, node in nodes}
    for first, end, lookup in nodes:
        scaled = made_by.get(lookup.inputs[0]) if lookup.kind == "Gather" and lookup.inputs[1] == _IDS else None
        plain = made_by.get(scaled.inputs[0]) if scaled is not None and scaled.kind == "Mul" else None
        if scaled is not None and plain is not None and plain.kind == "Cast":
            rows, scales, numbers = (f"{_IDS}_{part}" for part in ("rows", "scales", "numbers"))
            ordered = (
                lookup._replace(inputs=[plain.inputs[0], _IDS], outputs=[rows]),
                lookup._replace(inputs=[scaled.inputs[1], _IDS], outputs=[scales]),
                plain._replace(inputs=[rows], outputs=[numbers]),
                scaled._replace(inputs=[numbers, scales], outputs=lookup.outputs),
            )
            cuts = [(start, stop, b"") for start, stop, node in nodes if node in (plain, scaled)]
            cuts.append((first, end, b"".join(_field(_NODE, bytes(node)) for node in ordered)))
            return _with_cuts(graph, cuts)
    raise EmbedderError(f"minilm: the model has no table of integers in which {_IDS} are looked up")


def _with_cuts(graph: memoryview, cuts: list[tuple[int, int, bytes]]) -> list[bytes | memoryview]:
    """Return the parts of a graph with other bytes in some places, each from where to where."""
    parts, at = list[bytes | memoryview](), 0
    for first, end, other in sorted(cuts):
        parts += [graph[at:first], other]
        at = end
    return [*parts, graph[at:]]


def _fields(data: memoryview) -> Iterator[tuple[int, int, int, int]]:
    """Yield each field of a message: its number, where it begins, and where its content begins and ends."""
    at = 0
    while at < len(data):
        first = at
        key, at = _varint(data, at)
        size, at = _varint(data, at)
        # For numbers, the content is the number itself.
        start, at = (at, at + size) if key & 7 == _BYTES else (at, at)
        yield key >> 3, first, start, at


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def _field(number: int, content: bytes) -> bytes:
    return _head(number, len(content)) + content


def _head(number: int, size: int) -> bytes:
    return bytes([number << 3 | _BYTES]) + _written(size)


def _written(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])
