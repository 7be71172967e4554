"""Reads a question and a text together, and tells how likely the text answers the question (CONF-3).

Similar words tell what a text is about, and not whether it holds what is asked for: "my sister bought a car" is close
to "what make is my sister's car?". This is a cross-encoder: four layers of the default embedder's model with weights
of their own, learned from pairs that were written for this project (`benchmarks/weights/reading`). It doesn't depend
on a store's embedder. Other languages are read by their glosses, as the embedder reads them.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recall_loop.memory.store.embed.minilm import load_minilm
from recall_loop.memory.store.embed.onnx_model import OnnxModel, load_once
from recall_loop.memory.store.embed.weight_patch import WeightPatch, read_verified
from recall_loop.text.gloss.glosses import GLOSSED_LANGUAGES, in_english

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Learned by benchmarks/weights/reading/fit_reader.py.
_READER_SHA256 = "583bce8461d2d0364077cf3d536f17c04af112d8f50d35becfd38943b5381e5c"
READER_PATCH = WeightPatch(Path(__file__).with_name("minilm-reader.npz"), _READER_SHA256)
# Tokens of a question, and of question and text together, that are read.
_QUESTION_TOKENS, _READ_TOKENS = 40, 96


def read_answers(question: str, texts: Sequence[str]) -> list[float]:
    """Return the probability in [0,1] that each text answers the question.

    Of a question 40 tokens are read, and of question and text 96: pass the part of a longer text that is on the matter.

    Raises:
        EmbedderError: the model or one of its files can't be loaded or run, or isn't the expected one.
    """
    if not texts:
        return []
    model, head, asked = load_once(READER_PATCH.digest, lambda: load_minilm(READER_PATCH)), _head(), _english(question)
    # One by one: a batch is rounded to integers as a whole, so that each text would count for the others.
    return [_read(model, head, joined_pieces(model.tokenizer, asked, _english(text))) for text in texts]


def _read(model: OnnxModel, head: NDArray[np.float32], pieces: Sequence[int]) -> float:
    import numpy as np

    ids = np.array([pieces], dtype=np.int64)
    hidden = model.run(ids, np.ones_like(ids))[0]
    odds = float(np.concatenate([hidden[0], hidden.mean(axis=0)]) @ head[:-1] + head[-1])
    return 1.0 / (1.0 + math.exp(-odds))


def _english(text: str) -> str:
    return in_english(text, GLOSSED_LANGUAGES) or text


def joined_pieces(tokenizer: Any, question: str, text: str) -> list[int]:
    """Return the word pieces of a question and of a text behind it, with markers before, between and behind."""
    asked = tokenizer.encode(question).ids[:_QUESTION_TOKENS]
    joined = [*asked, *tokenizer.encode(text).ids[1:]]
    return joined if len(joined) <= _READ_TOKENS else [*joined[: _READ_TOKENS - 1], joined[-1]]


@cache
def _head() -> NDArray[np.float32]:
    """Return the weights of the first token and of the mean of all, and the intercept [769]."""
    import numpy as np

    data = read_verified(READER_PATCH.file, READER_PATCH.digest)
    with np.load(io.BytesIO(data), allow_pickle=False) as parts:
        head: NDArray[np.float32] = parts["head"]
    return head
