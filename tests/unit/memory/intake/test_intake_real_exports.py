"""Exports with what those of real accounts have: parts, marks of citations, messages of programs, columns twice."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from recall_loop.memory.intake.files.detection import detect_format
from recall_loop.memory.intake.files.entries import iter_entries
from recall_loop.memory.intake.files.file_preview import preview_file
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


def test_an_unpacked_export_is_read_as_its_zip(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    parts = {f"conversations-00{at}.json": json.dumps([chat(at, f"Part {at}.")]) for at in range(2)}
    whole = {"conversations.json": json.dumps(claude("2024-06-02T08:00:00Z")), "projects.json": "[]"}
    for name, members in {"chatgpt": parts | {"chat.html": "<html>", "user.json": "{}"}, "claude": whole}.items():
        folder = tmp_path / name
        folder.mkdir()
        for member, content in members.items():
            (folder / member).write_text(content, encoding="utf-8")
        assert detect_format(folder).name == name
        assert found(folder) == found(packed(tmp_path / f"{name}.zip", members)) != []
    (tmp_path / "claude" / "conversations.json").write_text("[")
    with pytest.raises(UnreadableFileError, match=r"claude: is a folder whose conversations\.json is not JSON"):
        found(tmp_path / "claude")


def test_a_branched_off_chat_of_chatgpt_has_ids_of_its_own(tmp_path: Path) -> None:
    """The chat begun first keeps its ids, wherever it stands; a chat that shares nothing does too. Proves: MOVE-1."""
    first, branched, other = chat(1, "Which ferry?"), chat(1, "Which ferry?"), chat(2, "Which hut?")
    first["create_time"], branched["create_time"] = 1714550000.5, 1714560000.5
    branched["conversation_id"] = "branch"
    path = tmp_path / "conversations.json"
    ids = []
    for order in ([branched, other, first], [first, branched, other]):
        path.write_text(json.dumps(order), encoding="utf-8")
        ids.append({(one.conversation_id, one.id) for one in found(path)})
    assert ids[0] == ids[1] == {("c1", "m1"), ("branch", "branch/m1"), ("c2", "m2")}
    path.write_text(json.dumps([branched]), encoding="utf-8")
    assert [one.id for one in found(path)] == ["m1"]


def claude(stated: object) -> list[dict[str, Any]]:
    """Return an export of Claude with one message and its attached text."""
    attached = [{"file_name": "huts.txt", "extracted_content": "Bossbu is closed."}]
    message = {"uuid": "m1", "sender": "human", "text": "Kelp.", "created_at": stated, "attachments": attached}
    return [{"uuid": "c1", "created_at": "2024-06-01T08:00:00Z", "chat_messages": [message]}]


@pytest.mark.parametrize(("stated", "told"), [("last June", 2), ([3], 2), (None, 0), ("2024-06-02T08:00:00Z", 0)])
def test_an_unreadable_time_is_reported(tmp_path: Path, stated: object, told: int) -> None:
    """The record takes its conversation's time. Proves: MOVE-1."""
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(claude(stated)), encoding="utf-8")
    warnings = preview_file(path).warnings
    reason = f"created_at: got {stated!r}, which is not a time; the conversation's time is used"
    assert warnings == [(number, reason) for number in range(1, told + 1)]
    day = 2 if stated and not told else 1
    assert {str(one.created_at)[:10] for one in found(path)} == {f"2024-06-0{day}"}
    asked = chat(1, "Kelp.") | {"create_time": 1714550000}
    asked["mapping"]["node"]["message"]["create_time"] = stated
    path.write_text(json.dumps([asked]), encoding="utf-8")
    assert len(preview_file(path).warnings) == bool(told)


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


