"""The data sets that memories are compared on, and the folder of files that a peer is handed for one of them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from protocol import DOCUMENTS, QUESTIONS, SESSIONS, TEXTS, VECTORS

from recall_loop.evals.datasets.dataset_parts import Dataset
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.measures.quality_metrics import percentile
from recall_loop.evals.runs.prompts import EvalOptions, ReplayPrompt, prompts_from_dataset
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.encoding.indexing import index_text
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings
from recall_loop.text.words.stop_words import STOP_WORDS

RECORDS, STOP_WORDS_FILE = "records.jsonl", "stop_words.txt"
MULTILINGUAL = "multilingual"
_DATES = {"en": "{0.day} {0:%B %Y}", "zh": "{0.year}年{0.month}月{0.day}日"}


@dataclass(frozen=True)
class PeerSet:
    """A data set, and how it is put to all peers.

    Attributes:
        title: what the page calls it.
        folder: where it lies below the folder of all sets.
        note: a note on how to read its figures, in a sentence or two.
        kinds: documents to load, as for `recall-loop eval`.
        collections: those to load; None = all of them.
        sessions: whether documents are parts of sessions; where they aren't, a session index has nothing to add.
        language: of its texts, a code of ISO 639-1.
        dated: whether a text begins with its date, for peers that have no field for it.
        wide: whether gold is every trace of the answer, so that any of it may do.
        embedder: a setting of Recall Loop, whose vectors all peers are given.
    """

    title: str
    folder: str
    note: str = ""
    kinds: str | None = None
    collections: tuple[str, ...] | None = None
    sessions: bool = True
    language: str = "en"
    dated: bool = False
    wide: bool = False
    embedder: str = "minilm"


_PHONE = (
    "A year of one person's phone: messages, calls, calendar, notes, push notifications, conversations with an "
    "assistant. Gold is every document about the subject of the answer, whether or not it states the answer: read "
    "any@10 and nDCG@10 together with Recall@10. Peers get the date before each text."
)
_SELF_TALK = (
    "Conversations of one person with an assistant. A question is a turn of the user and may use only the documents "
    "from before its session: every peer is asked when its store holds exactly these. Any turn that states a memory "
    "counts as finding it. Unlabelled turns would often do as well, hence any@10."
)
SETS = {
    "locomo": PeerSet(
        "LoCoMo", "locomo", "Long conversations between two people; a document is a turn.", kinds="messages"
    ),
    "lifebench-en": PeerSet(
        "LifeBench, English",
        "other/lifebench-en",
        f"{_PHONE} Machine-translated from the Chinese.",
        kinds="all",
        collections=("lb-en-songyajing",),
        sessions=False,
        dated=True,
        wide=True,
    ),
    "lifebench-zh": PeerSet(
        "LifeBench, Chinese",
        "other/lifebench-zh",
        f"{_PHONE} All peers get the vectors of the multilingual embedder, and bm25s gets segmented texts; the word "
        "indexes of LlamaIndex and mem0 can't segment Chinese.",
        kinds="all",
        collections=("lb-zh-songyajing",),
        sessions=False,
        language="zh",
        dated=True,
        wide=True,
        embedder=MULTILINGUAL,
    ),
    "realmem": PeerSet("RealMem", "other/realmem", _SELF_TALK, kinds="messages", wide=True),
    "musique": PeerSet(
        "MuSiQue",
        "musique",
        "Passages of an encyclopaedia; an answer requires two to four of them.",
        kinds="all",
        sessions=False,
    ),
}


@dataclass(frozen=True)
class EmbeddingCost:
    """The cost of embedding alone: milliseconds per question, documents per second."""

    query_ms: float
    documents_per_second: float


@dataclass(frozen=True)
class PeerJob:
    """What was written for the peers: the questions with their labels, the texts by collection and id."""

    data: PeerSet
    prompts: list[ReplayPrompt]
    texts: dict[tuple[str, str], str]
    embedding: EmbeddingCost


def load_questions(data: PeerSet, root: Path, limit: int | None, seed: int) -> tuple[Dataset, list[ReplayPrompt]]:
    """Return a set and the questions to ask of it: answerable ones with gold, at most `limit` drawn with `seed`.

    Raises:
        InvalidInputError: no such set, or one without such questions.
    """
    dataset = load_dataset(root / data.folder, data.kinds)
    if data.collections is not None:
        unknown = [name for name in data.collections if name not in dataset.collections]
        if unknown:
            raise InvalidInputError(f"{data.title}.collections", unknown, f"some of {sorted(dataset.collections)}")
        kept = [question for question in dataset.questions if question.collection in data.collections]
        dataset = replace(dataset, questions=kept)
    return dataset, prompts_from_dataset(dataset, EvalOptions(limit=limit, seed=seed))


def write_job(folder: Path, data: PeerSet, dataset: Dataset, prompts: list[ReplayPrompt], vectors: bool) -> PeerJob:
    """Write documents, questions, sessions, and vectors where some peer needs them."""
    documents: list[dict[str, Any]] = []
    records: list[dict[str, Any]] = []
    for collection in dict.fromkeys(prompt.request.tenant for prompt in prompts):
        for record in dataset.collections[collection]:
            plain = record.model_dump(mode="json", exclude_defaults=True) | {"id": record.id, "kind": record.kind.value}
            records.append({"collection": collection, "record": plain})
            documents.append(_document(data, collection, plain))
    sessions = _sessions(documents) if data.sessions else []
    asked = [_question(prompt) for prompt in prompts]
    for name, items in {DOCUMENTS: documents, RECORDS: records, SESSIONS: sessions, QUESTIONS: asked}.items():
        (folder / name).write_text("".join(f"{json.dumps(item)}\n" for item in items), encoding="utf-8")
    (folder / STOP_WORDS_FILE).write_text("\n".join(sorted(STOP_WORDS)), encoding="utf-8")
    cost = EmbeddingCost(0.0, float("inf"))
    if vectors:
        cost = _embed(folder, data, *([each["text"] for each in items] for items in (documents, sessions, asked)))
    texts = {(each["collection"], each["id"]): each["text"] for each in documents}
    return PeerJob(data, prompts, texts, cost)


def _document(data: PeerSet, collection: str, plain: dict[str, Any]) -> dict[str, Any]:
    made = datetime.fromisoformat(plain["created_at"]) if plain.get("created_at") else None
    text = index_text(plain)
    if data.dated and made is not None:
        hour = f" {made:%H:%M}" if made.hour or made.minute else ""
        text = f"{_DATES[data.language].format(made)}{hour} {text}"
    session = f"{collection}: {plain.get('session')}"
    return {"id": plain["id"], "collection": collection, "text": text, "session": session}


def _sessions(documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return whole sessions as texts, in the order in which they begin."""
    lines: dict[tuple[str, str], list[str]] = {}
    for each in documents:
        lines.setdefault((each["collection"], each["session"]), []).append(each["text"])
    return [{"id": name, "collection": where, "text": "\n".join(texts)} for (where, name), texts in lines.items()]


