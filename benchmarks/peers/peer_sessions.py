"""A session index as MemPalace has it: whole sessions are embedded and searched, and the best ones' documents taken.

Documents of a session come in the order of their own similarity to the question. Vectors are compared exactly.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from protocol import DOCUMENTS, SESSIONS, read_json_lines, serve


class SessionsPeer:
    def __init__(self, folder: Path, vectors: dict[str, Any]) -> None:
        job = Path(sys.argv[1])
        documents = read_json_lines(job / DOCUMENTS)
        self._session_of = {(each["collection"], each["id"]): each["session"] for each in documents}
        self._vectors = {each["id"]: vectors[each["text"]] for each in read_json_lines(job / SESSIONS)}
        self._members: dict[str, dict[str, list[tuple[str, Any]]]] = {}

    def add(self, collection: str, ids: list[str], texts: list[str], vectors: list[Any]) -> None:
        sessions = self._members.setdefault(collection, {})
        for name, vector in zip(ids, vectors, strict=True):
            sessions.setdefault(self._session_of[collection, name], []).append((name, vector.copy()))

    def ask(self, collection: str, text: str, vector: Any, k: int) -> list[str]:
        sessions = self._members[collection]
        names = list(sessions)
        closeness = np.stack([self._vectors[name] for name in names]) @ vector
        found: list[str] = []
        for at in np.argsort(-closeness, kind="stable"):
            members = sorted(sessions[names[at]], key=lambda member: -float(member[1] @ vector))
            found += [name for name, _ in members]
            if len(found) >= k:
                break
        return found[:k]


if __name__ == "__main__":
    sys.exit(serve(SessionsPeer, ["numpy"]))
