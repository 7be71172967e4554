"""The command itself: help, versions, one-line errors, exit codes, leaving early."""

from __future__ import annotations

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from recall_loop.cli.core.interruptions import Interruptions, end_if_terminated
from recall_loop.cli.main import VERBS, main, one_line
from tests.processes.forked_process import forked_command, forked_file, run_forked_command
from tests.waiting import wait_until

COMMAND = [sys.executable, "-m", "recall_loop.cli"]


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def facts(number: int) -> list[dict[str, Any]]:
    return [{"id": f"f{n}", "kind": "fact", "text": f"Berth {n} belongs to boat {n * 7}."} for n in range(number)]


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the one line on stderr."""
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("recall-loop: error: ")
    return line


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from recall_loop.cli.main import main; main(['--help'])\n"
        "heavy = {'chromadb', 'langgraph', 'numpy', 'pydantic', 'onnxruntime', 'rich'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(verb in done.stdout for verb in VERBS)


@pytest.mark.parametrize(
    "words", [["demo"], ["ingest"], ["retrieve"], ["search"], ["batch"], ["replay"], ["store", "export"]]
)
def test_each_verb_shows_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--help"]) == 0
    text = capsys.readouterr().out
    assert "example" in text
    assert f"recall-loop {' '.join(words)}" in text


def test_every_option_is_explained_with_its_default() -> None:
    import argparse

    from recall_loop.cli.main import build_parser

    def walk(parser: argparse.ArgumentParser) -> None:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for child in action.choices.values():
                    walk(child)
            elif action.option_strings and not isinstance(action, argparse._HelpAction):
                assert action.help, f"{parser.prog} {action.option_strings}"
                parsed = isinstance(action.type, type(walk)) and not action.required  # what is required has no default
                if action.default not in (None, False, []) or parsed:
                    assert "default" in str(action.help), f"{parser.prog} {action.option_strings}"

    walk(build_parser(list(VERBS)))


def test_the_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    from importlib.metadata import version

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"recall-loop {version('recall-loop')}\n"


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        ([], "VERB"),
        (["fly"], "fly"),
        (["export"], "; did you mean `recall-loop store export`? (see"),
        (["list"], "; did you mean `recall-loop keys list` or `recall-loop store list`?"),
        (["retreive", "x"], "; did you mean `recall-loop retrieve`?"),
        (["store", "lst"], "; did you mean `recall-loop store list`?"),
        (["ingest"], "FILE"),
        (["ingest", "nowhere.jsonl", "--store", "s"], "nowhere.jsonl: No such file"),
        (["ingest", "x", "--store", "s", "--batch-size", "0"], "1 to 5000"),
        (["ingest", "x", "--sto", "s"], "--sto"),
        (["store", "info", "--store", "nowhere"], "nowhere"),
        (["store", "info"], "RECALL_LOOP_STORE_PATH"),
        (["store", "delete", "--store", "s", "--ids", "a"], "--tenant"),
        (["store", "delete", "--store", "s", "--tenant", "t"], "--ids"),
        (["retrieve", "x", "--store", "s", "--max-facts", "1001"], "1 to 1000"),
        (["retrieve", "x", "--store", "s", "--max-iterations", "many"], "1 to 100"),
        (["retrieve", "--store", "s"], "QUESTION"),
        (["retrieve", "  ", "--store", "s"], "QUESTION"),
        (["retrieve", "x", "--store", "s", "--types", "dream"], "--types: got"),
        (["retrieve", "x", "--store", "s", "--filter", "label"], "KEY=VALUE"),
        (["retrieve", "x", "--store", "s", "--filter", "colour=red"], "colour"),
        (["retrieve", "x", "--store", "s", "--filter", "lable=red"], "did you mean label?"),
        (["eval", "--data", "x", "--set", "max_iteratons=1"], "did you mean max_iterations?"),
        (
            ["search", "x", "--store", "s", "--start-time", "2024-05-02", "--end-time", "2024-05-01"],
            "filters.start_time: got '2024-05-02T00:00:00+00:00'; allowed: a time before end_time, which is 2024-05-01",
        ),
        (["retrieve", "x", "--store", "s", "--filter", "role=user", "--filter", "role=tool"], "one value"),
        (["retrieve", "x", "--store", "s", "--reference-time", "noon"], "--reference-time: got"),
        (["retrieve", "x", "--store", "s", "--scope", "constellation"], "--agent: got nothing"),
        (["retrieve", "x", "--store", "s", "--messages", "none.json"], "none.json"),
        (["retrieve", "x", "--store", "nowhere"], "nowhere"),
        (["batch", "none.jsonl", "-o", "out.jsonl", "--store", "s"], "none.jsonl"),
        (["demo", "--all", "--question", "x"], "--question"),
        (["add", "x", "--kind", "fact"], "unrecognized arguments: --kind fact (see `recall-loop add --help`)"),
    ],
)
def test_wrong_use_is_one_line_and_two(
    argv: list[str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    assert named in error_line(capsys)


def test_a_bad_setting_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STOP-4."""
    monkeypatch.setenv("NOVELTY_PATIENCE", "none")
    assert main(["store", "info", "--store", "s"]) == 2
    assert "novelty_patience" in error_line(capsys).lower()


