"""How fast records are written: beside Chroma's own bulk add, and beside the embedder alone.

    python benchmarks/ingest_speed.py [--data DIR] [--records N] [--embedded N] [--rounds N] [--json]

Two questions, each answered within one run. With vectors given (the embedder looks them up): how many
records a second are written, as a share of what `collection.add` of a bare Chroma collection does with the
same ids, vectors, documents and metadata of eight keys. With the embedded model: which share of the time is
the embedder's own. benchmarks/README.md explains every figure.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measuring import Stopwatch, machine, print_report, timed_embedder
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.memory.store import record_writer
from recall_loop.memory.store.chroma.chroma_index import ChromaIndex
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.store.tables import prepared_records
from recall_loop.memory.store.write import commits
from recall_loop.state.records.records import Message, Record
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "locomo"
SHARE_OF_CHROMA, SHARE_OF_EMBEDDER = 0.8, 0.9
DIMENSION, BATCH, SESSION, CONVERSATION = 384, 1000, 20, 600
_SYLLABLES = ("ba", "ko", "ri", "ten", "mu", "sal", "dor", "vi", "len", "gra", "phe", "ost")


@dataclass(frozen=True)
class Elapsed:
    """Seconds of one run: by the clock on the wall, and of all its threads on the processors."""

    wall: float
    processor: float


class LookupEmbedder:
    """An embedder that does no work: text n has row n."""

    name, dimension, fingerprint = "given", DIMENSION, "given:1"

    def __init__(self, texts: Sequence[str], vectors: NDArray[np.float32]) -> None:
        self._rows = {text: row for row, text in enumerate(texts)}
        self._vectors = vectors

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the rows of known texts."""
        return self._vectors[[self._rows[text] for text in texts]]

    embed_queries = embed_documents


def texts_of(data: Path) -> list[str]:
    """Return the texts of a data set's messages, or made ones if it isn't there."""
    if data.is_dir():
        dataset = load_dataset(data, "messages")
        return [record.text for name in dataset.collections for record in dataset.collections[name]]
    choose = random.Random(1)
    words = ["".join(choose.choices(_SYLLABLES, k=choose.randint(1, 4))) for _ in range(5000)]
    return [" ".join(choose.choices(words, k=choose.randint(5, 50))) for _ in range(5000)]


def records_of(texts: Sequence[str], number: int) -> list[Record]:
    """Return turns of conversations; where the texts are used up, they come again with a number before them."""

    def made() -> Iterator[Record]:
        for at in range(number):
            again, place = divmod(at, len(texts))
            conversation = f"c{at // CONVERSATION}"
            yield Message(
                id=f"m{at}",
                text=f"{again} {texts[place]}",
                author=f"speaker {at % 2}",
                agent_id=f"a{at % 3}",
                user_id="u",
                conversation_id=conversation,
                session=f"{conversation}-{at // SESSION}",
                position=at,
            )

    return list(made())


def chroma_add(records: Sequence[Record], vectors: NDArray[np.float32]) -> Elapsed:
    """Add the records to a collection of a bare Chroma."""
    import chromadb
    from chromadb.config import Settings as ChromaSettings

    with tempfile.TemporaryDirectory() as folder:
        client: Any = chromadb.PersistentClient(folder, settings=ChromaSettings(anonymized_telemetry=False))
        collection: Any = client.create_collection(
            "records", embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
        )
        began = _now()
        for start in range(0, len(records), BATCH):
            part = records[start : start + BATCH]
            collection.add(
                ids=[record.id for record in part],
                embeddings=vectors[start : start + BATCH],
                documents=[record.text for record in part],
                metadatas=[_eight_keys(record) for record in part],
            )
        spent = _since(began)
        client.close()
    return spent


def _eight_keys(record: Record) -> dict[str, str | int]:
    return {
        "tenant": "default",
        "kind": ContentType(record.kind).value,
        "author": record.author or "",
        "agent_id": record.agent_id or "",
        "user_id": record.user_id or "",
        "conversation_id": record.conversation_id or "",
        "session": record.session or "",
        "position": record.position or 0,
    }


def our_upsert(records: Sequence[Record], embedder: Embedder) -> Elapsed:
    """Write the records into a new store on disk."""
    with tempfile.TemporaryDirectory() as folder, MemoryStore.open(folder, embedder=embedder) as store:
        began = _now()
        outcomes = store.upsert(records)
        spent = _since(began)
    if any(outcome.status != "created" for outcome in outcomes):
        raise SystemExit("a record was not written")
    return spent