SAID_IN_PARTS: dict[str, tuple[dict[str, Any], str]] = {
    "a program's attachment": (
        {"attachments": [{"fallback": "f", "title": "Deploy", "text": "Hydra &amp; co", "fields": [{"value": "red"}]}]},
        "Deploy\nHydra & co\nred",
    ),
    "only a fallback": ({"attachments": [{"fallback": "Deploy failed."}, None]}, "Deploy failed."),
    "rich text": (
        {
            "blocks": [
                {
                    "type": "rich_text",
                    "elements": [
                        {
                            "type": "rich_text_section",
                            "elements": [
                                {"type": "text", "text": "Key <4411> for "},
                                {"type": "user", "user_id": "U1"},
                                {"type": "text", "text": " in "},
                                {"type": "link", "url": "https://a.example", "text": "the list"},
                            ],
                        },
                        {
                            "type": "rich_text_list",
                            "elements": [
                                {"type": "rich_text_section", "elements": [{"type": "text", "text": "one"}]},
                                {"type": "rich_text_section", "elements": [{"type": "emoji", "name": "tada"}]},
                            ],
                        },
                    ],
                }
            ]
        },
        "Key <4411> for @Ines in the list (https://a.example)\none\n:tada:",
    ),
    "sections": (
        {
            "blocks": [
                {"type": "header", "text": {"type": "plain_text", "text": "Alarm"}},
                {"type": "divider"},
                {"type": "section", "text": {"type": "mrkdwn", "text": "for <@U1>"}, "fields": [{"text": "now"}]},
                {"type": "image", "image_url": "https://a.example/x.png"},
            ]
        },
        "Alarm\nfor @Ines\nnow",
    ),
    "its own text counts": ({"text": "Own.", "attachments": [{"text": "a page behind a link"}]}, "Own."),
}


@pytest.mark.parametrize("name", SAID_IN_PARTS)
def test_text_only_in_parts_of_slack_messages_is_read(tmp_path: Path, name: str) -> None:
    """Proves: MOVE-1."""
    said, kept = SAID_IN_PARTS[name]
    message = {"type": "message", "subtype": "bot_message", "ts": "1714550000.000100", "text": "", **said}
    members = {
        "users.json": json.dumps([{"id": "U1", "real_name": "Ines"}]),
        "general/2024-05-01.json": json.dumps([message]),
    }
    assert [one.text for one in found(packed(tmp_path / "export.zip", members))] == [kept]


