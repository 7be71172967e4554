"""Wherever a store's folder goes, an address goes too (HOST-1); its password is shown nowhere."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from langgraph.graph import START, MessagesState, StateGraph

from recall_loop import Memory, MemoryStore, RecallLoopStore, RetrieveRequest, Settings, build_graph, remember
from recall_loop.cli.main import main
from recall_loop.graph.batch.batch_run import run_batch, stream_batch
from recall_loop.graph.batch.ray_engine import RayCluster
from recall_loop.memory.intake.files.ingest import IngestOptions, ingest_file
from recall_loop.memory.store.files.store_place import shown_place
from recall_loop.memory.store.postgres.postgres_address import PostgresAddress
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError, StoreUnavailableError, UnsupportedOptionError
from recall_loop.state.scope import Scope
from recall_loop.state.types import ContentType
from tests.embedders import WordHashEmbedder
from tests.integration.hosting.conftest import PASSWORD
from tests.integration.mcp.mcp_clients import Peer
from tests.processes.forked_process import forked_command

FACTS = [
    {"id": f"b{n}", "kind": "fact", "text": f"The boat {name} is moored at berth {n + 3} until October."}
    for n, name in enumerate(("Amber", "Birk", "Cormorant", "Dulse", "Eider", "Fathom"))
]
QUESTION = "At which berth is the boat Dulse?"


def lines(path: Path, items: list[Any]) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    return path


def filled(address: str, embedder: Any) -> None:
    with MemoryStore.open(address, embedder=embedder) as store:
        store.upsert(FACTS)


def test_a_memory_at_an_address_is_written_by_two_at_once(address: str) -> None:
    """Proves: HOST-1, API-1."""
    with Memory(address) as one, Memory(address) as two:
        one.add("I moved to Bergen in May.", user_id="ada")
        two.add("I keep bees.", user_id="ada")
        assert "Bergen" in two.recall("Where do I live?", user_id="ada").context
        assert "bees" in one.recall("What do I keep?", user_id="ada").context
        assert one.store.path is None
        assert one.store.location == address
    with Memory(settings=Settings(store_path=address)) as again:
        assert again.store.count(Scope(user_id="ada")) == 2


def test_a_recall_before_there_is_a_store_at_an_address_finds_nothing_yet(
    address: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: HOST-1, GRAPH-1."""
    settings = Settings(store_path=address)
    recall, writes = build_graph(settings=settings), remember(settings=settings, conversation_id="c")
    asked: Any = {"messages": [("user", "Where do I live?")]}
    assert recall.invoke(asked)["stop"]["reason"] == "nothing_in_scope"
    assert "no store there" in caplog.text and PASSWORD not in caplog.text
    builder = StateGraph(MessagesState)
    builder.add_node("memory", writes)
    builder.add_edge(START, "memory")
    builder.compile().invoke({"messages": [("user", "I live in Bergen.")]})
    assert [fact["text"] for fact in recall.invoke(asked)["facts"]] == ["I live in Bergen."]


