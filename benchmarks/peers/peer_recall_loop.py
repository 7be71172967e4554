"""Recall Loop with its defaults: one `retrieve` a question; it embeds for itself.

It is given the same documents as records: speaker, session and time are fields, which the others have no use for. A
question is asked at the time that its set says, else at that of the newest record.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from protocol import QUESTIONS, read_json_lines, serve

from recall_loop.evals.measures.quality_metrics import expand_to_sources
from recall_loop.evals.runs.dataset_ingest import open_eval_store
from recall_loop.graph.run import retrieve
from recall_loop.memory.store.embed.embedders import ConversationalEmbedder
from recall_loop.state.settings.settings import Settings

_RECORDS = "records.jsonl"
_WARM = ["The model is loaded, and has its working memory, before the clock runs. " * 30] * 32


class RecallLoopPeer:
    def __init__(self, folder: Path, vectors: dict[str, Any]) -> None:
        job = Path(sys.argv[1])
        self._settings = Settings()
        self._store = open_eval_store(folder, self._settings)
        self._warm()
        self._records: dict[tuple[str, str], dict[str, Any]] = {}
        with (job / _RECORDS).open(encoding="utf-8") as file:
            for line in file:
                given = json.loads(line)
                self._records[given["collection"], given["record"]["id"]] = given["record"]
        asked = read_json_lines(job / QUESTIONS)
        self._times = {(each["collection"], each["text"]): each["reference_time"] for each in asked}
        self._newest: dict[str, str] = {}

    def _warm(self) -> None:
        embedder = self._store.embedder
        embedder.embed_documents(_WARM)
        if isinstance(embedder, ConversationalEmbedder):
            embedder.conversational.embed_documents(_WARM)

    def add(self, collection: str, ids: list[str], texts: list[str], vectors: list[Any]) -> None:
        records = [self._records[collection, name] for name in ids]
        outcomes = self._store.upsert(records, tenant=collection, on_reject="report")
        refused = sum(each.status == "rejected" for each in outcomes)
        if refused:
            raise RuntimeError(f"{collection}: {refused} of {len(records)} refused")
        newest = max(each.get("created_at") or "" for each in records)
        self._newest[collection] = max(newest, self._newest.get(collection, ""))

    def ask(self, collection: str, text: str, vector: Any, k: int) -> list[str]:
        request = {"messages": [{"content": text}], "tenant": collection, "max_facts": k}
        asked_at = self._times[collection, text] or self._newest[collection]
        if asked_at:
            request["reference_time"] = asked_at
        return expand_to_sources(retrieve(request, store=self._store, settings=self._settings).facts)


if __name__ == "__main__":
    sys.exit(serve(RecallLoopPeer, ["recall-loop"]))
