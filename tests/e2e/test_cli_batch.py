"""`recall-loop batch`: progress, summary and exit codes, over a real store."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from recall_loop.cli.core import progress_bars
from recall_loop.cli.main import main
from tests.processes.forked_process import forked_file
from tests.waiting import wait_until

RECORD = {"id": "f1", "kind": "fact", "text": "The ferry to Ulvey leaves at nine."}
GOOD = {"id": "q1", "messages": [{"role": "user", "content": "When does the ferry to Ulvey leave?"}]}


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    records = tmp_path / "records.jsonl"
    records.write_text(json.dumps(RECORD), encoding="utf-8")
    assert main(["ingest", str(records), "--store", str(tmp_path / "s")]) == 0
    capsys.readouterr()
    monkeypatch.setenv("RECALL_LOOP_STORE_PATH", str(tmp_path / "s"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(progress_bars, "LINE_SECONDS", 0.0)
    return tmp_path


def write(path: Path, *requests: object) -> str:
    path.write_text("".join(f"{json.dumps(request)}\n" for request in requests), encoding="utf-8")
    return path.name


def test_the_summary_and_the_exit_codes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: OPS-2, OPS-3."""
    requests = write(place / "in.jsonl", GOOD, GOOD | {"id": "q2", "max_facts": 0})
    assert main(["batch", requests, "-o", "out.jsonl", "--order", "input"]) == 1
    shown = capsys.readouterr()
    assert "out.jsonl: 2 requests: 1 answered, 1 failed\n" in shown.out
    assert "  stop reasons    covered 1\n" in shown.out
    assert "  errors          invalid_input 1\n" in shown.out
    assert "p50" in shown.out
    assert "batch: 1 of 2 requests, " in shown.err
    assert "/s, " in shown.err
    assert "s left" in shown.err
    assert "\x1b" not in shown.out + shown.err
    assert main(["batch", requests, "-o", "out.jsonl", "--resume", "--quiet", "--json"]) == 1
    shown = capsys.readouterr()
    assert shown.err == ""
    figures = json.loads(shown.out)
    assert (figures["skipped"], figures["failed"], figures["skipped_errors"]) == (2, 0, {"invalid_input": 1})
    assert main(["batch", requests, "-o", "out.jsonl", "--resume", "--quiet"]) == 1
    shown = capsys.readouterr()
    assert "out.jsonl: 2 requests: 0 answered, 0 failed, 2 done by an earlier run\n" in shown.out
    assert "  earlier errors  invalid_input 1\n" in shown.out
    assert main(["batch", write(place / "good.jsonl", GOOD), "-o", "good-out.jsonl", "--json", "--quiet"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert main(["batch", "good.jsonl", "-o", "good-out.jsonl", "--resume", "--quiet"]) == 0
    assert figures["stop_reasons"] == {"covered": 1}
    assert set(figures["latency_seconds"]) == {"p50", "p95", "max"}


def test_a_resumed_run_starts_processes_only_for_remaining_requests(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: OPS-2 (each process takes seconds and 300 MB, which one request is not worth)."""
    started: list[object] = []
    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **options: started.append(args) or popen(*args, **options))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    bad = [GOOD | {"id": f"q{number}", "max_facts": 0} for number in range(60)]
    requests = write(place / "in.jsonl", *bad)
    assert main(["batch", requests, "-o", "out.jsonl", "--workers", "1", "--quiet"]) == 1
    write(place / "in.jsonl", *bad, GOOD | {"id": "last"})
    assert main(["batch", requests, "-o", "out.jsonl", "--resume", "--quiet"]) == 1
    assert len((place / "out.jsonl").read_text(encoding="utf-8").splitlines()) == 61
    assert started == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--timeout", "0"], "seconds, more than 0"),
        (["--timeout", "nan"], "seconds, more than 0"),
        (["--order", "random"], "'completed', 'input'"),
        (["--workers", "3", "--concurrency", "2"], "from 1 to 2, the concurrency"),
        (["--resume"], "requests that the output was started with"),
        ([], "a file that doesn't exist yet"),
    ],
)
def test_bad_options_leave_the_output_alone(
    place: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    """Proves: OPS-2 (exit code 2 and one line)."""
    requests = write(place / "in.jsonl", GOOD)
    before = '{"id": "q1", "line": 1, "digest": "00000000000000aa", "result": {}}\n'
    (place / "out.jsonl").write_text(before, encoding="utf-8")
    assert main(["batch", requests, "-o", "out.jsonl", *options]) == 2
    assert said in capsys.readouterr().err
    assert (place / "out.jsonl").read_text(encoding="utf-8") == before


@pytest.mark.parametrize("files", [["-", "-o", "out.jsonl"], ["in.jsonl", "-o", "-"]])
def test_a_pipe_cannot_be_resumed(place: Path, capsys: pytest.CaptureFixture[str], files: list[str]) -> None:
    """Proves: OPS-2 (no file named `-` is made or read)."""
    write(place / "in.jsonl", GOOD)
    assert main(["batch", *files]) == 2
    assert "got '-'; allowed: a file" in capsys.readouterr().err
    assert not (place / "-").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("times", "pause", "workers"), [(2, 0.2, "1"), (5, 0.02, "1"), (3, 0.05, "2")])
def test_impatience_ends_it_in_order_or_at_once(
    place: Path, root: Path, times: int, pause: float, workers: str
) -> None:
    """Proves: OPS-2. However often Ctrl-C is pressed the exit code is 130, without a traceback, and the run goes on."""
    requests = write(place / "in.jsonl", *(GOOD | {"id": f"q{number}"} for number in range(20)))
    output = place / "out.jsonl"
    words = ["batch", str(place / requests), "-o", str(output), "--quiet", "--store", str(place / "s")]
    with forked_file(root / "tests" / "slow_cli.py", *words, "--workers", workers) as child:
        wait_until(lambda: (output.exists() and output.stat().st_size > 0) or child.poll() is not None, 100)
        for _ in range(times):
            child.send_signal(signal.SIGINT)
            time.sleep(pause)
        _, errors = child.communicate()
    assert child.returncode == 130
    assert errors.endswith("recall-loop: interrupted\n") and "Traceback" not in errors
    assert main([*words, "--resume"]) == 0
    assert len(output.read_text(encoding="utf-8").splitlines()) == 20
