"""Make a store of mem0 with mem0's own package, offline: `python make_mem0.py FOLDER COUNT qdrant|chroma`.

Run by `make import-proof` in an environment of its own, which has mem0ai and chromadb. The files under
`tests/foreign/mem0` were made by it, with mem0ai 2.2.1 and qdrant-client 1.20.0:
`python make_mem0.py tests/foreign/mem0 6 qdrant`.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

ROOMS = ("kitchen", "cellar", "attic", "library", "workshop", "greenhouse", "pantry", "studio")


class Hashes:
    """An embedder that needs no network."""

    def embed(self, text, memory_action=None):
        return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()[:8]]


def open_memory(folder: Path, provider: str):
    os.environ |= {"MEM0_DIR": str(folder), "MEM0_TELEMETRY": "False", "HF_HUB_OFFLINE": "1"}
    from mem0 import Memory

    nowhere = {"api_key": "none", "openai_base_url": "http://127.0.0.1:9"}
    place = {"path": str(folder / provider), "collection_name": "mem0"}
    if provider == "qdrant":
        place |= {"embedding_model_dims": 8, "on_disk": True}
    memory = Memory.from_config(
        {
            "llm": {"provider": "openai", "config": nowhere},
            "embedder": {"provider": "openai", "config": nowhere | {"embedding_dims": 8}},
            "history_db_path": str(folder / "history.db"),
            "vector_store": {"provider": provider, "config": place},
        }
    )
    memory.embedding_model = Hashes()
    return memory


def main() -> None:
    folder, count, provider = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    folder.mkdir(parents=True, exist_ok=True)
    memory = open_memory(folder, provider)
    for number in range(count):
        said = {
            "role": "assistant" if number % 4 == 3 else "user",
            "content": f"Lamp number {number} hangs in the {ROOMS[number % len(ROOMS)]}.",
            "name": "ada",
        }
        metadata = {"colour": "green", "watts": number}
        if provider == "qdrant":  # Chroma takes no nested values
            metadata["made"] = {"in": ["Ghent", "Turku"]}
        memory.add(
            [said],
            user_id=f"user-{number % 3}",
            agent_id="helper",
            run_id=f"run-{number % 5}",
            metadata=metadata,
            infer=False,
        )
    extra = [memory.add(text, user_id="user-9", infer=False) for text in ("The cat sleeps.", "Throw this away.")]
    first, second = (added["results"][0]["id"] for added in extra)
    memory.update(first, text="The cat sleeps on the piano.")
    memory.delete(second)
    memory.add("Long over.", user_id="user-9", expiration_date="2020-01-01", infer=False)
    # What adding with inference does, without asking a model.
    memory.db.save_messages([{"role": "user", "content": "Where does the cat sleep?"}], "run_id=run-9&user_id=user-9")
    (folder / "expected.jsonl").write_text("".join(json.dumps(item) + "\n" for item in everything(memory, count)))
    if provider == "qdrant":  # mem0 itself can't show such a point
        add_numbered(memory)
    memory.close()


def add_numbered(memory) -> None:
    """Add a point as other writers of such a collection may: with a number for an id, and a sparse vector."""
    from qdrant_client.models import PointStruct, SparseVector

    payload = {"data": "A point with a number.", "user_id": "user-9"}
    vector = {"": Hashes().embed("number"), "bm25": SparseVector(indices=[1, 5], values=[0.5, 0.25])}
    memory.vector_store.client.upsert("mem0", [PointStruct(id=7, vector=vector, payload=payload)])


def everything(memory, count: int):
    """Yield what mem0 itself gives for every user."""
    for user in ("user-0", "user-1", "user-2", "user-9"):
        yield from memory.get_all(filters={"user_id": user}, top_k=count + 10)["results"]


if __name__ == "__main__":
    main()
