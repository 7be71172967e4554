"""Embedders from a folder with a model for onnxruntime: `embedder="onnx:FOLDER"` (OPEN-3)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import override

from recall_loop.memory.store.embed.embedders import FloatMatrix
from recall_loop.memory.store.embed.onnx_model import (
    Centre,
    OnnxModel,
    OnnxTexts,
    Pooling,
    load_once,
    make_session,
    word_pieces,
)
from recall_loop.state.errors import EmbedderError, InvalidInputError

MODEL_FILE, TOKENIZER_FILE, SETTINGS_FILE = "model.onnx", "tokenizer.json", "settings.json"
FOLDER_FILES = (MODEL_FILE, TOKENIZER_FILE, SETTINGS_FILE)
_NEEDED = f"a folder with {MODEL_FILE}, {TOKENIZER_FILE} and, where it needs other settings, {SETTINGS_FILE}"
_PADS = ("<pad>", "[PAD]")


class OnnxSettings(BaseModel):
    """How texts are put to a model, and its vectors taken: `settings.json`. All fields may be left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    query_prefix: str = Field("", description="Put before each query.")
    document_prefix: str = Field("", description="Put before each stored text.")
    pooling: Pooling = Field("mean", description="A text's vector: the mean of its tokens', or the first one's (cls).")
    max_tokens: int = Field(512, ge=8, le=8192, description="Longer texts are cut.")
    query_centre: tuple[float, ...] = Field((), description="Taken from unit vectors of queries; none = nothing is.")
    document_centre: tuple[float, ...] = Field((), description="The same of stored texts.")
    token_centre: tuple[float, ...] = Field((), description="Taken from the vectors of tokens.")


class OnnxEmbedder(OnnxTexts):
    """A model folder: `model.onnx`, `tokenizer.json` (of the package `tokenizers`), and `settings.json` where needed.

    The model takes `input_ids`, `attention_mask` and maybe `token_type_ids` [texts, tokens]; its first output is
    float32 [texts, tokens, d]. It is loaded at the first embedding, once per process.

    Args:
        folder: the folder.
        name: name for messages.
        fingerprint: name and version of the model; absent = a digest of the three files.

    Raises:
        InvalidInputError: a file is missing, or the settings are wrong. Other faults show when it is first used.
    """

    def __init__(self, folder: Path, name: str = "onnx", fingerprint: str | None = None) -> None:
        for needed in (MODEL_FILE, TOKENIZER_FILE):
            if not (folder / needed).is_file():
                raise InvalidInputError("embedder", f"onnx:{folder}", _NEEDED)
        self.name = name
        self.folder = folder
        self._settings = _read_settings(folder / SETTINGS_FILE)
        self._given = fingerprint

    @cached_property
    def fingerprint(self) -> str:
        """Name and version of the model."""
        return self._given or f"onnx:{_digest(self.folder)[:24]}"

    @property
    def dimension(self) -> int:
        """Length of a vector; the first use loads the model."""
        return self._loaded().dimension

    token_dimension = dimension

    @override
    def _embedded(self, texts: Sequence[str], tokens: list[FloatMatrix] | None, *, query: bool) -> FloatMatrix:
        model = self._loaded()
        prefix = self._settings.query_prefix if query else self._settings.document_prefix
        try:
            vectors = model.embed([prefix + text for text in texts], tokens, self._centre(query=query))
        except (RuntimeError, ValueError, KeyError) as error:  # onnxruntime has no error class of its own
            words = f"{self.name}: {type(error).__name__}: {error}"
            raise EmbedderError(words, told=f"{self.name}: the model fails") from error
        if tokens is not None and prefix:
            skipped = model.word_count(prefix)
            tokens[:] = [matrix[skipped:] for matrix in tokens]
        return vectors

    def _centre(self, *, query: bool) -> Centre | None:
        import numpy as np

        settings = self._settings
        text = settings.query_centre if query else settings.document_centre
        if not text and not settings.token_centre:
            return None
        zero = (0.0,) * self.dimension
        return Centre(
            np.array(text or zero, dtype=np.float32), np.array(settings.token_centre or zero, dtype=np.float32)
        )

    def _loaded(self) -> OnnxModel:
        load = partial(_load, self.folder, self._settings, self.name)
        return load_once((self.folder.resolve(), self._settings), load)


def _read_settings(file: Path) -> OnnxSettings:
    try:
        return OnnxSettings.model_validate_json(file.read_bytes()) if file.exists() else OnnxSettings()
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or SETTINGS_FILE
        raise InvalidInputError(f"{file}: {field}", first["input"], first["msg"]) from error
    except OSError as error:
        raise InvalidInputError("embedder", f"onnx:{file.parent}", f"{_NEEDED} ({error.strerror})") from error


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for name in FOLDER_FILES:
        if (folder / name).exists():
            with (folder / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _load(folder: Path, settings: OnnxSettings, name: str) -> OnnxModel:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        session = make_session(str(folder / MODEL_FILE))
    except Exception as error:  # both packages raise only the base class
        words = f"{name}: {folder} can't be loaded: {error}"
        raise EmbedderError(words, told=f"{name}: the model can't be loaded") from error
    tokenizer.no_padding()
    tokenizer.enable_truncation(settings.max_tokens)
    if len(session.get_outputs()[0].shape) != 3 or not isinstance(session.get_outputs()[0].shape[-1], int):
        shape = session.get_outputs()[0].shape
        words = f"the first output has shape {shape}; needed: [texts, tokens, d]"
        raise EmbedderError(f"{name}: {folder}: {words}", told=f"{name}: {words}")
    pad = next((at for at in map(tokenizer.token_to_id, _PADS) if at is not None), 0)
    by_id = {at: piece for piece, at in tokenizer.get_vocab(with_added_tokens=True).items()}
    pieces = [by_id.get(at, "") for at in range(max(by_id, default=0) + 1)]
    markers = frozenset(token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special)
    return OnnxModel(session, tokenizer, word_pieces(pieces, markers), pad, settings.pooling)
