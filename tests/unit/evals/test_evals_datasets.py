"""Loading labelled data sets: formats, kinds, dates, and errors for other folders."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from recall_loop.evals.datasets.dataset_parts import DocumentSelection
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.types import ContentType

Lines = list[dict[str, Any]]


def write(path: Path, lines: Lines) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def question(number: int, collection: str, **more: Any) -> dict[str, Any]:
    return {"id": f"q{number}", "collection": collection, "question": "Who paints?", "gold": ["t1"]} | more


def turn(id_: str, collection: str, text: str = "I paint boats.") -> dict[str, Any]:
    said = {"speaker": "Ana", "role": "user", "session": 1, "timestamp": "2024-05-01T09:30:00"}
    return {"id": id_, "collection": collection, "kind": "message", "text": text} | said


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    """Two conversations with turns, facts and a summary; the second also in docs.jsonl."""
    folder = tmp_path / "talk"
    write(folder / "questions.jsonl", [question(1, "a"), question(2, "b", answerable=False, gold=[])])
    write(folder / "turns" / "all.jsonl", [turn("t1", "a"), turn("t2", "b"), turn("t3", "a")])
    fact = {"id": "f1", "collection": "a", "kind": "fact", "text": "Ana paints.", "source_ids": ["t1", "t3"]}
    write(folder / "facts" / "a.jsonl", [fact])
    summary = {"id": "s1", "collection": "a", "kind": "session_summary", "session": 1, "text": "They talked."}
    write(folder / "summaries" / "a.jsonl", [summary])
    write(folder / "docs.jsonl", [turn("t4", "b")])
    return folder


@pytest.mark.parametrize(
    ("kinds", "of_a"),
    [
        (None, ["t1", "t3"]),
        ("messages", ["t1", "t3"]),
        ("messages+facts", ["t1", "t3", "f1"]),
        ("all", ["t1", "t3", "f1", "s1"]),
    ],
)
def test_kinds_choose_documents(talk: Path, kinds: str | None, of_a: list[str]) -> None:
    """Turns alone are the default where there are turns; collections are kept apart, files in order.

    Proves: OPS-4.
    """
    dataset = load_dataset(talk, kinds)
    assert [record.id for record in dataset.collections["a"]] == of_a
    assert len(dataset.collections["a"]) == len(of_a)
    assert [record.id for record in dataset.collections["b"]] == ["t4", "t2"]
    assert "b" in dataset.collections
    assert len(dataset.collections) == 2


def test_kinds_that_leave_a_question_without_documents(talk: Path) -> None:
    """Collection b has no fact.

    Proves: OPS-4.
    """
    with pytest.raises(InvalidInputError, match="question q2: collection: got 'b'"):
        load_dataset(talk, "facts")


def test_records_keep_what_the_document_says(talk: Path) -> None:
    """Proves: OPS-4."""
    message, _, fact, summary = load_dataset(talk, DocumentSelection.ALL).collections["a"]
    assert (message.kind, message.author, message.session) == (ContentType.MESSAGE, "Ana", "1")
    assert message.created_at == datetime(2024, 5, 1, 9, 30, tzinfo=UTC)
    assert fact.kind is ContentType.FACT
    assert fact.source_ids == ("t1", "t3")
    assert summary.kind is ContentType.ARCHIVAL


def test_titled_passages_become_archival_entries(tmp_path: Path) -> None:
    """A passage without time and collection belongs to the one collection that is asked.

    Proves: OPS-4.
    """
    write(tmp_path / "questions.jsonl", [question(1, "pool")])
    write(tmp_path / "docs.jsonl", [{"id": "p1", "kind": "fact", "title": "Boats", "text": "They float."}])
    dataset = load_dataset(tmp_path)
    (passage,) = dataset.collections["pool"]
    assert (passage.kind, passage.label, passage.created_at) == (ContentType.ARCHIVAL, "Boats", None)
    assert dataset.kinds is DocumentSelection.ALL


def test_document_without_collection_among_several(tmp_path: Path) -> None:
    """Proves: OPS-4."""
    write(tmp_path / "questions.jsonl", [question(1, "a"), question(2, "b")])
    write(tmp_path / "docs.jsonl", [{"id": "p1", "kind": "fact", "text": "They float."}])
    with pytest.raises(InvalidInputError, match=r"docs\.jsonl line 1\.collection: got None"):
        load_dataset(tmp_path)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("2023/12/18 (Mon) 04:17", datetime(2023, 12, 18, 4, 17, tzinfo=UTC)),
        ("2023/12/18", datetime(2023, 12, 18, tzinfo=UTC)),
        ("2023-12-18T04:17:00+02:00", datetime(2023, 12, 18, 2, 17, tzinfo=UTC)),
        (None, None),
    ],
)
def test_question_dates(tmp_path: Path, given: str | None, expected: datetime | None) -> None:
    """A question's date is its reference time.

    Proves: OPS-4, LOOP-9.
    """
    write(tmp_path / "questions.jsonl", [question(1, "a", question_date=given)])
    write(tmp_path / "docs.jsonl", [turn("t1", "a")])
    assert load_dataset(tmp_path).questions[0].reference_time == expected


def test_impossible_question_date_is_named(tmp_path: Path) -> None:
    """Proves: OPS-4."""
    write(tmp_path / "questions.jsonl", [question(1, "a", question_date="2023/13/18 (Mon) 04:17")])
    write(tmp_path / "docs.jsonl", [turn("t1", "a")])
    with pytest.raises(InvalidInputError, match=r"questions\.jsonl line 1\.question_date: got '2023/13/18"):
        load_dataset(tmp_path)


def test_only_answerable_questions_with_gold_are_scored(talk: Path) -> None:
    """Proves: OPS-4."""
    assert [question.scored for question in load_dataset(talk).questions] == [True, False]


def test_documents_without_text_are_left_out_and_counted(tmp_path: Path) -> None:
    """Real sets hold some empty documents; there is nothing in them to find.

    Proves: OPS-4.
    """
    write(tmp_path / "questions.jsonl", [question(1, "a")])
    write(tmp_path / "docs.jsonl", [turn("t1", "a"), turn("t2", "a", text="  ")])
    dataset = load_dataset(tmp_path)
    assert dataset.blank == 1
    assert [record.id for record in dataset.collections["a"]] == ["t1"]


def test_blank_lines_and_byte_order_marks_do_not_shift_records(tmp_path: Path) -> None:
    """Records are read again from where they stand in the file.

    Proves: OPS-4.
    """
    write(tmp_path / "questions.jsonl", [question(1, "a")])
    body = "\n\n".join(json.dumps(turn(f"t{number}", "a", f"Über {number}")) for number in range(3))
    (tmp_path / "docs.jsonl").write_bytes(b"\xef\xbb\xbf" + body.encode())
    dataset = load_dataset(tmp_path)
    assert [record.text for record in dataset.collections["a"]] == ["Über 0", "Über 1", "Über 2"]


@pytest.mark.parametrize("missing", ["folder", "questions", "documents"])
def test_folder_that_is_not_a_data_set(tmp_path: Path, missing: str) -> None:
    """The error says what such a folder holds.

    Proves: OPS-4.
    """
    folder = tmp_path / "set"
    if missing != "folder":
        folder.mkdir()
    if missing == "documents":
        write(folder / "questions.jsonl", [question(1, "a")])
    with pytest.raises(InvalidInputError, match=r"data: got .* a folder with questions\.jsonl"):
        load_dataset(folder)


def test_bad_lines_are_named(tmp_path: Path) -> None:
    """File, line and field.

    Proves: OPS-4.
    """
    write(tmp_path / "questions.jsonl", [question(1, "a"), question(2, "a", gold="t1")])
    write(tmp_path / "docs.jsonl", [turn("t1", "a")])
    with pytest.raises(InvalidInputError, match=r"questions\.jsonl line 2\.gold"):
        load_dataset(tmp_path)
    write(tmp_path / "questions.jsonl", [question(1, "a")])
    (tmp_path / "docs.jsonl").write_text("{}\nnot json\n", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"docs\.jsonl line 2: "):
        load_dataset(tmp_path)
    write(tmp_path / "docs.jsonl", [turn("t1", "a"), turn("t2", "a") | {"timestamp": "soon"}])
    with pytest.raises(InvalidInputError, match=r"docs\.jsonl line 2\.timestamp: got 'soon'"):
        list(load_dataset(tmp_path).collections["a"])


def test_kinds_that_the_set_lacks(tmp_path: Path) -> None:
    """Proves: OPS-4."""
    write(tmp_path / "questions.jsonl", [question(1, "a")])
    write(tmp_path / "docs.jsonl", [turn("t1", "a")])
    with pytest.raises(InvalidInputError, match=r"kinds: got 'facts'.*messages \| messages\+facts \| all"):
        load_dataset(tmp_path, "facts")
    with pytest.raises(InvalidInputError, match="kinds: got 'events'"):
        load_dataset(tmp_path, "events")


@pytest.mark.parametrize("document", ["records.jsonl", "turns/a.jsonl"])
def test_an_empty_set_is_called_empty(tmp_path: Path, document: str) -> None:
    (tmp_path / "turns").mkdir()
    for name in ("questions.jsonl", document):
        (tmp_path / name).write_text("", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"^data: got .*(a data set with at least one document|documents in)"):
        load_dataset(tmp_path)
    (tmp_path / "set.json").write_text("[]", encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"set\.json: got nothing;"):
        load_dataset(tmp_path / "set.json")


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "collections", "scored"),
    [
        ("locomo", 6, 883),
        ("beam", 10, 179),
        ("musique", 1, 50),
        ("hotpotqa", 1, 100),
        ("longmemeval_mini", 3, 2),
    ],
)
def test_real_sets_load_wholly(data_dir: Path, name: str, collections: int, scored: int) -> None:
    """Every document of every set becomes a record; every gold id is one of them.

    Proves: OPS-4.
    """
    dataset = load_dataset(data_dir / name)
    assert len(dataset.collections) == collections
    asked = [question for question in dataset.questions if question.scored]
    assert len(asked) == scored
    ids = {key: {record.id for record in dataset.collections[key]} for key in dataset.collections}
    assert all(set(question.gold) <= ids[question.collection] for question in asked)