def test_columns_of_one_name_do_not_take_each_others_place(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "table.csv"
    path.write_text("text,Text,room,room,,\nfirst,second,hall,attic,x,y\n", encoding="utf-8")
    (record,) = found(path)
    assert record.text == "first"
    assert record.attributes == {"Text (2)": "second", "room": "hall", "room (2)": "attic", "": "x", "(2)": "y"}


WRITTEN: dict[str, tuple[list[str], list[str | None]]] = {
    "German": (["01.05.2024", "2.5.24 18:01"], ["2024-05-01T00:00", "2024-05-02T18:01"]),
    "American": (
        ["05/06/2024", "5/13/24, 12:30 AM", "5/14/24 8:00 p.m."],
        ["2024-05-06T00:00", "2024-05-13T00:30", "2024-05-14T20:00"],
    ),
    "British": (["05/06/2024", "13/06/1998 09:30"], ["2024-06-05T00:00", "1998-06-13T09:30"]),
    "one of no calendar": (["31.05.2024", "31.06.2024"], ["2024-05-31T00:00", None]),
    "both ways": (["05/06/2024", "06/07/2024"], [None, None]),
    "two kinds": (["2024-05-01", "05/13/2024"], ["2024-05-01T00:00", "2024-05-13T00:00"]),
    "two kinds, both ways": (["2024-05-01", "05/06/2024"], ["2024-05-01T00:00", None]),
    "one with a zone": (
        ["2024-05-01T10:00:00Z", "2024-05-02 10:00:00", "2024/05/03 10:00", "2024-05-04"],
        ["2024-05-01T10:00", "2024-05-02T10:00", "2024-05-03T10:00", "2024-05-04T00:00"],
    ),
    "one missing": (["n/a", "13/05/2024", "01/06/2024"], [None, "2024-05-13T00:00", "2024-06-01T00:00"]),
    "with the zone's name": (
        ["2024-05-01 10:00:00 UTC", "Wed, 01 May 2024 10:00:00 GMT", "1 May 2024 12:00 +0200", "May 1, 2024 10:00 PM"],
        ["2024-05-01T10:00", "2024-05-01T10:00", "2024-05-01T10:00", None],
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_dates_of_a_table_are_read_where_their_order_shows(tmp_path: Path, name: str) -> None:
    """Proves: MOVE-1."""
    written, moments = WRITTEN[name]
    path = tmp_path / "table.csv"
    path.write_text("".join(f"{row}\n" for row in ["Date;Note", *(f"{one};Kelp." for one in written)]))
    outcomes = [entry.outcome for entry in iter_entries(path, "auto")]
    times = [one.created_at if isinstance(one, Record) else None for one in outcomes]
    assert [one and one.isoformat()[:16] for one in times] == moments


def test_dates_that_could_be_read_both_ways_are_refused_by_that_reason(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    path = tmp_path / "table.csv"
    path.write_text("date,text\n05/06/2024,Kelp.\n")
    with pytest.raises(UnreadableFileError, match=r"created_at: got '05/06/2024'; .* shows which number is the month"):
        preview_file(path)


def test_a_chat_of_telegram_says_who_wrote_what() -> None:
    """Also in texts that are written in parts; a call and a picture say nothing. Proves: MOVE-1."""
    path = Path(__file__).resolve().parents[3] / "foreign" / "exports" / "telegram-result.json"
    assert [(one.id, one.author, one.text, one.attributes) for one in found(path)] == [
        ("telegram-4711-2", "Lena", "Ich ziehe nach Bergen", {"title": "Lena"}),
        ("telegram-4711-3", "Ada", "Siehe https://bergen.no am Montag", {"title": "Lena"}),
    ]
    assert {f"{one.created_at:%d.%m.%y %H:%M}" for one in found(path)} == {"12.05.24 07:15", "12.05.24 07:16"}
    assert preview_file(path).left_out.total() == 2


def test_an_account_of_telegram_has_all_chats(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    message = {"id": 1, "type": "message", "date": "2024-05-12T09:15:05", "from": "Ada", "text": "Hi"}
    chats = [{"name": "Lena", "id": 1, "messages": [message]}, {"id": 2, "messages": [message, {"id": 2}]}]
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"about": "…", "chats": {"about": "…", "list": chats}}), encoding="utf-8")
    assert [one.id for one in found(path)] == ["telegram-1-1", "telegram-2-1"]
    assert preview_file(path).rejected == [
        (3, "date: got nothing; allowed: a message of Telegram with its id and time")
    ]


def test_texts_of_claudes_projects_and_its_memory_are_kept(tmp_path: Path) -> None:
    """Proves: MOVE-1."""
    text = {"uuid": "d1", "filename": "boiler.md", "content": "It is a Vaillant.", "created_at": "2024-06-02T08:00:00Z"}
    projects = [{"uuid": "p1", "name": "House", "docs": [text, {"uuid": "d2", "content": ""}]}]
    memories = [{"conversations_memory": "Ada works at the harbour.", "account_uuid": "u1"}]
    members = {
        "conversations.json": json.dumps(claude("2024-06-02T08:00:00Z")),
        "memories.json": json.dumps(memories),
        "projects.json": json.dumps(projects),
        "users.json": "[]",
    }
    path = packed(tmp_path / "export.zip", members)
    assert [(one.id, one.text, getattr(one, "label", None)) for one in found(path)][-2:] == [
        ("d1", "It is a Vaillant.", "House > boiler.md"),
        ("u1-memory", "Ada works at the harbour.", "Memory"),
    ]
    assert preview_file(path).rejected == []


def test_messages_of_zep_say_who_speaks_and_in_which_role(tmp_path: Path) -> None:
    """Its older messages have a name as the role, and the role beside it. Proves: MOVE-1."""
    said = {"uuid": "z1", "role": "Ada", "role_type": "user", "content": "I live in Bergen", "token_count": 0}
    path = tmp_path / "zep.json"
    path.write_text(json.dumps({"messages": [said, {"role": "Guide", "role_type": "assistant", "content": "Nice."}]}))
    assert [(one.author, getattr(one, "role", None)) for one in found(path)] == [
        ("Ada", "user"),
        ("Guide", "assistant"),
    ]