def test_a_misspelt_variable_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RECALL_LOOP_MAXFACTS", "5")
    monkeypatch.setenv("RECALL_LOOP_SERVICE_PROT", "80")
    assert main(["store", "info", "--store", "nowhere"]) == 2
    warned = [line for line in capsys.readouterr().err.splitlines() if " is not a setting" in line]
    assert [line.split(" warning ")[1].split(" [")[0] for line in warned] == [
        "RECALL_LOOP_MAXFACTS is not a setting; RECALL_LOOP_MAX_FACTS is one",
        "RECALL_LOOP_SERVICE_PROT is not a setting; RECALL_LOOP_SERVICE_PORT is one",
    ]


def test_errors_carry_no_control_characters() -> None:
    assert one_line("a\x1b[2Jb\nc\u202ed") == "a\\x1b[2Jb c\\u202ed"


def test_rejected_lines_make_it_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STORE-2."""
    path = write(tmp_path / "in\x1b[2J.jsonl", [*facts(2), {"kind": "fact"}])
    assert main(["ingest", str(path), "--format", "records", "--store", str(tmp_path / "s")]) == 1
    captured = capsys.readouterr()
    assert "2 created, 0 replaced, 0 unchanged, 1 rejected" in captured.out
    assert ".jsonl:3: rejected: text:" in captured.err
    assert "\x1b" not in captured.out + captured.err
    path.write_text(json.dumps(facts(1)[0]) + "\n", encoding="utf-8")
    assert main(["ingest", str(path), "--store", str(tmp_path / "s")]) == 0


def test_only_the_first_problems_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "bad.jsonl", [{"kind": "fact"}] * 50)
    assert main(["ingest", str(path), "--format", "records", "--store", str(tmp_path / "s")]) == 1
    errors = capsys.readouterr().err.splitlines()
    assert len(errors) == 22
    assert errors[-2:] == ["… and 30 more problems", f"Rejected lines are in {path}.rejects.jsonl"]


def test_another_writer_process_is_reported(tmp_path: Path) -> None:
    """Proves: STORE-4."""
    from recall_loop.memory.store.store import MemoryStore

    path = write(tmp_path / "in.jsonl", facts(1))
    with MemoryStore.open(tmp_path / "s"):
        told = run_forked_command("ingest", str(path), "--store", str(tmp_path / "s"))
    assert told.returncode == 2
    assert str(tmp_path / "s") in told.stderr and told.stderr.count("\n") == 1


def test_a_closed_pipe_is_not_an_error(tmp_path: Path) -> None:
    # More than a pipe holds, and little to embed.
    path = write(tmp_path / "in.jsonl", [{**fact, "attributes": {"note": "x" * 10_000}} for fact in facts(50)])
    place = str(tmp_path / "s")
    assert main(["ingest", str(path), "--store", place]) == 0
    with forked_command("store", "export", "--store", place) as child:
        child.stdout.readline()
        child.stdout.close()
        assert child.stderr.read() == ""
        assert child.wait(60) == 141


def has_checkpoint(place: Path) -> bool:
    """Return whether a store has noted how far a file is done."""
    try:
        with closing(sqlite3.connect(f"file:{place / 'sidecar.sqlite3'}?mode=ro", uri=True)) as connection:
            return bool(connection.execute("SELECT 1 FROM meta WHERE key LIKE 'note-ingest-%'").fetchall())
    except sqlite3.Error:  # not there yet
        return False


def test_an_interrupt_is_130_and_the_next_run_goes_on(
    tmp_path: Path, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: STORE-4."""
    path, place = write(tmp_path / "in.jsonl", facts(60)), tmp_path / "s"
    words = ["ingest", str(path), "--store", str(place)]
    with forked_file(root / "tests" / "slow_cli.py", *words, "--batch-size", "4") as child:
        wait_until(lambda: has_checkpoint(place) or child.poll() is not None, 100)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate()
    assert (child.returncode, errors) == (130, "recall-loop: interrupted\n")
    assert main(words) == 0
    assert "done by an earlier run" in capsys.readouterr().out


def test_a_termination_that_a_library_swallowed_ends_the_service_before_it_serves(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Interruptions(taken=False):
        with suppress(SystemExit):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        with pytest.raises(SystemExit) as leaving:
            end_if_terminated()
    assert (leaving.value.code, capfd.readouterr().err) == (0, "recall-loop: ended by SIGTERM\n")
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    end_if_terminated()


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_json_on_stdout_is_whole_in_any_encoding(
    tmp_path: Path, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: STORE-2."""
    text = "Bücher \U0001f4da \x9b31m \u202e tail"
    path = write(tmp_path / "in.jsonl", [{"id": "x", "kind": "fact", "text": text}])
    place = str(tmp_path / "s")
    assert main(["ingest", str(path), "--store", place]) == 0
    written = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(written, encoding=encoding))
    assert main(["store", "export", "--store", place]) == 0
    assert json.loads(written.getvalue())["text"] == text
    assert b"\xc2\x9b" not in written.getvalue()


@pytest.mark.parametrize("words", [["add", "x", "--store", "d"], ["keys", "add", "--tenant", "t", "--keys", "d"]])
def test_a_closed_standard_output_is_an_error_before_anything_is_done(tmp_path: Path, words: list[str]) -> None:
    """Proves: OPS-1."""
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, *words]
    done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "recall-loop: error: standard output is closed\n")
    assert not list(tmp_path.iterdir())
    shell[2] += " 2>&-"
    assert subprocess.run(shell, cwd=tmp_path, check=False).returncode == 2
