"""Recall Loop with its defaults: one `retrieve` a question; it embeds for itself.

It is given the same documents as records: speaker, session and time are fields, which the others have no use for.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from protocol import serve

from recall_loop.evals.measures.quality_metrics import expand_to_sources
from recall_loop.evals.runs.dataset_ingest import open_eval_store
from recall_loop.graph.run import retrieve
from recall_loop.state.settings.settings import Settings

_RECORDS = "records.jsonl"


class RecallLoopPeer:
    def __init__(self, folder: Path, vectors: dict[str, Any]) -> None:
        self._settings = Settings()
        self._store = open_eval_store(folder, self._settings)
        self._store.embedder.embed_queries(["the model is loaded before the clock runs"])
        self._records: dict[str, list[dict[str, Any]]] = {}
        with (Path(sys.argv[1]) / _RECORDS).open(encoding="utf-8") as file:
            for line in file:
                given = json.loads(line)
                self._records.setdefault(given["collection"], []).append(given["record"])
        self._newest: dict[str, str] = {}

    def add(self, collection: str, ids: list[str], texts: list[str], vectors: list[Any]) -> None:
        records = self._records[collection]
        refused = [
            each
            for each in self._store.upsert(records, tenant=collection, on_reject="report")
            if each.status == "rejected"
        ]
        if refused or len(records) != len(ids):
            raise RuntimeError(f"{collection}: {len(refused)} of {len(records)} refused, {len(ids)} documents")
        self._newest[collection] = max(each.get("created_at") or "" for each in records)

    def ask(self, collection: str, text: str, vector: Any, k: int) -> list[str]:
        request = {"messages": [{"content": text}], "tenant": collection, "max_facts": k}
        if self._newest[collection]:
            request["reference_time"] = self._newest[collection]
        return expand_to_sources(retrieve(request, store=self._store, settings=self._settings).facts)


if __name__ == "__main__":
    sys.exit(serve(RecallLoopPeer, ["recall-loop"]))
