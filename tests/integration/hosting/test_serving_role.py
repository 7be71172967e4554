"""The role that the composition makes: it serves, moves stores, and is no superuser (HOST-5, SHIP-1)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psycopg

from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.moving.move_store import move_store
from recall_loop.memory.store.recovery.verify import verify_place
from recall_loop.memory.store.store import MemoryStore
from tests.foreign.postgres_backend import PostgresServer


def test_the_role_of_the_composition_serves_and_moves(
    postgres: PostgresServer, root: Path, tmp_path: Path, embedder: MiniLmEmbedder
) -> None:
    """Proves: SHIP-1, HOST-4, HOST-5."""
    path = f"{postgres.programs}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "PGHOST": postgres.folder, "RECALL_PASSWORD": "it's"}
    subprocess.run(["sh", str(root / "deploy" / "make-role.sh")], env=environment, check=True, capture_output=True)
    with psycopg.connect(postgres.url) as connection:
        found = connection.execute("SELECT rolsuper, rolbypassrls FROM pg_roles WHERE rolname = 'recall'").fetchone()
    assert found == (False, False)
    address = f"postgresql://recall@/recall?host={postgres.folder}"
    records = [{"id": f"r{n}", "text": f"Boat {n} of the harbour.", "tags": ["t"]} for n in range(9)]
    with MemoryStore.open(tmp_path / "store", embedder=embedder) as store:
        for tenant in ("a", "b"):
            store.upsert(records, tenant=tenant)
    there = move_store(tmp_path / "store", address, embedder=embedder)
    assert (there.records, verify_place(address).findings) == (18, ())
    back = move_store(address, tmp_path / "back", embedder=embedder)
    assert (back.tables, verify_place(tmp_path / "back").findings) == (there.tables, ())
