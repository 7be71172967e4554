"""The indexed form of a record: its text, keys, order among its neighbours, and windows (STORE-7). Pure functions."""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from recall_loop.state.records.records import Fact
from recall_loop.state.types import MAX_POSITION, ContentType, Role
from recall_loop.text.names.introductions import with_plain_name
from recall_loop.text.speech.speech_acts import speech_acts
from recall_loop.text.time.dates import date_stems
from recall_loop.text.words.folding import normalise
from recall_loop.text.words.tokens import has_word, index_stems

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PREVIOUS_WEIGHT = 0.5
NEXT_WEIGHT = 0.25
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET = 10**18
_ENCODED = "x0"
NAMELESS = frozenset({"user", "the user", "i", "me", "myself"})
"""Subjects, folded, that name nobody: the conversation alone tells who is meant."""


def digest(*parts: str | None) -> str:
    """Return a 32-digit hexadecimal key of `parts`; different lists give different keys."""
    return text_hash(json.dumps(parts, ensure_ascii=True)).hex()


def text_hash(text: str, size: int = 16) -> bytes:
    """Return a hash of `size` bytes, which ids on disk are made of."""
    return hashlib.blake2b(text.encode(), digest_size=size).digest()


def record_key(tenant: str, record_id: str) -> str:
    """Return the id under which Chroma holds a record."""
    return digest(tenant, record_id)


def body_checksum(body: str) -> int:
    """Return the checksum of a record's JSON (GUARD-6)."""
    return zlib.crc32(body.encode())


def now_microseconds() -> int:
    """Return the time in whole microseconds since 1970."""
    return time.time_ns() // 1000


def to_microseconds(moment: datetime | None) -> int | None:
    """Return whole microseconds since 1970 in UTC, exactly."""
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


def from_microseconds(moment: int) -> datetime:
    """Return the time in UTC of whole microseconds since 1970."""
    return _EPOCH + timedelta(microseconds=moment)


def index_text(record: Mapping[str, Any]) -> str:
    """Return the text that a record is indexed and embedded with: label, subject or author first.

    Where its user tells their name, that stands at the end in the words in which it is asked for.
    """
    text: str = record["text"]
    if record["kind"] == ContentType.MESSAGE and record.get("role") in (None, Role.USER):
        text = with_plain_name(text)
    field = {"archival": "label", "fact": "subject", "message": "author"}.get(record["kind"])
    head = (record.get(field) or "").strip() if field else ""
    if not head or (field == "subject" and text.casefold().startswith(head.casefold())):
        return text
    return f"{head}: {text}"


def index_terms(record: Mapping[str, Any]) -> list[str]:
    """Return the stems that a record is found by: those of its index text, and of the day and month it was made.

    A text of symbols alone is found by them, whoever its author is.
    """
    text, language, made = index_text(record), record.get("language"), record.get("created_at")
    own: str = record["text"]
    symbols = index_stems(own, language) if text != own and not has_word(own) else ()
    dated = date_stems(datetime.fromisoformat(made)) if made else ()
    return [*index_stems(text, language), *symbols, *dated]


def count_terms(joined: str) -> int:
    """Return how many stems there are, joined by blanks."""
    return joined.count(" ") + 1 if joined else 0


def kind_and_text(body: str) -> tuple[str, str]:
    """Return kind and index text of a record's JSON."""
    record = json.loads(body)
    return record["kind"], index_text(record)


def session_key_of(tenant: str, record: Mapping[str, Any]) -> str:
    """Return an opaque id of the record's tenant, user, conversation and session together."""
    return _session_key(tenant, record.get("user_id"), record.get("conversation_id"), record.get("session"))


@lru_cache(maxsize=4096)
def _session_key(*parts: str | None) -> str:
    return digest(*parts)


