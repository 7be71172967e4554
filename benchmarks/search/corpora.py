"""Corpora of any size with realistic texts, vectors and fields, the same on every run.

A record's text is two texts of a pool, one on each line, and its vector is the normalised sum of theirs: the
model embeds the pool once, and a million records cost no more embedding than ten thousand. One record in five
also has a number of its own, so that the vocabulary grows with the corpus as real ones do.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recall_loop.memory.store.embed.embedders import normalise_vectors
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.state.scope import DEFAULT_TENANT, Filters

VERSION = 1
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
START, SPAN = datetime(2022, 1, 1, tzinfo=UTC), timedelta(days=3 * 365)
CONVERSATIONS = AGENTS = TOPICS = 1000
SESSION = 20
ROLES = ("user", "assistant", "tool")
LABELS = ("travel", "work", "family", "health")
AREAS = ("north", "south")
_BLOCK = 1000
_WORDS = 40
_FACT, _ARCHIVAL = 0.14, 0.06
_NAMES = [
    "Ada",
    "Ben",
    "Cleo",
    "Dan",
    "Eva",
    "Finn",
    "Gita",
    "Hugo",
    "Ida",
    "Jon",
    "Kaya",
    "Leo",
    "Mia",
    "Nils",
    "Olga",
    "Pia",
    "Quin",
    "Ravi",
    "Sara",
    "Tom",
    "Uma",
    "Vic",
    "Wen",
    "Xenia",
    "Yann",
    "Zoe",
]
_SUBJECTS = [
    "brother",
    "neighbour",
    "teacher",
    "doctor",
    "colleague",
    "sister",
    "manager",
    "friend",
    "daughter",
    "uncle",
]
_VERBS = ["visited", "painted", "repaired", "bought", "sold", "remembered", "lost", "found", "planted", "recorded"]
_OBJECTS = ["guitar", "garden", "kitchen", "bicycle", "camera", "violin", "boat", "novel", "lamp", "harvest"]
_PLACES = ["Lisbon", "Oslo", "Kyoto", "Denver", "Lima", "Cairo", "Perth", "Riga", "Quito", "Hanoi"]


@dataclass(frozen=True)
class TextPool:
    """Distinct texts with their unit vectors [n, d], and questions with theirs."""

    texts: list[str]
    vectors: NDArray[np.float32]
    questions: list[str]
    question_vectors: NDArray[np.float32]


@dataclass(frozen=True)
class FilterCase:
    """One filter, for the store and in Chroma's own notation."""

    filters: Filters
    where: dict[str, Any]


