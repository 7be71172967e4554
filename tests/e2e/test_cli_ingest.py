"""`recall-loop ingest`: files of any kind, a look before anything is written, and one word on a wrong file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from recall_loop.cli.ingest_verb import _FORMATS
from recall_loop.cli.main import main
from recall_loop.memory.intake.formats.detection import AUTO, FORMATS
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope

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
    assert f"{chat}: taken for an export of ChatGPT\n  message: Which ferry takes bicycles" in out
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
        assert store.count(Scope(user_id="ada", agent_id="lena")) == store.count() == 27


def test_a_wrong_file_is_told_once_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: MOVE-1."""
    report = tmp_path / "report.pdf"
    report.write_bytes(b"%PDF-1.7\n" + b"1 0 obj\n" * 500)
    for name in ("auto", "records"):
        notes = str(EXPORTS / "notes.md")
        assert main(["ingest", notes, str(report), "--format", name, "--store", str(tmp_path / "s")]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err == (
            f"recall-loop: error: {report}: is a PDF document; convert it to text first, such as with "
            "`pdftotext report.pdf`\n"
        )
    assert not (tmp_path / "s").exists()


def test_standard_input_is_read_and_its_rejects_stay_in_this_folder(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    command = [sys.executable, "-m", "recall_loop.cli", "ingest", "-", "--store", "s"]
    ran = subprocess.run(
        command, check=False, input='bad\n{"text": "kept"}\n', cwd=tmp_path, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout.split(" (")[0]) == (
        1,
        "/dev/stdin: records, one a line: 1 created, 0 replaced, 0 unchanged, 1 rejected",
    )
    assert "Rejected lines are in stdin.rejects.jsonl" in ran.stderr
    assert '"raw": "bad"' in (tmp_path / "stdin.rejects.jsonl").read_text()
