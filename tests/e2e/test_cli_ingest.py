"""`recall-loop ingest`: files of any kind, a look before anything is written, and one word on a wrong file."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from recall_loop.cli.ingest_verb import _FORMATS
from recall_loop.cli.main import main
from recall_loop.memory.intake.files.detection import AUTO, FORMATS
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope
from tests.processes.forked_process import forked_command

EXPORTS = Path(__file__).resolve().parents[1] / "foreign" / "exports"


def test_the_options_are_the_formats() -> None:
    """Proves: MOVE-1."""
    assert set(_FORMATS) == {AUTO, *FORMATS}


def test_a_dry_run_shows_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: MOVE-1."""
    place = tmp_path / "s"
    chat = EXPORTS / "chatgpt-conversations.json"
    assert main(["ingest", str(chat), "--user", "ada", "--store", str(place), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert f"{chat}: detected as an export of ChatGPT\n  message: Which ferry takes bicycles" in out
    assert out.count("user_id=ada") == 3
    assert "5 messages would be kept; 0 rejected items; 3 left out (hidden, system and tool messages)" in out
    assert not place.exists()
    assert main(["ingest", str(EXPORTS / "table.csv"), "--dry-run"]) == 1
    assert "table.csv:5: rejected: text" in capsys.readouterr().err


def test_a_dry_run_counts_a_repeated_id_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: MOVE-1."""
    table = tmp_path / "table.csv"
    table.write_text("id,text\n1,first\n1,second\n2,other\n", encoding="utf-8")
    assert main(["ingest", str(table), "--dry-run"]) == 0
    assert "2 messages would be kept; 0 rejected items; 1 id given more than once" in capsys.readouterr().out


def test_everything_goes_in_and_again_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], embedder: MiniLmEmbedder
) -> None:
    """Proves: MOVE-1."""
    files = [str(path) for path in sorted(EXPORTS.iterdir()) if path.name != "table.csv"]
    place = str(tmp_path / "s")
    assert main(["ingest", *files, "--store", place, "--user", "ada", "--agent", "lena"]) == 0
    first = capsys.readouterr().out
    assert "chatgpt-conversations.json: an export of ChatGPT: 5 created, 0 replaced, 0 unchanged, 0 rejected" in first
    assert main(["ingest", *files, "--store", place, "--user", "ada", "--agent", "lena"]) == 0
    again = capsys.readouterr().out.splitlines()
    assert len(again) == len(files)
    assert all("0 created, 0 replaced," in line for line in again)
    with MemoryStore.open(place, embedder=embedder, read_only=True) as store:
        assert store.count(Scope(user_id="ada", agent_id="lena")) == store.count() == 36


def pdf(path: Path) -> Path:
    path.write_bytes(b"%PDF-1.7\n" + b"1 0 obj\n" * 500)
    return path


def test_an_unreadable_file_is_reported_once_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: MOVE-1."""
    report = pdf(tmp_path / "report.pdf")
    for name in ("auto", "records"):
        assert main(["ingest", str(report), "--format", name, "--store", str(tmp_path / "s")]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err == (
            f"recall-loop: error: {report}: is a PDF document; convert it to text first, such as with "
            "`pdftotext report.pdf`\n"
        )
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("dry", [True, False])
def test_a_wrong_file_among_others_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str], dry: bool) -> None:
    """Proves: MOVE-1."""
    files = [pdf(tmp_path / "report.pdf"), EXPORTS / "notes.md", tmp_path / "missing.md", EXPORTS / "diary.txt"]
    place = ["--store", str(tmp_path / "s"), *(["--dry-run"] if dry else [])]
    assert main(["ingest", *map(str, files), *place]) == 1
    captured = capsys.readouterr()
    assert captured.out.splitlines()[-1] == "2 files read, 2 skipped"
    assert captured.err.splitlines() == [
        f"{files[0]}: skipped: is a PDF document; convert it to text first, such as with `pdftotext report.pdf`",
        f"{files[2]}: skipped: No such file or directory",
    ]
    assert [str(path) in captured.out for path in files] == [False, True, False, True]
    assert main(["ingest", str(files[0]), str(files[2]), *place]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == (
        "recall-loop: error: FILE: got '2 files'; allowed: at least one that can be read"
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list every folder")
def test_a_folder_that_may_not_be_listed_is_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: MOVE-1."""
    shutil.copytree(EXPORTS / "slack", tmp_path / "closed")
    shutil.copy(EXPORTS / "notes.md", tmp_path)
    (tmp_path / "closed").chmod(0)
    try:
        assert main(["ingest", str(tmp_path), "--dry-run"]) == 1
    finally:
        (tmp_path / "closed").chmod(0o700)
    captured = capsys.readouterr()
    assert captured.err == f"{tmp_path}/closed: skipped: Permission denied\n"
    assert captured.out.splitlines()[-1] == "1 file read, 1 skipped"


def test_a_truncated_file_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: MOVE-1."""
    table = tmp_path / "table.csv"
    table.write_bytes(("text\n" + "Bees.\n" * 25 + "\n" * 100_000).encode("utf-16") + b"G")
    assert main(["ingest", str(table), str(EXPORTS / "notes.md"), "--store", str(tmp_path / "s")]) == 1
    captured = capsys.readouterr()
    assert captured.err == f"{table}: not read to its end: is damaged text; save it as UTF-8 first\n"
    assert captured.out.splitlines()[-1] == "1 file read, 1 skipped"


def vault(path: Path) -> Path:
    """Make a folder of notes as Obsidian keeps it, with exports in it, and a store and rejected lines beside them."""
    (path / ".obsidian").mkdir(parents=True)
    (path / ".obsidian" / "app.json").write_text("{}")
    (path / "Trips" / "pictures").mkdir(parents=True)
    (path / "Trips" / "Rome.md").write_text("# Food\nSuppli by the station.\n")
    (path / "Trips" / "pictures" / "map.png").write_bytes(b"\x89PNG\r\n")
    (path / "Trips" / "up").symlink_to(path, target_is_directory=True)
    (path / "bad.jsonl.rejects.jsonl").write_text("{}\n")
    shutil.copytree(EXPORTS / "slack", path / "slack")
    (path / "chats").mkdir()
    shutil.copy(EXPORTS / "claude-conversations.json", path / "chats" / "conversations.json")
    (path / "chats" / "users.json").write_text("[]")
    return path


def test_of_a_folder_the_files_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], embedder: MiniLmEmbedder
) -> None:
    """Proves: MOVE-1."""
    notes = vault(tmp_path / "notes")
    for counts in ("1 created, 0 replaced, 0 unchanged", "0 created, 0 replaced, 1 unchanged"):
        assert main(["ingest", str(notes), "--store", str(notes / "memory")]) == 1
        captured = capsys.readouterr()
        assert f"{notes}/Trips/Rome.md: Markdown, a note for each heading: {counts}" in captured.out
        assert f"{notes}/slack: an export of Slack: " in captured.out
        assert f"{notes}/chats: an export of Claude: " in captured.out
        assert captured.out.splitlines()[-1] == "3 files read, 2 skipped"
        assert [line.partition(": is ")[0] for line in captured.err.splitlines()] == [
            f"{notes}/Trips/pictures/map.png: skipped",
            f"{notes}/Trips/up: skipped",
        ]
    with MemoryStore.open(notes / "memory", embedder=embedder, read_only=True) as store:
        assert store.count() == 1 + 3 + 3
    (tmp_path / "empty").mkdir()
    assert main(["ingest", str(tmp_path / "empty"), "--dry-run"]) == 2
    assert "empty: is a folder without files to read" in capsys.readouterr().err


def test_standard_input_is_read_and_its_rejects_stay_in_this_folder(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    with forked_command("ingest", "-", "--store", "s", cwd=tmp_path) as process:
        process.stdin.write('bad\n{"text": "kept"}\n')
        said, complained = process.communicate()
    assert (process.returncode, said.split(" (")[0]) == (
        1,
        "/dev/stdin: records, one a line: 1 created, 0 replaced, 0 unchanged, 1 rejected",
    )
    assert "Rejected lines are in stdin.rejects.jsonl" in complained
    assert '"raw": "bad"' in (tmp_path / "stdin.rejects.jsonl").read_text()
