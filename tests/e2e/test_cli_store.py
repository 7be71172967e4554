"""`recall-loop store`: info, verify, rebuild, compact, export, delete."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from recall_loop.cli.main import main
from recall_loop.memory.intake.conversations.fact_writing import write_facts
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from tests.embedders import WordHashEmbedder
from tests.processes.forked_process import run_forked_command

RECORDS = [
    {"id": "f1", "kind": "fact", "text": "The ferry leaves at nine.", "created_at": "2024-05-01T09:30:00Z"},
    {"id": "m1", "kind": "message", "text": "When does it leave?", "author": "Ada", "created_at": None},
    {"id": "m2", "kind": "message", "text": "Quokkas like to swim.", "author": "Bo", "created_at": None},
]


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    for tenant in ("acme", "other"):
        assert main(["ingest", str(path), "--store", str(tmp_path / "s"), "--tenant", tenant]) == 0
    capsys.readouterr()
    return str(tmp_path / "s")


def counts(place: str, capsys: pytest.CaptureFixture[str], tenant: str = "acme") -> list[int]:
    assert main(["store", "info", "--store", place, "--tenant", tenant]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    return [int(lines[kind]) for kind in ("fact", "archival", "message", "trajectory", "records")]


def test_info_counts_one_tenant_only(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STORE-2, STORE-3."""
    assert counts(place, capsys) == [1, 0, 2, 0, 3]
    assert counts(place, capsys, tenant="nobody") == [0, 0, 0, 0, 0]
    assert main(["store", "info", "--store", place]) == 0
    text = capsys.readouterr().out
    assert "tenant        default" in text
    assert "embedder      minilm" in text
    assert "acme" not in text
    assert "other" not in text


