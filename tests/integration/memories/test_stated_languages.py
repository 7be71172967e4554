"""Languages that records and queries state, on every way in and out (OPEN-4)."""

from __future__ import annotations

import json
from typing import get_args

import pytest

from recall_loop import InvalidInputError, Memory, MemoryStore, ingest_file, search, search_trajectories
from recall_loop.cli.main import main
from recall_loop.memory.intake.files.entries import FileOwner
from recall_loop.memory.intake.files.ingest import IngestOptions
from recall_loop.memory.intake.files.record_lines import export_lines
from recall_loop.state.errors import RejectedRecordsError
from recall_loop.state.language_codes import LanguageCode
from recall_loop.state.records.records import Message
from recall_loop.state.scope import Scope
from recall_loop.state.search import SearchParams, TrajectorySearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.text.words.stemming import STEMMED_APART
from tests.embedders import WordHashEmbedder
from tests.service_server import running_service

NOTE = {"id": "n", "kind": "archival", "text": "Nieuw huis"}
ASKED = "huizen"
ALLOWED = "one of ar, ca, "


def found(store, query=ASKED, language="nl"):
    params = SearchParams(mode="fts", language=language)
    return [hit.record.id for hit in search(store, query, params=params).hits]


def new_store():
    return MemoryStore.in_memory(embedder=WordHashEmbedder())


@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("nl", "Nieuw huis", "huizen"),
        ("sv", "Båten ligger vid bryggan", "båtarna"),
        ("it", "Nuovo libro comprato", "libri"),
        ("pl", "Kupiłam nową książkę", "książki"),
        ("fi", "Ostin uuden kirjan", "kirjassa"),
        ("sr", "Нова књига", "књигама"),
        ("fa", "خانه تازه", "خانههای"),
    ],
)
def test_other_inflections_are_found_where_both_sides_state_the_language(language, text, query):
    """Proves: OPEN-4."""
    with new_store() as store:
        store.upsert([{"id": "n", "kind": "archival", "text": text}])
        assert not found(store, query, None)
        store.upsert([{"id": "n", "kind": "archival", "text": text, "language": language}])
        assert found(store, query, language) == ["n"]


def test_the_same_word_is_found_whoever_states_a_language():
    """Proves: OPEN-4."""
    for language, text in (("sv", "Båtarna"), ("fa", "کتاب‌ها"), ("sr", "књигама"), ("yi", "ביכער")):
        for of_record, of_query in ((language, None), (None, language), (language, language)):
            with new_store() as store:
                store.upsert([{"id": "n", "kind": "archival", "text": text, "language": of_record}])
                assert found(store, text, of_query) == ["n"], (language, of_record, of_query)


def test_every_code_is_one_that_words_are_read_by():
    """Proves: OPEN-4."""
    by_script = {"ar", "el", "hi", "hy", "ru", "ta"}
    assert {*get_args(LanguageCode)} == {*STEMMED_APART, *by_script, "en", "ja", "th", "zh"}
    with new_store() as store:
        store.upsert(
            [{"id": code, "kind": "archival", "text": "Anna", "language": code} for code in get_args(LanguageCode)]
        )
        assert store.count() == len(get_args(LanguageCode))


def test_a_stated_language_survives_changes_versions_and_rebuilds(tmp_path):
    """Proves: OPEN-4, API-3."""
    with MemoryStore.open(tmp_path / "s", embedder=WordHashEmbedder()) as store:
        store.upsert([{"id": "n", "kind": "archival", "text": "Ny skola", "language": "sv"}])
        store.update("n", {"tags": ["x"]})
        assert found(store, "skolorna", "sv") == ["n"]
        assert store.history("n")[0].before.language == "sv"
        store.update("n", {"language": None})
        assert found(store, "skolorna", "sv") == []
        store.update("n", {"language": "sv"})
        assert found(store, "skolorna", "sv") == ["n"]
        store.maintenance.rebuild(embedder=WordHashEmbedder())
        assert found(store, "skolorna", "sv") == ["n"]
    with MemoryStore.open(tmp_path / "s", embedder=WordHashEmbedder(), read_only=True) as store:
        assert found(store, "skolorna", "sv") == ["n"]