class PairEmbedder:
    """Serves the vectors of a pool: a text of two lines gets the normalised sum of theirs."""

    name = "pairs"

    def __init__(self, pool: TextPool) -> None:
        self._vectors = pool.vectors
        self._known = {text: at for at, text in enumerate(pool.texts)}
        self._asked = dict(zip(pool.questions, pool.question_vectors, strict=True))
        self.dimension = pool.vectors.shape[1]
        self.fingerprint = f"pairs:{VERSION}"

    def embed_documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors [n, d]; raises KeyError for a line that isn't in the pool."""
        found = [text.split("\n")[:2] for text in texts]
        first = self._vectors[[self._place(lines[0]) for lines in found]]
        return normalise_vectors(first + self._vectors[[self._known[lines[1]] for lines in found]])

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of questions of the pool, or of texts as records have them."""
        made = [self._asked[text] if text in self._asked else self.embed_documents([text])[0] for text in texts]
        return np.array(made, dtype=np.float32).reshape(len(made), self.dimension)

    def _place(self, line: str) -> int:
        """Return which text of the pool a line is, with or without the author that the store puts before it."""
        at = self._known.get(line)
        return self._known[line.partition(": ")[2]] if at is None else at


def load_pool(data: Path, cache: Path, questions: int) -> TextPool:
    """Return texts and questions of the data sets in `data`, or generated ones; vectors are kept in `cache`."""
    texts = _texts(data) or _generated()
    asked = _questions(data, questions) or _generated()[:: max(1, len(_generated()) // questions)][:questions]
    return TextPool(texts, _embedded(texts, cache), asked, _embedded(asked, cache))


def records(pool: TextPool, count: int, *, first: int = 0, prefix: str = "r") -> Iterator[dict[str, Any]]:
    """Yield `count` records as mappings, from number `first` of the corpus of `count` on; memory use is constant."""
    each = max(SESSION // 2, count // CONVERSATIONS)
    sessions = -(-each // SESSION)
    for block in range(first // _BLOCK, -(-count // _BLOCK)):
        rng = np.random.default_rng([VERSION, block])
        pairs = rng.integers(0, len(pool.texts), (_BLOCK, 2))
        dice = rng.random((_BLOCK, 2))
        drawn = rng.integers(0, (len(ROLES), len(LABELS), TOPICS, len(AREAS)), (_BLOCK, 4))
        for at in range(max(0, first - block * _BLOCK), min(_BLOCK, count - block * _BLOCK)):
            number = block * _BLOCK + at
            conversation, inside = divmod(number, each)
            session = conversation * sessions + inside // SESSION
            role, label, topic, area = (int(value) for value in drawn[at])
            text = "\n".join(pool.texts[pick] for pick in pairs[at])
            yield {
                "id": f"{prefix}{number}",
                "text": f"{text}\nNo. {number}" if dice[at, 1] < 0.2 else text,
                **_kind(dice[at, 0], session + number % 2),
                "role": ROLES[role],
                "label": LABELS[label],
                "tags": [f"topic-{topic}", AREAS[area]],
                "conversation_id": f"conversation-{conversation}",
                "session": f"session-{session}",
                "agent_id": f"agent-{session * 7919 % AGENTS}",
                "group_id": f"group-{session * 7919 % AGENTS % 20}",
                "created_at": START + number * (SPAN / count),
            }


def metadata(record: dict[str, Any]) -> dict[str, str | int]:
    """Return a record's fields as flat metadata, for a Chroma collection that the store didn't lay out."""
    plain = {name: record[name] for name in ("kind", "role", "label", "conversation_id", "session", "agent_id")}
    topic, area = record["tags"]
    return {**plain, "topic": topic, "area": area, "created_at": int(record["created_at"].timestamp())}


def cases(name: str, count: int) -> list[FilterCase]:
    """Return `count` different filters of one kind: `0.1 %`, `1 %`, `33 %` or `four clauses`."""
    rng = np.random.default_rng([VERSION, len(name)])
    make = {"0.1 %": _thousandth, "1 %": _hundredth, "33 %": _third, "four clauses": _four}[name]
    return [make(number, rng) for number in range(count)]


FILTERS = ("0.1 %", "1 %", "33 %", "four clauses")


def _thousandth(number: int, rng: np.random.Generator) -> FilterCase:
    """One conversation (neighbouring rows), one tag or one agent (scattered rows), in turn."""
    value = int(rng.integers(0, CONVERSATIONS))
    if number % 3 == 0:
        return FilterCase(
            Filters(conversation_id=f"conversation-{value}"), {"conversation_id": f"conversation-{value}"}
        )
    if number % 3 == 1:
        return FilterCase(Filters(tags=(f"topic-{value}",)), {"topic": f"topic-{value}"})
    return FilterCase(Filters(agent_ids=(f"agent-{value}",)), {"agent_id": f"agent-{value}"})


def _hundredth(number: int, rng: np.random.Generator) -> FilterCase:
    """Ten agents of a thousand."""
    agents = [f"agent-{value}" for value in rng.choice(AGENTS, 10, replace=False)]
    return FilterCase(Filters(agent_ids=tuple(agents)), {"agent_id": {"$in": agents}})


def _third(number: int, rng: np.random.Generator) -> FilterCase:
    """A third of the time span (neighbouring rows), or one role of three, in turn."""
    start = START + SPAN * float(rng.random()) * (2 / 3 if number % 2 else 0.01)
    if number % 2:
        end = start + SPAN / 3
        return FilterCase(Filters(start_time=start, end_time=end), {"$and": _between(start, end)})
    role = ROLES[number // 2 % len(ROLES)]
    return FilterCase(
        Filters(role=role, start_time=start), {"$and": [{"role": role}, {"created_at": {"$gte": _seconds(start)}}]}
    )


def _four(number: int, rng: np.random.Generator) -> FilterCase:
    """Role, label, tag and a time range: 2.5 % of the records, scattered."""
    start = START + SPAN * float(rng.random()) * 0.4
    end = start + SPAN * 0.6
    role, label, area = ROLES[number % 3], LABELS[number % 4], AREAS[number % 2]
    where = [{"role": role}, {"label": label}, {"area": area}, *_between(start, end)]
    return FilterCase(Filters(role=role, label=label, tags=(area,), start_time=start, end_time=end), {"$and": where})


def _between(start: datetime, end: datetime) -> list[dict[str, Any]]:
    return [{"created_at": {"$gte": _seconds(start)}}, {"created_at": {"$lt": _seconds(end)}}]


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def _kind(die: float, speaker: int) -> dict[str, str]:
    name = _NAMES[speaker % len(_NAMES)]
    if die < _FACT:
        return {"kind": "fact", "subject": name}
    return {"kind": "archival"} if die < _FACT + _ARCHIVAL else {"kind": "message", "author": name}


def _texts(data: Path) -> list[str]:
    """Return the distinct texts of all documents, each cut to forty words."""
    files = sorted([*data.glob("*/docs.jsonl"), *data.glob("*/turns/*.jsonl"), *data.glob("*/facts/*.jsonl")])
    found: dict[str, None] = {}
    for file in files:
        with file.open(encoding="utf-8") as lines:
            found.update((" ".join(json.loads(line)["text"].split()[:_WORDS]), None) for line in lines)
    return [text for text in found if text]


def _questions(data: Path, count: int) -> list[str]:
    """Return `count` distinct questions of the LoCoMo set, spread over all of it."""
    file = data / "locomo" / "questions.jsonl"
    if not file.exists():
        return []
    with file.open(encoding="utf-8") as lines:
        found = list(dict.fromkeys(json.loads(line)["question"] for line in lines))
    return found[:: max(1, len(found) // count)][:count]


def _generated() -> list[str]:
    """Return ten thousand sentences, for a machine without the data sets."""
    return [
        f"{name}'s {subject} {verb} the {thing} in {place} once more."
        for name in _NAMES[:1]
        for subject in _SUBJECTS
        for verb in _VERBS
        for thing in _OBJECTS
        for place in _PLACES
    ]


def _embedded(texts: Sequence[str], cache: Path) -> NDArray[np.float32]:
    """Return MiniLM's vectors of `texts`, made once."""
    model = MiniLmEmbedder()
    key = hashlib.sha256(json.dumps([model.fingerprint, *texts]).encode()).hexdigest()[:16]
    file = cache / f"vectors-{key}.npy"
    if not file.exists():
        cache.mkdir(parents=True, exist_ok=True)
        np.save(file, model.embed_documents(texts))
    loaded: NDArray[np.float32] = np.load(file)
    return loaded


TENANT = DEFAULT_TENANT