def _question(prompt: ReplayPrompt) -> dict[str, Any]:
    request = prompt.request
    return {
        "id": request.id,
        "collection": request.tenant,
        "text": request.messages[-1].content,
        "before": prompt.before,
        "reference_time": request.reference_time.isoformat() if request.reference_time else None,
    }


def _embed(
    folder: Path, data: PeerSet, documents: Sequence[str], sessions: Sequence[str], questions: Sequence[str]
) -> EmbeddingCost:
    # The authors' weights of MiniLM, as anybody has them: those for talk are Recall Loop's own.
    embedder = make_embedder(Settings(embedder="minilm-plain" if data.embedder == "minilm" else data.embedder))
    embedder.embed_queries(["the model is loaded before the clock runs"])
    texts, started = list(dict.fromkeys(documents)), time.perf_counter()
    parts = [embedder.embed_documents(texts)]
    rate = len(texts) / (time.perf_counter() - started)
    further = list(dict.fromkeys(sessions))
    parts.append(embedder.embed_documents(further))
    asked, times = list(dict.fromkeys(questions)), []
    for text in asked:
        began = time.perf_counter()
        parts.append(embedder.embed_queries([text]))
        times.append((time.perf_counter() - began) * 1000)
    rows = dict(zip([*texts, *further, *asked], np.concatenate(parts), strict=True))
    np.save(folder / VECTORS, np.stack(list(rows.values())))
    (folder / TEXTS).write_text(json.dumps(list(rows)), encoding="utf-8")
    return EmbeddingCost(percentile(times, 0.5), rate)