def acts_mask(record: Mapping[str, Any]) -> int:
    """Return the speech acts of a record's sentences as a mask of `SpeechAct.bit`; 0 for past runs (LIVE-1)."""
    if record["kind"] == ContentType.TRAJECTORY:
        return 0
    role = record.get("role")
    return sum(act.bit for act in speech_acts(record["text"], None if role is None else Role(role)))


def has_thread(record: Mapping[str, Any]) -> bool:
    """Return whether a record shares windows with the other messages of its place.

    A message that names neither conversation nor session stands alone: nothing says that it
    follows any other.
    """
    if record["kind"] != ContentType.MESSAGE:
        return False
    return record.get("conversation_id") is not None or record.get("session") is not None


def supersession_key_of(record: Mapping[str, Any]) -> str | None:
    """Return what a fact says something about: its owners (agent, group, user), its subject and its type.

    Subject and type count in their normalised form, so that `Works at` and `works_at` are one type. None for other
    kinds, and for a fact that doesn't name both: nothing can contradict it. Where nobody says who "the user" is (no
    `user_id`), it is another one in each conversation.
    """
    if record["kind"] != ContentType.FACT:
        return None
    subject, fact_type = (normalise(record.get(name) or "") for name in ("subject", "fact_type"))
    if not subject or not fact_type:
        return None
    owners = [record.get(name) for name in ("agent_id", "group_id", "user_id")]
    place = record.get("conversation_id") if owners[-1] is None and subject in NAMELESS else None
    return digest(*owners, place, subject, fact_type)


def supersession_key(fact: Fact) -> str | None:
    """Return the supersession key of a fact; None where it doesn't name subject and type."""
    return supersession_key_of({**fact.model_dump(exclude={"kind"}), "kind": fact.kind})


def order_key(position: int | None, created_at: int | None) -> str:
    """Return a key that sorts by position where given, then by time; equal keys go by insertion."""
    first = "~" if position is None else f"{position:020d}"
    second = "~" if created_at is None else f"{created_at + _OFFSET:020d}"
    return f"{first} {second}"


def position_after(position: int) -> int:
    """Return the next position; behind the last there is that one again, and times order the messages that share it."""
    return min(position + 1, MAX_POSITION)


@lru_cache(maxsize=4096)
def facet_token(name: str, value: str) -> str:
    """Return the token under which a facet's value stands in the lexical index."""
    return f"{name}{digest(value)[:16]}"


def encode_token(stem: str) -> str:
    """Return `stem` as one token that FTS5's tokenizer leaves whole, whatever its script."""
    if stem.isascii() and stem.isalnum() and not stem.startswith(_ENCODED):
        return stem
    return _ENCODED + stem.encode("utf-8").hex()


def encode_tokens(stems: str) -> str:
    """Return stems joined by blanks with each one encoded."""
    if stems.isascii() and _ENCODED not in stems and stems.replace(" ", "").isalnum():
        return stems
    return " ".join(map(encode_token, stems.split()))


def decode_token(token: str) -> str:
    """Undo `encode`."""
    if not token.startswith(_ENCODED):
        return token
    return bytes.fromhex(token[len(_ENCODED) :]).decode("utf-8")


def context_vectors(
    own: NDArray[np.float32], rows: NDArray[np.int64], beside: NDArray[np.int64]
) -> NDArray[np.float32]:
    """Return own + 0.5 · previous + 0.25 · next, of length one, for some rows; nothing is embedded again.

    Args:
        own: own vectors [n, dimension].
        rows: places in `own` of the rows that are wanted.
        beside: for each of them the places of the previous and the next one; -1 where there is none.
    """
    import numpy as np

    total = own[rows]
    joined = (beside >= 0).any(axis=1)
    for column, weight in enumerate((PREVIOUS_WEIGHT, NEXT_WEIGHT)):
        there = beside[:, column] >= 0
        total[there] += np.float32(weight) * own[beside[there, column]]
    lengths = np.linalg.norm(total, axis=1)
    joined &= lengths > 0
    total[joined] /= lengths[joined, None]
    return total
