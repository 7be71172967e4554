"""A service with two tenants, and a folder for a server of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from recall_loop.memory.store.store import MemoryStore
from recall_loop.service.access.api_keys import KeyRole, add_key
from recall_loop.state.settings.settings import Settings
from tests.integration.mcp.mcp_clients import OTHERS, RECORDS
from tests.service_server import running_service


@pytest.fixture(scope="module")
def served(embedder, tmp_path_factory):
    """The service with keys of two tenants: its address, and a key of each kind."""
    folder = tmp_path_factory.mktemp("mcp")
    keys = {
        name: add_key(folder / "keys.json", tenant, role)[1]
        for name, tenant, role in [
            ("admin", "isle", KeyRole.ADMIN),
            ("write", "isle", KeyRole.WRITE),
            ("read", "isle", KeyRole.READ),
            ("other", "shore", KeyRole.ADMIN),
        ]
    }
    with running_service(config={"keys_file": folder / "keys.json"}, settings=Settings(), embedder=embedder) as service:
        store = service.service.store
        store.upsert(RECORDS, tenant="isle")
        store.upsert(OTHERS, tenant="shore")
        yield service, keys


@pytest.fixture(scope="module")
def folder(embedder, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("stdio") / "memory"
    with MemoryStore.open(path, embedder=embedder) as store:
        store.upsert(RECORDS, tenant="isle")
        store.upsert(OTHERS, tenant="shore")
    return path
