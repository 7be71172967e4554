"""`recall-loop add` and `store list` (API-1)."""

from __future__ import annotations

import io
import json
from pathlib import Path
from threading import Timer

import pytest

from recall_loop.cli.main import main
from recall_loop.memory.store.files.store_files import WriterLock


@pytest.fixture
def place(tmp_path):
    return str(tmp_path / "s")


def printed(capsys):
    return json.loads(capsys.readouterr().out)


def test_a_text_is_added_and_listed(place, capsys, monkeypatch):
    """Proves: API-1, API-2."""
    store = ["--store", place, "--tenant", "acme"]
    assert main(["add", "The ferry leaves at nine.", *store, "--user", "u", "--conversation", "c", "--json"]) == 0
    (first,) = printed(capsys)["ids"]
    monkeypatch.setattr("sys.stdin", io.StringIO("And at noon."))
    assert main(["add", "-", *store, "--user", "u", "--conversation", "c"]) == 0
    status, second = capsys.readouterr().out.split()
    assert status == "created"
    assert main(["store", "list", *store, "--user", "u", "--limit", "1", "--json"]) == 0
    page = printed(capsys)
    (record,) = page["records"]
    assert (record["id"], record["text"], record["role"], record["position"]) == (second, "And at noon.", "user", 1)
    assert main(["store", "list", *store, "--after", page["after"]]) == 0
    assert first in capsys.readouterr().out
    assert main(["store", "list", *store, "--filter", "role=assistant"]) == 0
    assert capsys.readouterr().out == ""


def test_a_document_is_added_as_a_whole_or_not_at_all(place, tmp_path, capsys):
    """Proves: API-1, API-2."""
    talk = [
        {"role": "user", "content": "Hello."},
        {"text": "A note.", "label": "N"},
        {"role": "system", "content": "x"},
    ]
    file = tmp_path / "talk.json"
    file.write_text(json.dumps(talk), encoding="utf-8")
    assert main(["add", "--file", str(file), "--store", place]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["created", "created", "skipped"]
    file.write_text(json.dumps([*talk, {"text": "", "id": "bad"}]), encoding="utf-8")
    assert main(["add", "--file", str(file), "--store", place]) == 2
    assert "records.3.text: got ''" in capsys.readouterr().err
    assert main(["store", "list", "--store", place, "--json"]) == 0
    assert len(printed(capsys)["records"]) == 2


def test_a_record_is_changed_in_part(place, capsys):
    """Proves: API-1, API-3."""
    store = ["--store", place]
    assert main(["add", "I live in Bergen.", *store, "--user", "u", "--json"]) == 0
    (name,) = printed(capsys)["ids"]
    assert main(["store", "update", name, "text=2024", 'tags=["home"]', "author=Ada", *store, "--actor", "ann"]) == 0
    assert "Ada: 2024" in capsys.readouterr().out
    assert main(["store", "update", name, "author=null", *store]) == 0
    capsys.readouterr()
    assert main(["store", "list", *store, "--json"]) == 0
    (record,) = printed(capsys)["records"]
    assert (record["text"], record["tags"], record["user_id"], record.get("author")) == ("2024", ["home"], "u", None)
    for wrong in (["nobody", "text=x"], [name, "text"], [name, "colour=red"], [name, "text="]):
        assert main(["store", "update", *wrong, *store]) == 2
        assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "TEXT"),
        (["x", "--infer"], "infer"),
        (["  "], "TEXT"),
        (["x", "--user", ""], "--user: got ''"),
        (["--file", "none.json"], "none.json"),
    ],
)
def test_bad_usage_is_one_line(place, options, words, capsys, monkeypatch, tmp_path):
    """Proves: API-1."""
    monkeypatch.chdir(tmp_path)
    assert main(["add", *options, "--store", place]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_piped_text_is_stored_without_its_last_line_end(place, capsys, monkeypatch):
    """Proves: API-1 (lines inside it stay; what is blank is told by the argument's name)."""
    for given, kept in (("And at noon.\n", "And at noon."), (" One.\r\nTwo.\r\n", " One.\r\nTwo.")):
        monkeypatch.setattr("sys.stdin", io.StringIO(given, newline=""))
        assert main(["add", "-", "--store", place]) == 0
        capsys.readouterr()
        assert main(["store", "list", "--store", place, "--limit", "1", "--json"]) == 0
        assert printed(capsys)["records"][0]["text"] == kept
    for blank in ("", "  ", "-"):
        monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
        assert main(["add", blank, "--store", place]) == 2
        assert "TEXT: got '" in capsys.readouterr().err


def test_who_adds_waits_for_another_writer(place, capsys):
    """Proves: STORE-4 (as long as `--wait` says; a lock is held by whoever opened the file, in whatever process)."""
    Path(place).mkdir()
    lock = WriterLock(Path(place))
    assert main(["add", "One.", "--store", place, "--wait", "0.1"]) == 2
    error = capsys.readouterr().err
    assert "open; to write, wait until it closes" in error and "(still after 0.1 s)" in error and error.count("\n") == 1
    leaving = Timer(0.2, lock.release)
    leaving.start()
    assert main(["add", "Two.", "--store", place]) == 0
    leaving.join()