def test_a_stated_language_survives_export_import_and_a_move(tmp_path):
    """Proves: OPEN-4, MOVE-1."""
    with MemoryStore.open(tmp_path / "s") as store:
        store.upsert([{**NOTE, "language": "nl"}])
        lines = list(export_lines(store, Scope()))
    assert json.loads(lines[0])["language"] == "nl"
    (tmp_path / "out.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    with new_store() as other:
        assert ingest_file(tmp_path / "out.jsonl", other).created == 1
        assert found(other) == ["n"]
    assert main(["store", "move", "--store", str(tmp_path / "s"), "--to", str(tmp_path / "moved")]) == 0
    with MemoryStore.open(tmp_path / "moved", read_only=True) as moved:
        assert found(moved) == ["n"]


def test_a_file_is_read_in_the_language_of_the_call_unless_a_record_states_its_own(tmp_path, capsys):
    """Proves: OPEN-4."""
    path, place = tmp_path / "in.jsonl", str(tmp_path / "s")
    records = [NOTE, {"id": "sv", "kind": "archival", "text": "Båten", "language": "sv"}]
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    assert main(["ingest", str(path), "--language", "nl", "--store", place]) == 0
    capsys.readouterr()
    assert main(["search", ASKED, "--mode", "fts", "--language", "nl", "--json", "--store", place]) == 0
    assert [hit["language"] for hit in json.loads(capsys.readouterr().out)["hits"]] == ["nl"]
    assert main(["search", "båtarna", "--mode", "fts", "--language", "sv", "--json", "--store", place]) == 0
    assert [hit["id"] for hit in json.loads(capsys.readouterr().out)["hits"]] == ["sv"]


def test_a_column_is_a_language_where_its_cell_is_a_code(tmp_path):
    """Other words about a language stay what they were: attributes. Proves: OPEN-4, MOVE-1."""
    path = tmp_path / "in.csv"
    path.write_text("text,Language\nNieuw huis,NL\nBike stolen,English\n", encoding="utf-8")
    with new_store() as store:
        assert ingest_file(path, store, IngestOptions(format_name="csv")).created == 2
        dutch, english = store.scan(Scope())
    assert (dutch.language, dutch.attributes) == ("nl", {})
    assert (english.language, english.attributes) == (None, {"Language": "English"})


def test_messages_of_a_file_keep_a_code_and_lose_other_words(tmp_path):
    """Proves: OPEN-4, MOVE-1."""
    said = [{"role": "user", "content": f"Fiets {word}", "language": word} for word in ("nl", "Dutch")]
    (tmp_path / "in.json").write_text(json.dumps(said), encoding="utf-8")
    with new_store() as store:
        ingest_file(tmp_path / "in.json", store, IngestOptions(format_name="openai"))
        assert [record.language for record in store.scan(Scope())] == ["nl", None]


def test_what_is_added_has_the_language_of_the_call_unless_it_states_its_own():
    """Texts, messages and records. Proves: OPEN-4, API-1."""
    with new_store() as store:
        content = [
            "Nieuw huis",
            {"role": "user", "content": "Båten", "language": "sv"},
            {"text": "Fact", "subject": "x"},
            Message(id="m", text="Fiets"),
            Message(id="o", text="Libro", language="it"),
        ]
        Memory(store=store).add(content, language="nl")
        assert [record.language for record in store.scan(Scope())] == ["nl", "sv", "nl", "nl", "it"]


def test_the_loop_reads_a_question_in_its_stated_language():
    """Its queries, what they cover and how sure it is. Proves: OPEN-4, LOOP-4."""
    with MemoryStore.in_memory() as store:
        memory = Memory(store=store)
        others = [f"Meeting {number} about the budget" for number in range(30)]
        memory.add(["Ny skola öppnar i maj", *others], language="sv")
        plain, stated = (memory.recall("skolorna", language=language) for language in (None, "sv"))
    assert plain.confidence.score < stated.confidence.score
    assert stated.facts[0].text == "Ny skola öppnar i maj"


def test_past_runs_are_searched_in_a_stated_language():
    """Proves: OPEN-4, TRAJ-5."""
    run = {"id": "t", "kind": "trajectory", "text": "Nieuw huis", "language": "nl"}
    with new_store() as store:
        store.upsert([run])
        counts = [
            len(
                search_trajectories(
                    store,
                    ASKED,
                    scope=Scope(),
                    params=TrajectorySearchParams(mode="fts", language=language, min_similarity=0),
                ).trajectories
            )
            for language in (None, "nl")
        ]
    assert counts == [0, 1]


def test_a_code_that_is_not_known_is_refused_by_field_value_and_codes(tmp_path, capsys):
    """Proves: OPEN-4, API-2."""
    with new_store() as store:
        for call in (
            lambda: store.upsert([{**NOTE, "language": "xx"}]),
            lambda: Memory(store=store).add({**NOTE, "language": "xx"}),
            lambda: Memory(store=store).add({"role": "user", "content": "Hoi", "language": "xx"}),
        ):
            with pytest.raises(RejectedRecordsError) as caught:
                call()
            assert caught.value.field == "records.0.language"
            assert caught.value.value == "'xx'" and caught.value.allowed.startswith(ALLOWED)
        for call in (
            lambda: Memory(store=store).add("Hoi", language="xx"),
            lambda: Memory(store=store).search("Hoi", language="xx"),
            lambda: Memory(store=store).recall("Hoi", language="xx"),
            lambda: FileOwner(language="xx"),
        ):
            with pytest.raises(InvalidInputError) as wrong:
                call()
            assert (wrong.value.field, wrong.value.value) == ("language", "'xx'")
            assert wrong.value.allowed.startswith(ALLOWED)
    path = tmp_path / "in.txt"
    path.write_text("Hoi", encoding="utf-8")
    for verb in (["ingest", str(path)], ["add", "Hoi"], ["search", "Hoi"], ["retrieve", "Hoi"]):
        capsys.readouterr()
        assert main([*verb, "--language", "xx", "--store", str(tmp_path / "s")]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "language: got 'xx'; allowed: one of ar" in line


def test_the_service_takes_a_language_and_refuses_others():
    """Proves: OPEN-4, OPS-4."""
    with running_service(settings=Settings(), embedder=WordHashEmbedder()) as served, served.client() as client:
        assert client.put("/api/memory/records/n", json={**NOTE, "language": "nl"}).is_success
        assert client.post("/api/memory/add", json={"content": "Oud huis", "language": "nl"}).is_success
        body = {"query": ASKED, "mode": "fts", "language": "nl"}
        assert len(client.post("/api/memory/search", json=body).json()["hits"]) == 2
        asked = {"messages": [{"content": ASKED}], "language": "nl"}
        assert len(client.post("/api/memory/retrieve", json=asked).json()["facts"]) == 2
        for path, body in (
            ("records", {"records": [{**NOTE, "language": "xx"}]}),
            ("add", {"content": "Hoi", "language": "xx"}),
            ("add", {"content": {**NOTE, "language": "xx"}}),
            ("search", {"query": "Hoi", "language": "xx"}),
            ("retrieve", {"messages": [{"content": "Hoi"}], "language": "xx"}),
        ):
            answer = client.post(f"/api/memory/{path}", json=body)
            assert answer.status_code == (200 if path == "records" else 422)
            assert "language" in answer.text and "one of ar" in answer.text
        assert client.put("/api/memory/records/n", json={**NOTE, "language": "xx"}).status_code == 422
        changed = client.patch("/api/memory/records/n", json={"language": "xx"})
        assert changed.status_code == 422 and changed.json()["field"] == "language"
