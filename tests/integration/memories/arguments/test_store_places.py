"""Where a memory is kept: by its argument, or by the environment, and in the home that `~` names (API-1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from recall_loop import AsyncMemory, Memory, MemoryStore, Settings
from recall_loop.cli.main import main
from recall_loop.memory.store.files.store_place import checked_place
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder

VARIABLE = "RECALL_LOOP_STORE_PATH"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


@pytest.mark.parametrize("place", ["~/mm", Path("~/mm")])
def test_a_tilde_is_the_home_of_its_user(home: Path, place: str | Path) -> None:
    """Proves: API-1, STORE-4."""
    with Memory(place, embedder=WordHashEmbedder()) as memory:
        memory.add("I moved to Bergen.")
        assert memory.store.path == home / "mm"
    with MemoryStore.open(place, embedder=WordHashEmbedder(), read_only=True) as store:
        assert store.count() == 1
    assert MemoryStore.exists(place)
    with Memory(settings=Settings(store_path=str(place)), embedder=WordHashEmbedder()) as memory:
        assert memory.store.path == home / "mm"
    assert not list(Path().iterdir())


def test_a_tilde_on_the_command_line_and_in_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: STORE-4 (a folder that holds the store is read without the store's own files)."""
    (home / "notes").mkdir()
    (home / "notes" / "one.md").write_text("The ferry leaves at nine.\n", encoding="utf-8")
    assert main(["ingest", str(home / "notes"), "--store", "~/notes/mm"]) == 0
    assert main(["ingest", str(home / "notes"), "--store", "~/notes/mm"]) == 0
    monkeypatch.setenv(VARIABLE, "~/notes/mm")
    assert main(["store", "backup", "~/copy"]) == 0
    with MemoryStore.open(home / "copy", read_only=True) as store:
        assert [record.text for record in store.scan(Scope())] == ["The ferry leaves at nine."]
    assert not list(Path().iterdir())


@pytest.mark.parametrize("place", ["~nobody-of-this-name/mm", "mm/~", "~\0/mm"])
def test_what_names_no_home_stays_as_it_is(place: str) -> None:
    """Proves: API-1."""
    assert checked_place(place) == Path(place)


async def test_the_environment_names_the_store_of_a_memory(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: API-1 (what `retrieve` and the command line read by the same variable)."""
    monkeypatch.setenv(VARIABLE, "~/mm")
    with Memory(embedder=WordHashEmbedder()) as memory:
        memory.add("I moved to Bergen.", user_id="ada")
        assert memory.store.path == home / "mm"
    async with AsyncMemory(embedder=WordHashEmbedder()) as again:
        assert [record.text for record in await again.list(user_id="ada")] == ["I moved to Bergen."]
    with Memory(tmp_path / "other", embedder=WordHashEmbedder()) as memory:
        assert memory.store.path == tmp_path / "other"
    with Memory(settings=Settings(store_path=None), embedder=WordHashEmbedder()) as memory:
        assert (memory.store.path, memory.store.count()) == (None, 0)
    with Memory(store=MemoryStore.in_memory(embedder=WordHashEmbedder())) as memory:
        assert memory.store.location is None
    monkeypatch.delenv(VARIABLE)
    with Memory(embedder=WordHashEmbedder()) as memory:
        assert memory.store.location is None
