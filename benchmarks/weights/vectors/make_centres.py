"""Means of multilingual-e5-small's vectors over generated lives: `memory/store/embed/multilingual-centres.json`.

The cosines of that model lie between .7 and .9 for texts that have nothing in common. With the mean taken from each
vector they spread around 0, as the default embedder's do. Lives are generated from a seed in six languages, statements
for stored texts, questions for queries.

    python benchmarks/weights/vectors/make_centres.py [-o FILE]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np

from recall_loop.evals.living.generated_lives import generate_lives
from recall_loop.memory.store.embed.embedders import normalise_vectors
from recall_loop.memory.store.embed.multilingual import CENTRES_FILE, read_packed_weights, write_model_folder
from recall_loop.memory.store.embed.onnx_folder import OnnxEmbedder
from recall_loop.state.types import SpeechAct
from recall_loop.text.speech.speech_acts import speech_acts

LANGUAGES = ("en", "de", "es", "fr", "zh", "ru")
PER_LANGUAGE = 400
DIGITS = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=CENTRES_FILE)
    args = parser.parse_args()
    said, asked = texts()
    with tempfile.TemporaryDirectory() as folder:
        write_model_folder(Path(folder), read_packed_weights(), {})
        embedder = OnnxEmbedder(Path(folder))
        documents, tokens = embedder.embed_documents_with_tokens(said)
        queries = embedder.embed_queries(asked)
    means = {
        "query_centre": queries.mean(axis=0),
        "document_centre": documents.mean(axis=0),
        "token_centre": np.concatenate(tokens).mean(axis=0),
    }
    rounded = {name: [round(float(value), DIGITS) for value in mean] for name, mean in means.items()}
    args.output.write_text(json.dumps(rounded, separators=(",", ":")) + "\n", encoding="utf-8")
    centred = normalise_vectors(documents - means["document_centre"])
    pairs = np.triu_indices(len(said), 1)
    spread = [5, 50, 95]
    for name, vectors in (("as given", documents), ("centred", centred)):
        print(f"cosines of two texts, {name}: ", np.percentile((vectors @ vectors.T)[pairs], spread).round(2))


def texts() -> tuple[list[str], list[str]]:
    """Return statements and questions, as many of each language."""
    said: list[str] = []
    asked: list[str] = []
    for language in LANGUAGES:
        lives = list(generate_lives([language], "dev", 0))
        spoken = [record.text for life in lives for session in life.sessions for record in session]
        statements = (text for text in spoken if speech_acts(text) == {SpeechAct.STATEMENT})
        said += list(dict.fromkeys(statements))[:PER_LANGUAGE]
        asked += list(dict.fromkeys(each.question for life in lives for each in life.questions))[:PER_LANGUAGE]
    return said, asked


if __name__ == "__main__":
    main()
