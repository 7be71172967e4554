"""Data sets as they are published: recognised, read into collections and questions, and refused where malformed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recall_loop.cli.evals import eval_options
from recall_loop.evals.datasets import json_files
from recall_loop.evals.datasets.datasets import FORMATS, load_dataset
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.types import ContentType
from tests.unit.evals import public_formats
from tests.unit.evals.public_formats import write_dataset

NAMES = ("records", "locomo", "beam", "musique", "hotpotqa", "longmemeval", "tau", "tau2")


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_every_format_is_recognised_and_holds_its_gold(tmp_path: Path, name: str, told: bool) -> None:
    """What is recognised is what is read where the format is told; every gold id is a record of its collection.

    Proves: OPS-4.
    """
    path = write_dataset(name, tmp_path / "set")
    dataset = load_dataset(path, "all", name.removesuffix("2") if told else None)
    ids = {key: {record.id for record in dataset.collections[key]} for key in dataset.collections}
    assert {key: len(dataset.collections[key]) for key in ids} == {key: len(found) for key, found in ids.items()}
    scored = [question for question in dataset.questions if question.scored]
    assert scored
    assert all(set(question.gold) <= ids[question.collection] for question in scored)


def test_the_command_knows_the_formats() -> None:
    """Proves: OPS-4."""
    assert eval_options.FORMATS == FORMATS


def test_locomo(tmp_path: Path) -> None:
    """Turns with captions, evidence in one text, evidence that doesn't exist, adversarial questions.

    Proves: OPS-4.
    """
    dataset = load_dataset(write_dataset("locomo", tmp_path))
    first, second = dataset.collections["talk-1"]
    assert (first.id, first.author, first.session) == ("talk-1:D1:1", "Ines", "1")
    assert first.created_at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert second.text == "Nice! [shares an image: a red boat on a beach]"
    asked, adversarial = dataset.questions
    assert (asked.category, asked.gold, asked.answerable) == ("single_hop", ("talk-1:D1:1", "talk-1:D1:2"), True)
    assert (adversarial.category, adversarial.gold, adversarial.answerable) == ("adversarial", (), False)
    assert [record.kind for record in load_dataset(tmp_path, "all").collections["talk-1"]] == [
        ContentType.MESSAGE,
        ContentType.MESSAGE,
        ContentType.FACT,
        ContentType.ARCHIVAL,
        ContentType.ARCHIVAL,
    ]


def test_beam(tmp_path: Path) -> None:
    """Batches are sessions, marks are cut off, a time anchor holds until the next, sources come in any shape.

    Proves: OPS-4.
    """
    path = write_dataset("beam", tmp_path)
    dataset = load_dataset(path)
    messages = list(dataset.collections["beam-1"])
    assert messages[0].text == "My greenhouse needs a new roof by Easter."
    assert [message.session for message in messages] == ["1", "1", "2"]
    assert {message.created_at for message in messages} == {datetime(2024, 3, 15, tzinfo=UTC)}
    found = {question.category: (question.gold, question.answerable) for question in dataset.questions}
    assert found == {
        "abstention": ((), False),
        "knowledge_update": (("beam-1:0", "beam-1:2"), True),
        "information_extraction": (("beam-1:0",), True),
    }
    assert list(load_dataset(path / "1").collections) == ["beam-1"]


def test_passages(tmp_path: Path) -> None:
    """Passages of all questions are one pool in which equal ones are one; gold are the supporting ones.

    Proves: OPS-4.
    """
    musique = load_dataset(write_dataset("musique", tmp_path / "m"))
    passages = {record.label: record.id for record in musique.collections["musique"]}
    assert len(passages) == len(musique.collections["musique"]) == 3
    two, three = musique.questions
    assert (two.category, two.gold) == ("2hop", (passages["Harbour mural"], passages["Aud Lie"]))
    assert (three.category, three.gold, three.scored) == ("3hop", (passages["Tar"],), False)
    hotpot = load_dataset(write_dataset("hotpotqa", tmp_path / "h"))
    held = {record.label: record for record in hotpot.collections["hotpotqa"]}
    assert held["Per Moe"].text == "Per Moe was a cook. Now he paints."
    assert hotpot.questions[0].gold == (held["Aud Lie"].id, held["Per Moe"].id)
    assert hotpot.questions[0].category == "comparison"


def test_longmemeval(tmp_path: Path) -> None:
    """Each question has its own history and time; a session id that comes twice makes two sessions.

    Proves: OPS-4.
    """
    dataset = load_dataset(write_dataset("longmemeval", tmp_path))
    assert [record.id for record in dataset.collections["q1"]] == ["q1:s1:0", "q1:s1:1", "q1:s1#2:0"]
    assert dataset.blank == 1
    asked, abstention = dataset.questions
    assert asked.gold == ("q1:s1:0",)
    assert asked.reference_time == datetime(2023, 6, 2, 10, tzinfo=UTC)
    assert not abstention.answerable


def test_tau(tmp_path: Path) -> None:
    """Gold are the runs that succeeded at what the customer wants, of all files; what they want isn't indexed.

    Proves: OPS-4, TRAJ-1.
    """
    write_dataset("tau", tmp_path)
    write_dataset("tau2", tmp_path)
    dataset = load_dataset(tmp_path)
    assert dataset.content_types == (ContentType.TRAJECTORY,)
    runs = {record.id: record for record in dataset.collections["tau"]}
    assert list(runs) == ["tau:0:0", "tau:0:1", "tau:1:0", "tau2:0:0", "tau2:1:0"]
    assert not any(wanted in record.text for record in runs.values() for wanted in (public_formats.REFUND,))
    gold = {question.question: question.gold for question in dataset.questions}
    assert gold == {public_formats.REFUND: ("tau:0:0", "tau2:0:0"), public_formats.SEAT: ("tau:1:0",)}


def test_records_keep_their_kinds(tmp_path: Path) -> None:
    """All of them are the default; a pool without messages can't be asked where only messages are loaded.

    Proves: OPS-4.
    """
    folder = write_dataset("records", tmp_path)
    with pytest.raises(InvalidInputError, match="question k2: collection"):
        load_dataset(folder, "messages")
    dataset = load_dataset(folder)
    assert {name: len(dataset.collections[name]) for name in dataset.collections} == {"pottery": 2, "bakery": 1}
    assert next(iter(dataset.collections["bakery"])).label == "Bread"


Change = Callable[[Any], None]


def _break(name: str, folder: Path, change: Change) -> Path:
    path = write_dataset(name, folder)
    if name == "musique":
        items = copy.deepcopy(public_formats.MUSIQUE)
        change(items)
        path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
        return path
    file = path / "1" / "chat.json" if name == "beam" else path
    items = json.loads(file.read_text(encoding="utf-8"))
    change(items)
    file.write_text(json.dumps(items), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "change", "error"),
    [
        ("locomo", lambda x: x[0]["qa"][0].update(category=9), r"locomo\.json item 1\.qa\.0\.category: got 9"),
        ("locomo", lambda x: x[0]["qa"][1].pop("question"), r"locomo\.json item 1\.qa\.1\.question: got nothing"),
        ("locomo", lambda x: x.append(x[0]), r"locomo\.json item 2\.sample_id: got 'talk-1'"),
        ("beam", lambda x: x[0]["turns"][0][1].pop("id"), r"1/chat\.json\.0\.turns\.0\.1\.id: got nothing"),
        ("beam", lambda x: x[0]["turns"][0][0].update(time_anchor="soon"), r"chat\.json id 0\.time_anchor: got 'soon'"),
        (
            "musique",
            lambda x: x[1]["paragraphs"][0].pop("title"),
            r"dev\.jsonl line 2\.paragraphs\.0\.title: got nothing",
        ),
        ("hotpotqa", lambda x: x[0].update(context=["Tar"]), r"hotpotqa\.json item 1\.context\.0: got 'Tar'"),
        ("longmemeval", lambda x: x[0]["haystack_dates"].pop(), r"item 1\.haystack_dates: got 1"),
        (
            "longmemeval",
            lambda x: x[1].update(haystack_dates=["2023/13/01"]),
            r"item 2\.haystack_dates\.0: got '2023/13",
        ),
        ("tau", lambda x: x[2].pop("reward"), r"tau\.json item 3\.reward: got nothing"),
        ("tau2", lambda x: x["simulations"][0].update(task_id="9"), r"simulations\.0\.task_id: got '9'"),
        ("tau2", lambda x: x["tasks"][1]["user_scenario"].update(instructions={}), r"tasks\.1\.user_scenario"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, change: Change, error: str) -> None:
    """File, line or item, and field.

    Proves: OPS-4.
    """
    path = _break(name, tmp_path / "set", change)
    with pytest.raises(InvalidInputError, match=error):
        load_dataset(path, None, name.removesuffix("2"))


def test_invalid_data_sets(tmp_path: Path) -> None:
    """Proves: OPS-4."""
    for text in ('[{"a": 1}]', '{"a": 1}', "[1]", "[", "no JSON", ""):
        (tmp_path / "thing.json").write_text(text, encoding="utf-8")
        with pytest.raises(InvalidInputError, match=r"thing\.json"):
            load_dataset(tmp_path / "thing.json")
    with pytest.raises(InvalidInputError, match="format: got 'squad'; allowed: layout"):
        load_dataset(tmp_path, None, "squad")
    with pytest.raises(InvalidInputError, match="data: got"):
        load_dataset(tmp_path / "nowhere", None, "locomo")
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "runs.jsonl").write_text("{}\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"data: got '.*runs'; allowed: results of tau.*trajectories add"):
        load_dataset(tmp_path / "runs", None, "tau")


def test_long_lists_are_read_item_by_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Items longer than a chunk, letters of several bytes at its edge, and each one again from where it stands.

    Proves: OPS-4.
    """
    monkeypatch.setattr(json_files, "_CHUNK", 7)
    values = [{"text": 'søt]{"' * number, "number": number} for number in range(40)]
    path = tmp_path / "list.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(values, ensure_ascii=False, indent=1).encode())
    items = list(json_files.iter_items(path))
    assert [item.value for item in items] == values
    assert [value for _, value in json_files.reread_items(reversed(items))] == values[::-1]
    path.write_text('[{"a": 1} {"b": 2}]', encoding="utf-8")
    with pytest.raises(InvalidInputError, match="commas between"):
        list(json_files.iter_items(path))
    path.write_bytes(b'[{"a": "\xff"}]')
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        list(json_files.iter_items(path))