def test_an_operator_sees_every_tenant(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STORE-8."""
    assert main(["store", "delete", "--store", place, "--tenant", "other", "--ids", "m1"]) == 0
    capsys.readouterr()
    assert main(["store", "tenants", "--store", place, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["tenants"]
    assert [(one["tenant"], one["records"]) for one in found] == [("acme", 3), ("other", 2)]
    vectors = 2 * 2 * 384  # half precision, the record's own and that of its window
    assert all(one["bytes"] > one["records"] * vectors for one in found)
    assert main(["store", "tenants", "--store", place]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["3", "records", "0.0", "MB", "acme"],
        ["2", "records", "0.0", "MB", "other"],
    ]
    assert main(["store", "delete", "--store", place, "--tenant", "other", "--all"]) == 0
    assert main(["store", "delete", "--store", place, "--tenant", "acme", "--all"]) == 0
    capsys.readouterr()
    assert main(["store", "tenants", "--store", place]) == 0
    assert capsys.readouterr().out == "No records.\n"


def test_expired_records_are_counted_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STORE-8, LIVE-7 (what can be read is counted as everywhere, what awaits a sweep beside it)."""
    place, past = str(tmp_path / "store"), {"expires_at": "2020-01-01T00:00:00Z"}
    with MemoryStore.open(place, embedder=WordHashEmbedder()) as store:
        store.upsert([RECORDS[0], *({**one, **past} for one in RECORDS[1:])], tenant="acme")
        store.upsert([{**RECORDS[1], **past}], tenant="gone")
        assert store.count(Scope(tenant="acme")) == 1
        found = store.maintenance.tenants()
        assert [(one.tenant, one.records, one.expired) for one in found] == [("acme", 1, 2), ("gone", 0, 1)]
        report = store.maintenance.verify()
        assert (report.sound, report.records, report.expired, report.chroma_rows) == (True, 1, 3, 4)
    for verb, said in (
        ("tenants", "1 records 0.0 MB acme (2 more expired) 0 records 0.0 MB gone (1 more expired)"),
        ("verify", "Sound: 1 record (3 more expired), the same on both sides."),
    ):
        assert main(["store", verb, "--store", place]) == 0
        assert " ".join(capsys.readouterr().out.split()) == said
    assert main(["store", "backup", "--store", place, str(tmp_path / "copy"), "--json"]) == 0
    copied = json.loads(capsys.readouterr().out)
    assert (copied["records"], copied["expired"]) == (1, 3)
    with MemoryStore.open(place, embedder=WordHashEmbedder()) as store:  # which sweeps
        assert [(one.tenant, one.records, one.expired) for one in store.maintenance.tenants()] == [("acme", 1, 0)]
        assert store.maintenance.verify().expired == 0


def test_delete_prints_how_many(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STORE-2, STORE-3, STORE-6."""
    assert main(["store", "delete", "--store", place, "--tenant", "acme", "--ids", "f1", "f1", "x"]) == 0
    assert capsys.readouterr().out == "Deleted 1 record; 1 id not found.\n"
    names = tmp_path / "ids.txt"
    names.write_text("m2\n\n", encoding="utf-8")
    for tenant in ("acme", "other"):
        arguments = ["--store", place, "--tenant", tenant, "--ids-file", str(names), "--compact"]
        done = run_forked_command("store", "delete", *arguments)
        assert (done.returncode, done.stdout) == (0, "Deleted 1 record.\n")
    assert counts(place, capsys) == [0, 0, 1, 0, 1]
    assert counts(place, capsys, tenant="other") == [1, 0, 1, 0, 2]
    assert not [path for path in Path(place).rglob("*") if path.is_file() and b"Quokka" in path.read_bytes()]


def test_export_goes_to_stdout_or_a_new_file(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STORE-2."""
    assert main(["store", "export", "--store", place, "--tenant", "acme"]) == 0
    lines = capsys.readouterr().out
    assert [json.loads(line) for line in lines.splitlines()] == RECORDS
    target = tmp_path / "out.jsonl"
    arguments = ["store", "export", "--store", place, "--tenant", "acme", "-o", str(target)]
    assert main(arguments) == 0
    assert target.read_text(encoding="utf-8") == lines
    assert main(["ingest", str(target), "--store", place, "--tenant", "acme"]) == 0
    assert "3 unchanged" in capsys.readouterr().out
    assert main(arguments) == 2
    assert target.read_text(encoding="utf-8") == lines
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl", "s"]


def test_an_export_of_a_user_has_all_of_theirs_superseded_or_not(
    place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: STORE-2."""
    home = {"kind": "fact", "subject": "Ann", "fact_type": "lives_in", "user_id": "ann"}
    with MemoryStore.open(place) as store:
        for month, town in (("01", "Oslo"), ("03", "Bergen")):
            fact = home | {
                "id": town,
                "text": f"In {town}.",
                "object": town,
                "created_at": f"2024-{month}-01T00:00:00Z",
            }
            write_facts(store, [fact], tenant="acme", single_valued=["lives_in"])
    assert main(["store", "export", "--store", place, "--tenant", "acme", "--user", "ann"]) == 0
    exported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(one["id"], one.get("superseded_by")) for one in exported] == [("Oslo", "Bergen"), ("Bergen", None)]


def test_an_export_without_a_record_says_so(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Else a mistyped tenant's backup would look like any other. Proves: STORE-2."""
    for options, words in (
        ([], "no record; `recall-loop store tenants` lists those that have"),
        (["--filter", "label=nothing"], "no record that passes the filters"),
        (["--user", "ann"], "no record in this scope"),
        (["--user", "ann", "--filter", "label=nothing"], "no record in this scope that passes the filters"),
    ):
        assert main(["store", "export", "--store", place, "--tenant", "acmee", *options]) == 0
        printed = capsys.readouterr()
        assert (printed.out, printed.err) == ("", f"recall-loop: warning: tenant 'acmee' has {words}\n")


@pytest.mark.parametrize(
    "action", [["list"], ["info"], ["delete", "--all"], ["delete", "--ids", "a"], ["forget", "--types", "message"]]
)
def test_an_action_that_finds_nothing_under_a_mistyped_tenant_says_so(
    place: str, action: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: STORE-2. A tenant that has records is told nothing."""
    for tenant, warned in (("acmee", True), ("acme", False)):
        assert main(["store", *action, "--store", place, "--tenant", tenant]) == 0
        assert (f"tenant {tenant!r} has no record; " in capsys.readouterr().err) is warned


def test_what_embeds_nothing_reads_a_store_of_any_embedder(
    place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: STORE-5."""
    assert main(["store", "update", "f1", "text=The ferry leaves at ten.", "--store", place, "--tenant", "acme"]) == 0
    capsys.readouterr()
    monkeypatch.setenv("RECALL_LOOP_EMBEDDER", "minilm-plain")
    of_acme = ["--store", place, "--tenant", "acme"]
    assert main(["store", "export", *of_acme]) == 0
    exported = [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]
    assert exported == ["f1", "m1", "m2"]
    assert main(["store", "list", *of_acme]) == 0
    assert "Quokkas" in capsys.readouterr().out
    assert main(["store", "history", "f1", *of_acme]) == 0
    assert "at ten" in capsys.readouterr().out
    assert main(["store", "info", *of_acme]) == 0
    assert "embedder      minilm (the settings name minilm-plain; `store rebuild" in capsys.readouterr().out
    assert main(["search", "ferry", *of_acme]) == 2
    assert "store rebuild" in capsys.readouterr().err


@pytest.mark.parametrize("options", [[], ["--re-embed"]])
def test_rebuild_keeps_every_record(place: str, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STORE-5."""
    assert main(["store", "rebuild", "--store", place, *options]) == 0
    assert capsys.readouterr().out.startswith("Rebuilt; generation ")
    assert counts(place, capsys) == [1, 0, 2, 0, 3]


def test_the_exit_code_of_verify_reflects_its_findings(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STORE-4."""
    assert main(["store", "verify", "--store", place]) == 0
    assert capsys.readouterr().out == "Sound: 6 records, the same on both sides.\n"
    with sqlite3.connect(Path(place) / "sidecar.sqlite3") as connection:
        connection.execute("DELETE FROM bodies WHERE rowid IN (1, 2)")
        connection.execute("UPDATE records SET revision = 7 WHERE rowid = 3")
    connection.close()
    assert main(["store", "verify", "--store", place]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["records without a body: 2", "records of another revision in Chroma: 1 (m2)"]
    assert main(["store", "verify", "--store", place, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["findings"] == lines and report["sound"] is False and report["records"] == 6
    assert main(["store", "verify", "--store", f"{place}-none"]) == 2
    assert "no store there" in capsys.readouterr().err


def test_a_scope_is_deleted_and_compacted(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STORE-3, STORE-6."""
    owned = tmp_path / "owned.jsonl"
    owners = [{"user_id": "u"}, {"agent_id": "a"}, {"conversation_id": "c"}]
    records = [{"id": f"o{n}", "kind": "message", "text": "Axolotls.", **owner} for n, owner in enumerate(owners)]
    owned.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    assert main(["ingest", str(owned), "--store", place, "--tenant", "acme"]) == 0
    capsys.readouterr()
    for option in (["--user", "u"], ["--agent", "a"], ["--conversation", "c"]):
        assert main(["store", "delete", "--store", place, "--tenant", "other", *option]) == 0
        assert main(["store", "delete", "--store", place, "--tenant", "acme", *option]) == 0
        assert capsys.readouterr().out == "Deleted 0 records.\nDeleted 1 record.\n"
    assert main(["store", "delete", "--store", place, "--tenant", "acme", "--all"]) == 0
    assert capsys.readouterr().out == "Deleted 3 records.\n"
    assert main(["store", "compact", "--store", place]) == 0
    assert capsys.readouterr().out == "Compacted.\n"
    assert counts(place, capsys) == [0, 0, 0, 0, 0]
    assert counts(place, capsys, tenant="other") == [1, 0, 2, 0, 3]
    files = [path for path in Path(place).rglob("*") if path.is_file()]
    assert not [path for path in files if b"Axolotl" in path.read_bytes() or b"acme" in path.read_bytes()]


def test_the_command_line_forgets_sweeps_and_shows_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: LIVE-7, API-3."""
    place = str(tmp_path)
    gone = {"id": "old", "kind": "message", "text": "Gone.", "expires_at": "2001-01-01T00:00:00Z"}
    with MemoryStore.open(place) as store:
        store.upsert([{"id": "m1", "kind": "message", "text": "I moved to Oslo."}, gone], tenant="acme")
        store.update("m1", {"text": "I moved to Bergen."}, tenant="acme", actor="ann")
        store.upsert([{"id": "m2", "kind": "message", "text": "Thanks!"}], tenant="acme")

    def ran(*words: str, code: int = 0) -> str:
        assert main(["store", *words, "--store", place]) == code
        return capsys.readouterr().out

    lines = ran("history", "m1", "--tenant", "acme").splitlines()
    assert lines[0].endswith("updated by ann") and lines[1:] == ["   - I moved to Oslo.", "   + I moved to Bergen."]
    assert len(json.loads(ran("history", "m1", "--tenant", "acme", "--json"))["versions"]) == 1
    assert ran("history", "m1", "--tenant", "other", code=1) == "There is no record with this id.\n"
    assert ran("sweep") == "Erased 1 expired record, 0 records by retention rules, and 0 versions.\n"
    assert json.loads(ran("sweep", "--json")) == {"expired": 0, "retained_no_longer": 0, "versions": 0}
    thanks = ("forget", "--tenant", "acme", "--speech-acts", "acknowledgement")
    assert ran(*thanks, "--dry-run") == "Would delete 1 record (message 1).\n"
    assert json.loads(ran(*thanks, "--json")) == {"records": 1, "by_kind": {"message": 1}, "dry_run": False}
    assert ran(*thanks) == "Deleted 0 records.\n"
    for wrong in (["--older-than-days", "many"], ["--speech-acts", "sigh"], []):
        ran("forget", "--tenant", "acme", *wrong, code=2)
    assert counts(place, capsys)[-1] == 1


@pytest.mark.parametrize("expires_at", ["2001-01-01T00:00:00Z", None])
def test_a_sweep_leaves_nothing_to_be_sent_to_chroma(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], expires_at: str | None
) -> None:
    """Proves: LIVE-7, STORE-4, STORE-6. Neither erased records nor those that are pending."""
    with MemoryStore.open(tmp_path) as store:
        store.upsert([{"id": "a", "text": "Gone.", "expires_at": expires_at}, {"id": "b", "text": "Here."}])
    with sqlite3.connect(tmp_path / "sidecar.sqlite3") as connection:
        connection.execute("UPDATE records SET state = 1, revision = revision + 1 WHERE id = 'b'")
    connection.close()
    assert main(["store", "sweep", "--store", str(tmp_path)]) == 0
    assert main(["store", "verify", "--store", str(tmp_path)]) == 0, capsys.readouterr().out


def test_a_damaged_sidecar_names_the_command_that_mends_it(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: GUARD-1, STORE-4. The command works."""
    before = counts(place, capsys)
    file = Path(place) / "sidecar.sqlite3"
    content = bytearray(file.read_bytes())
    content[:100] = b"x" * 100
    file.write_bytes(content)
    assert main(["store", "info", "--store", place]) != 0
    assert "`recall-loop store rebuild` repairs it from Chroma" in capsys.readouterr().err
    assert main(["store", "rebuild", "--store", place]) == 0
    assert "the sidecar was damaged and was rebuilt from Chroma" in capsys.readouterr().out.replace("\n", " ")
    assert counts(place, capsys) == before
    assert main(["store", "verify", "--store", place]) == 0