def test_the_first_lines_of_the_readme_work_with_an_address(
    address: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: HOST-1."""
    lines_of_readme = (root / "README.md").read_text(encoding="utf-8").partition("```python\n")[2].partition("```")[0]
    assert "memory = Memory()" in lines_of_readme
    names: dict[str, Any] = {}
    exec(lines_of_readme.replace("Memory()", f"Memory({address!r})"), names)
    names["memory"].close()
    assert "Bergen" in capsys.readouterr().out
    with Memory(address) as memory:
        assert memory.store.count(Scope(user_id="ada")) == 1


def test_each_command_takes_an_address(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: HOST-1, STORE-2 (no command shows the password)."""
    caplog.set_level(logging.DEBUG)
    where, file = ["--store", address], lines(tmp_path / "in.jsonl", FACTS)

    def said(*words: str, code: int = 0) -> str:
        assert main([*words]) == code
        shown = capsys.readouterr()
        assert PASSWORD not in shown.out + shown.err + caplog.text
        return shown.out

    assert "6 created" in said("ingest", str(file), *where)
    assert "6 unchanged" in said("ingest", str(file), *where)
    said("add", "The pier is closed on Mondays.", "--user", "ada", *where)
    assert "Dulse" in said("search", QUESTION, *where)
    assert "b3" in said("retrieve", QUESTION, *where)
    info = said("store", "info", *where)
    assert "postgres:***@" in info
    assert "records       7" in info
    assert "in memory up to 200,000 records in scope; above: all vectors compared, from PostgreSQL" in info
    assert "Sound: 7 records.\n" in said("store", "verify", *where)
    assert len(said("store", "export", *where).splitlines()) == 7
    said("store", "update", "b3", 'tags=["home"]', *where)
    assert "1" in said("store", "history", "b3", *where)
    assert "Deleted 1 record" in said("store", "delete", "--tenant", "default", "--ids", "b0", *where)
    for action in ("list", "compact", "rebuild", "sweep"):
        said("store", action, *where)
    memories = lines(tmp_path / "letta.json", [])
    memories.write_text(json.dumps([{"id": "l1", "text": "Ada sails on Sundays."}]), encoding="utf-8")
    said("import", "letta", str(memories), *where, "--dry-run")
    said("import", "letta", str(memories), *where)


def test_the_environment_names_an_address(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: HOST-1."""
    monkeypatch.setenv("RECALL_LOOP_STORE_PATH", address)
    file = lines(tmp_path / "in.jsonl", FACTS)
    assert main(["ingest", str(file)]) == main(["store", "info"]) == 0
    said = capsys.readouterr()
    assert "records       6" in said.out
    assert PASSWORD not in said.out + said.err
    assert PASSWORD not in repr(Settings(store_path=address)) + repr(Context(store_path=address))


def test_an_interrupted_file_goes_on_at_an_address(address: str, tmp_path: Path, embedder: Any) -> None:
    """Proves: HOST-1, STORE-2 (the checkpoint is in the store, whichever process goes on)."""
    file = lines(tmp_path / "in.jsonl", FACTS)

    def end_after_two(line: int, _: int | None) -> None:
        if line >= 2:
            raise KeyboardInterrupt

    with MemoryStore.open(address, embedder=embedder) as store, pytest.raises(KeyboardInterrupt):
        ingest_file(file, store, IngestOptions(batch_size=2), on_progress=end_after_two)
    with MemoryStore.open(address, embedder=embedder) as store:
        assert ingest_file(file, store, IngestOptions(batch_size=2)).skipped_lines == 2
        assert store.count() == 6
        assert not [name for name in store.maintenance._session.database.meta() if name.startswith("note-")]


def test_the_graph_takes_an_address_from_its_context(address: str, embedder: Any) -> None:
    """Proves: HOST-1, LOOP-9."""
    filled(address, embedder)
    request = RetrieveRequest.model_validate({"messages": [{"role": "user", "content": QUESTION}]})
    answer = build_graph().invoke(
        {"messages": [message.model_dump() for message in request.messages]}, context=Context(store_path=address)
    )
    assert "b3" in [fact["id"] for fact in answer["facts"]]
    assert PASSWORD not in json.dumps(answer, default=str)


def test_langgraphs_store_lives_at_an_address(address: str, embedder: Any) -> None:
    """Proves: HOST-1, OPS-5."""
    with MemoryStore.open(address, embedder=embedder) as store:
        RecallLoopStore(store).put(("users", "ann"), "home", {"town": "Oslo"})
    with MemoryStore.open(address, embedder=embedder) as store:
        found = RecallLoopStore(store).search(("users",), query="Which town?")
        assert [item.value for item in found] == [{"town": "Oslo"}]


def test_an_mcp_server_lives_at_an_address(address: str, embedder: Any) -> None:
    """Proves: HOST-1, OPS-6."""
    filled(address, embedder)
    with forked_command("mcp", "--store", address) as process:
        peer = Peer(process)
        added = peer.called("add", records=[{"text": "The pier is closed."}])
        found = peer.called("search", query=QUESTION)
        process.stdin.close()
        assert process.wait(30) == 0
    assert "b3" in {hit["id"] for hit in found["hits"]} and len(added["ids"]) == 1
    with MemoryStore.open(address, embedder=embedder, read_only=True) as store:
        assert store.count() == 7


BATCH = [{"id": f"q{n}", "messages": [{"role": "user", "content": QUESTION}], "max_iterations": 2} for n in range(4)]


@pytest.mark.slow
def test_processes_of_a_batch_open_the_address(address: str, embedder: Any, tmp_path: Path) -> None:
    """Proves: HOST-1, OPS-2 (there several processes may capture their runs, too; none is without being told)."""
    filled(address, embedder)
    requests, output = lines(tmp_path / "q.jsonl", BATCH), tmp_path / "out.jsonl"
    with MemoryStore.open(address, embedder=embedder, read_only=True) as store:
        alone = run_batch(requests, tmp_path / "alone.jsonl", store=store)
        assert alone.succeeded == 4 and store.count(Scope(), content_types=[ContentType.TRAJECTORY]) == 0
        settings = Settings(capture_runs=True)
        summary = run_batch(requests, output, store=store, settings=settings, concurrency=4, workers=2)
    assert (summary.succeeded, summary.failed) == (4, 0)
    assert PASSWORD not in output.read_text(encoding="utf-8")
    with MemoryStore.open(address, embedder=embedder, read_only=True) as store:
        assert store.count(Scope(), content_types=[ContentType.TRAJECTORY]) == 4


@pytest.mark.ray
@pytest.mark.slow
def test_actors_of_ray_open_the_address(address: str, embedder: Any) -> None:
    """Proves: HOST-1, OPS-2 (without any Chroma server)."""
    pytest.importorskip("ray")
    filled(address, embedder)
    with MemoryStore.open(address, embedder=embedder, read_only=True) as store:
        found = list(stream_batch(BATCH, store=store, concurrency=1, ray=RayCluster(actors=1)))
    assert ["b3" in [fact["id"] for fact in line["result"]["facts"]] for line in found] == [True] * 4


BAD = [
    ("mysql://u:{0}@h/db", "path", UnsupportedOptionError),
    ("postgresql://u:{0}@h:port/db", "path", InvalidInputError),
    ("postgresql://u:{0}/tail@h/db", "path", InvalidInputError),
    ("postgresql://u:{0}%zz@h/db", "path", InvalidInputError),
    ("postgresql://u:x@{0}@h/db", "path", InvalidInputError),
    ("postgresql://u:x?{0}@h/db", "path", InvalidInputError),
    ("postgresql://u:x?{0}@h/db?schema=mine", "path", InvalidInputError),
    ("postgresql://u:x/{0}?y@h/db", "path", InvalidInputError),
    (" postgresql://u:{0}@h/db", "path", InvalidInputError),
    ("postgresql:/u:{0}@h/db", "path", InvalidInputError),
    ("postgresql://u:{0}@[::1/db", "path", InvalidInputError),
    ("postgresql://u:{0}@h/db?nonsense=1", "path", InvalidInputError),
    ("postgresql://u:{0}@h/db?schema=No-Name", "schema", InvalidInputError),
    ("postgresql://u:{0}@h/db?schema=pg_mine", "schema", InvalidInputError),
    ("postgresql://u:{0}@h/db?schema=mine&schema=yours", "schema", InvalidInputError),
    ("postgresql://u:{0}@h/db?connect_timeout=soon", "connect_timeout", InvalidInputError),
    ("postgresql://u:{0}@h/db?connect_timeout=nan", "connect_timeout", InvalidInputError),
    ("postgresql://u:{0}@h/db?connect_timeout=", "connect_timeout", InvalidInputError),
    ("postgresql://u@h:99999999/db?password={0}", "path", InvalidInputError),
]


@pytest.mark.parametrize(("form", "field", "error"), BAD)
def test_a_bad_address_is_one_typed_error(
    form: str, field: str, error: type[InvalidInputError], capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: HOST-1 (nothing is opened or made; the CLI ends with 2)."""
    place = form.format(PASSWORD)
    with pytest.raises(error) as caught:
        MemoryStore.open(place)
    assert caught.value.field == field
    assert main(["store", "info", "--store", place]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert PASSWORD not in shown + str(caught.value)
    assert PASSWORD not in shown_place(place) or "://" not in place
    assert not any(Path(made).exists() for made in ("mysql:", "postgresql:", " postgresql:"))


SHOWN = [
    "postgresql://u@h1:1,h2:2/db?application_name=a@b",
    "postgresql://[::1]:5432/db?application_name=a@b",
    "postgresql://h:5432/db?schema=mine",
    "/srv/a:b@c",
]


@pytest.mark.parametrize("place", SHOWN)
def test_a_place_without_a_password_is_shown_as_it_is(place: str) -> None:
    """Proves: HOST-1."""
    assert shown_place(place) == place
    if "://" in place:
        assert PostgresAddress.parse(place).shown == place


def test_an_address_is_not_a_path() -> None:
    """Proves: HOST-1."""
    with pytest.raises(InvalidInputError, match="is text"):
        MemoryStore.open(Path("postgresql://u@h/db"))


def test_an_unreachable_server_is_a_typed_error(
    unused_tcp_port: int, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: HOST-1, HOST-3."""
    place = f"postgresql://u:{PASSWORD}@127.0.0.1:{unused_tcp_port}/db?connect_timeout=1"
    with pytest.raises(StoreUnavailableError, match=r"u:\*\*\*@127"):
        MemoryStore.open(place)
    assert main(["store", "verify", "--store", place]) == 2
    assert PASSWORD not in capsys.readouterr().err + caplog.text


def test_a_store_in_postgresql_is_exported_with_any_embedder_and_not_backed_up_here(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: HOST-1, OPS-8, STORE-5."""
    with MemoryStore.open(address, embedder=WordHashEmbedder()) as store:
        store.upsert([{"id": "f1", "kind": "fact", "text": "The ferry leaves at nine."}])
        with pytest.raises(UnsupportedOptionError, match="pg_dump") as raised:
            store.maintenance.backup(tmp_path / "copy")
    assert PASSWORD not in str(raised.value)
    assert main(["store", "export", "--store", address]) == 0
    assert '"id":"f1"' in capsys.readouterr().out.replace(" ", "")
    assert main(["store", "tenants", "--store", address]) == 0
    assert capsys.readouterr().out.split()[:2] == ["1", "records"]
    assert not list(tmp_path.iterdir())
