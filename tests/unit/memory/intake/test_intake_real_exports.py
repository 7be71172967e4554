"""Exports with what those of real accounts have: parts, marks of citations, messages of programs, columns twice."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from recall_loop.memory.intake.files.entries import iter_entries
from recall_loop.memory.intake.formats.source_items import UnreadableFileError
from recall_loop.state.records.records import Record


def found(path: Path) -> list[Record]:
    return [entry.outcome for entry in iter_entries(path, "auto") if isinstance(entry.outcome, Record)]


def chat(number: int, text: str, role: str = "user") -> dict[str, Any]:
    """Return a conversation of ChatGPT's with one message."""
    message = {
        "id": f"m{number}",
        "author": {"role": role},
        "create_time": 1714550000.5,
        "content": {"content_type": "text", "parts": [text]},
        "recipient": "all",
    }
    mapping = {"root": {"parent": None}, "node": {"parent": "root", "message": message}}
    return {"conversation_id": f"c{number}", "title": f"T{number}", "mapping": mapping, "current_node": "node"}


def packed(path: Path, members: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_an_export_of_chatgpt_in_parts_is_read_whole(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    parts = [json.dumps([chat(number, f"Part {number}.")]) for number in range(2)]
    members = {"conversations-001.json": parts[1], "conversations-000.json": parts[0], "chat.html": "<html>"}
    junk = {"__MACOSX/._conversations-000.json": "junk", "shared_conversations.json": "[]"}
    path = packed(tmp_path / "export.zip", {**members, **junk})
    assert [(one.id, one.conversation_id, one.text) for one in found(path)] == [
        ("m0", "c0", "Part 0."),
        ("m1", "c1", "Part 1."),
    ]
    with pytest.raises(UnreadableFileError, match=r"whose conversations-001\.json is not JSON"):
        found(packed(tmp_path / "broken.zip", {**members, "conversations-001.json": "["}))


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Rain \ue200cite\ue202turn0search1\ue202turn0search2\ue201. Wind.", "Rain. Wind."),
        ("See \ue200url\ue202the huts\ue202turn0search0\ue201 first.", "See the huts first."),
        ('Ask \ue200entity\ue202["people","Ole Berg","guide"]\ue201.', "Ask Ole Berg."),
        ("\ue200navlist\ue202News\ue202turn0news1\ue201\nRain.", "Rain."),
        ("Half a mark \ue200cite", "Half a mark \ue200cite"),
    ],
)
def test_of_marks_in_a_reply_of_chatgpt_the_shown_words_stay(tmp_path: Path, said: str, kept: str) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chat(1, said, "assistant")]), encoding="utf-8")
    assert [one.text for one in found(path)] == [kept]