def with_vectors(texts: Sequence[str], number: int, rounds: int) -> dict[str, Any]:
    """Measure both in turn, so that whatever else the machine does falls on both."""
    records = records_of(texts, number)
    vectors = np.random.default_rng(0).standard_normal((number, DIMENSION), dtype=np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    indexed = [prepared_records.prepare_record("default", record).text for record in records]
    embedder = LookupEmbedder(indexed, vectors)
    theirs, ours = [], []
    for _ in range(rounds):
        theirs.append(chroma_add(records, vectors))
        ours.append(our_upsert(records, embedder))
    return {
        "records": number,
        "goal": SHARE_OF_CHROMA,
        "chroma_per_second": number / statistics.median(spent.wall for spent in theirs),
        "ours_per_second": number / statistics.median(spent.wall for spent in ours),
        "share": statistics.median(their.wall / our.wall for their, our in zip(theirs, ours, strict=True)),
        "share_of_processor": statistics.median(
            their.processor / our.processor for their, our in zip(theirs, ours, strict=True)
        ),
        "parts_seconds": parts(records, embedder),
    }


def parts(records: Sequence[Record], embedder: Embedder) -> dict[str, float]:
    """Write once more with a clock on the parts; the clock itself costs time, hence not in the runs above."""
    clock, kept = Stopwatch(), []
    for owner, name in (
        (record_writer, "validate_and_prepare"),
        (commits, "_write_rows"),
        (commits, "reindex"),
        (ChromaIndex, "upsert"),
        (commits, "_own_vectors"),
    ):
        kept.append((owner, name, getattr(owner, name)))
        setattr(owner, name, clock.timed(name.strip("_"), getattr(owner, name)))
    try:
        whole = our_upsert(records, embedder)
    finally:
        for owner, name, original in kept:
            setattr(owner, name, original)
    return {**clock.seconds, "whole": whole.wall}


def with_model(texts: Sequence[str], number: int, settings: Settings) -> dict[str, Any]:
    """Write with the embedded model, and tell the time inside it."""
    model, clock = make_embedder(settings), Stopwatch()
    model.embed_documents(["the model is loaded before the clock starts"])
    spent = our_upsert(records_of(texts, number), timed_embedder(model, clock))
    return {
        "records": number,
        "goal": SHARE_OF_EMBEDDER,
        "per_second": number / spent.wall,
        "embedder_share": clock.total / spent.wall,
    }


def _now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(began: tuple[float, float]) -> Elapsed:
    now = _now()
    return Elapsed(now[0] - began[0], now[1] - began[1])


def show(figures: dict[str, Any], console: Console) -> None:
    """Print the figures as a table."""
    table = Table(title="ingest", title_justify="left", caption=figures["machine"], box=box.SIMPLE_HEAD)
    table.add_column("figure")
    table.add_column("value", justify="right")
    given, model = figures["given"], figures["model"]
    table.add_row(f"{given['records']:,} records, vectors given", "")
    table.add_row("Chroma's own bulk add", f"{given['chroma_per_second']:.0f} /s")
    table.add_row("everything together", f"{given['ours_per_second']:.0f} /s")
    table.add_row(f"share of Chroma's rate, goal {given['goal']}", f"{given['share']:.2f}")
    table.add_row("the same by processor time", f"{given['share_of_processor']:.2f}")
    for name, seconds in given["parts_seconds"].items():
        table.add_row(f"  inside {name}", f"{seconds:.2f} s")
    if model:
        table.add_section()
        table.add_row(f"{model['records']:,} records, embedded model", f"{model['per_second']:.0f} /s")
        table.add_row(f"embedder's share of the time, goal {model['goal']}", f"{model['embedder_share']:.1%}")
    console.print(table)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure and return all figures."""
    texts = texts_of(arguments.data)
    return {
        "machine": machine(),
        "given": with_vectors(texts, arguments.records, arguments.rounds),
        "model": with_model(texts, arguments.embedded, Settings()) if arguments.embedded else None,
    }


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="How fast records are written.")
    parser.add_argument("--data", type=Path, default=DATA, help="data set (default: %(default)s)")
    parser.add_argument("--records", type=int, default=10_000, help="with vectors given (default: %(default)s)")
    parser.add_argument("--embedded", type=int, default=2_000, help="with the model; 0 = not (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    print_report(parser.parse_args(), run, show)


if __name__ == "__main__":
    main()
