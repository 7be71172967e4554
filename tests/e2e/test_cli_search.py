"""`recall-loop search` over a real store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recall_loop.cli.main import build_parser, main
from recall_loop.state.search import MAX_RERANK_POOL, MAX_RESULTS, SearchParams
from recall_loop.state.types import SearchMode

LONG = "The quick brown fox jumps over the lazy dog. " * 12
TOLD = f"{LONG}The ferry to Ulvey sails. {LONG}"
RECORDS: list[dict[str, Any]] = [
    {"id": "f1", "kind": "fact", "text": "The ferry to Ulvey leaves at nine.", "subject": "ferry", "fact_type": "time"},
    {
        "id": "m1",
        "kind": "message",
        "text": "I took the ferry to Ulvey.",
        "author": "Ada",
        "role": "user",
        "agent_id": "a1",
        "user_id": "u1",
        "conversation_id": "c1",
        "session": "s1",
        "created_at": "2024-05-30T10:00:00Z",
    },
    {"id": "m2", "kind": "message", "text": "ferry: late", "role": "tool", "created_at": "2024-04-01T10:00:00Z"},
    {
        "id": "t1",
        "kind": "trajectory",
        "text": "Task: book the ferry. It worked.",
        "attributes": {
            "execution": {"status": "completed"},
            "outcome_score": 0.8,
            "metadata": {"tools_used": ["timetable"]},
            "task_category": "travel",
            "complexity_level": "simple",
        },
    },
    {
        "id": "t2",
        "kind": "trajectory",
        "text": "Task: book the ferry. It failed.",
        "attributes": {"execution": {"status": "failed"}, "outcome_score": 0.0},
    },
    {"id": "n1", "kind": "archival", "text": "Bakery \x1b[31mhours.", "label": "Bakery", "tags": ["food", "town"]},
    *({"id": f"l{at}", "kind": "archival", "text": f"{TOLD} Number {at}."} for at in range(7)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("search")
    path = place / "in.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS), encoding="utf-8")
    assert main(["ingest", str(path), "--store", str(place / "s"), "--tenant", "acme"]) == 0
    return place / "s"


@pytest.fixture(autouse=True)
def place(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("RECALL_LOOP_STORE_PATH", str(folder))
    monkeypatch.setenv("RECALL_LOOP_TENANT", "acme")
    capsys.readouterr()


def ask(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["search", *options, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def ids(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    return [hit["id"] for hit in ask(capsys, *options)["hits"]]


def test_a_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: SEARCH-6, SEARCH-8."""
    assert main(["search", "ferry to Ulvey", "--types", "fact,message"]) == 0
    text = capsys.readouterr().out
    for part in ("score", "similar", "fact f1", "message m1", "Ada", "2024-05-30 10:00", "leaves at nine"):
        assert part in text
    assert "3 results out of 3 records" in text
    assert main(["search", "ferry", "--debug", "--mode", "fts"]) == 0
    assert "bm25 #1" in capsys.readouterr().out
    assert main(["search", "bakery hours"]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_json_has_every_field_and_where_was_looked(capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: SEARCH-6."""
    found = ask(capsys, "ferry to Ulvey", "--types", "message", "--role", "user", "--debug")
    (hit,) = found["hits"]
    assert {"id", "content_type", "content", "truncated", "similarity", "score", "label", "agent_id"} <= set(hit)
    assert {"agent_name", "role", "created_at", "updated_at", "debug"} <= set(hit)
    assert (hit["id"], hit["content_type"], hit["role"], hit["agent_id"]) == ("m1", "message", "user", "a1")
    assert hit["content"] == "I took the ferry to Ulvey."
    assert found["scope"]["tenant"] == "acme"
    assert found["filters"] == {"role": "user"}
    assert (found["allowed"], found["degraded"], found["content_types"]) == (1, False, ["message"])
    assert found["legs"] == ["fts", "vector"]
    assert found["generation"]


def test_every_option_reaches_the_search(capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: SEARCH-1, SEARCH-3, SEARCH-4, SEARCH-7, TRAJ-8."""
    messages = ("ferry", "--types", "message")
    assert set(ids(capsys, *messages)) == {"m1", "m2"}
    for options in (
        ("--agent", "a1"),
        ("--agent", "a1", "--scope", "constellation"),
        ("--user", "u1"),
        ("--conversation", "c1"),
        ("--agent-id", "a1", "--agent-id", "a2"),
        ("--role", "user"),
        ("--start-time", "2024-05-01T00:00:00Z"),
        ("--session", "s1"),
    ):
        assert ids(capsys, *messages, *options) == ["m1"], options
    assert ids(capsys, *messages, "--end-time", "2024-05-01T00:00:00Z") == ["m2"]
    assert ids(capsys, "ferry", "--fact-type", "time") == ["f1"]
    assert ids(capsys, "bakery", "--label", "Bakery") == ["n1"]
    assert ids(capsys, "bakery", "--tag", "food", "--tag", "town") == ["n1"]
    assert ids(capsys, "ferry", "--min-similarity", "1") == []
    assert ids(capsys, "ferry", "--execution-status", "failed") == ["t2"]
    assert ids(capsys, "ferry", "--min-outcome-score", "0.5") == ["t1"]
    assert ids(capsys, "ferry", "--max-outcome-score", "0") == ["t2"]
    assert ids(capsys, "ferry", "--filter", "scored=true", "--min-outcome-score", "0.5") == ["t1"]
    assert ids(capsys, "bakery", "--filter", "tags=food", "--tag", "town") == ["n1"]
    assert ids(capsys, "ferry", "--tenant", "other") == []
    assert ids(capsys, *messages, "--order-by", "created_at") == ["m1", "m2"]
    assert len(ids(capsys, "ferry", "--limit", "1")) == 3
    assert len(ids(capsys, "ferry", "--limit", "1", "--no-limit-per-type")) == 1
    assert ask(capsys, "ferry", "--mode", "fts")["legs"] == ["fts"]
    assert ask(capsys, "ferry", "--mode", "vector")["legs"] == ["vector"]
    assert ids(capsys, "fery", "--mode", "fts") == []
    assert "f1" in ids(capsys, "fery", "--mode", "fts", "--fuzzy", "1")
    for rerank in (
        ("--rerank", "--rerank-budget-ms", "60000"),
        ("--no-rerank",),
        ("--no-rerank-learned",),
        ("--rerank-pool", "100"),
    ):
        assert "f1" in ids(capsys, "ferry to Ulvey", *rerank)
    tool = ("ferry", "--types", "message", "--role", "tool")
    weighed, unweighed = ask(capsys, *tool), ask(capsys, *tool, "--no-content-scoring")
    assert weighed["hits"][0]["similarity"] < unweighed["hits"][0]["similarity"]


def test_a_filter_of_trajectories_alone_searches_trajectories(capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: SEARCH-3, TRAJ-8."""
    for condition in ("tools_used=timetable", "task_category=travel", "complexity_level=simple", "scored=true"):
        response = ask(capsys, "ferry", "--filter", condition)
        assert response["content_types"] == ["trajectory"], condition
        runs = {"t1", "t2"} if condition == "scored=true" else {"t1"}
        assert {hit["id"] for hit in response["hits"]} == runs, condition
    assert ids(capsys, "ferry", "--filter", "tools_used=timetable", "--types", "fact") == []


def test_attributes_are_filtered_by_value_and_by_operator(capsys: pytest.CaptureFixture[str]) -> None:
    """The value is JSON, else text; conditions add up. Proves: API-4, SEARCH-3."""

    def kept(*conditions: str) -> set[str]:
        options = [part for condition in conditions for part in ("--filter", f"attributes.{condition}")]
        return set(ids(capsys, "ferry", "--types", "fact,message,trajectory", *options))

    everything = kept("lost!=1")
    assert everything == {"f1", "m1", "m2", "t1", "t2"}
    assert kept("task_category=travel") == kept('task_category="travel"') == {"t1"}
    assert kept("outcome_score>=0.8") == kept("outcome_score>0", "outcome_score<=0.8") == {"t1"}
    assert kept("outcome_score<0.8") == kept("execution.status=failed") == {"t2"}
    assert kept("outcome_score!=0") == everything - {"t2"}
    assert kept('task_category={"in": ["travel", "home"]}') == kept('task_category={"exists": true}') == {"t1"}
    assert kept('outcome_score="0.8"') == kept("outcome_score=true") == set()
    joined = ('attributes={"outcome_score": {"gt": 0}}', "attributes.task_category=travel")
    assert ids(capsys, "ferry", "--types", "trajectory", "--filter", joined[0], "--filter", joined[1]) == ["t1"]


def test_an_export_takes_the_filters_of_searches(capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: API-4, STORE-2."""
    assert main(["store", "export", "--filter", "attributes.outcome_score>=0", "--filter", "scored=true"]) == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ["t1", "t2"]
    for wrong in ("attributes.outcome_score", "min_similarity=0.5", "colour=red"):
        assert main(["store", "export", "--filter", wrong]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)


def test_the_help_states_the_defaults_and_bounds_of_the_library() -> None:
    """Proves: OPS-2."""
    options = {action.dest: action for action in build_parser(["search"]).leaf_parsers()[0]._actions}
    for name in ("mode", "fuzzy", "order_by", "rerank_pool", "rerank_budget_ms"):
        default = SearchParams.model_fields[name].default
        assert str(options[name].help).endswith(f"(default: {default if isinstance(default, str) else f'{default:g}'})")
    assert set(options["mode"].choices or ()) == set(SearchMode)
    for option, most in (("--rerank-pool", MAX_RERANK_POOL), ("--limit", MAX_RESULTS)):
        assert main(["search", "ferry", "--types", "fact", option, str(most)]) == 0
        assert main(["search", "ferry", option, str(most + 1)]) == 2


def test_a_time_at_the_end_of_the_query(capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: SEARCH-10."""
    now = ("--types", "message", "--reference-time", "2024-06-01T10:00:00Z")
    assert ids(capsys, "ferry < 3 days", *now) == ["m1"]
    assert ids(capsys, "ferry > 2 weeks", *now) == ["m2"]
    assert ids(capsys, "ferry 1-3 months", *now) == ["m2"]
    assert ids(capsys, "ferry 2 days ago", *now) == ["m1"]
    assert set(ids(capsys, '"ferry < 3 days"', *now)) == {"m1", "m2"}
    assert set(ids(capsys, "ferry < 3 days", *now, "--no-time-suffixes")) == {"m1", "m2"}
    found = ask(capsys, "< 1 year", *now)
    assert [hit["id"] for hit in found["hits"]] == ["m1", "m2"]
    assert found["time_range"][0] == "2023-06-01T10:00:00+00:00"
    assert set(ids(capsys, "ferry < 3 days", *now, "--start-time", "2024-03-01T00:00:00Z")) == {"m1", "m2"}


def test_later_results_are_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: SEARCH-8."""
    asked = ("ferry to Ulvey", "--types", "archival", "--label", "none")
    assert ids(capsys, *asked) == []
    asked = ("ferry to Ulvey number", "--types", "archival", "--min-similarity", "0.3")
    hits = ask(capsys, *asked)["hits"]
    assert [hit["truncated"] for hit in hits[:7]] == [False, False, True, True, True, True, True]
    assert all(len(hit["content"]) <= 1000 for hit in hits[2:5])
    assert all(len(hit["content"]) <= 400 for hit in hits[5:])
    assert all("…" in hit["content"] for hit in hits[2:])
    assert not any(hit["truncated"] for hit in ask(capsys, *asked, "--full")["hits"])
    short = ask(capsys, *asked, "--profile", "60")["hits"]
    assert all(len(hit["content"]) <= 60 and "Ulvey" in hit["content"] for hit in short)
    assert ask(capsys, *asked, "--scope", "local", "--profile", "constellation")["profile"] == "constellation"
    assert ask(capsys, "ferry", "--types", "message")["profile"] == "messages"


def test_nothing_found_says_where_was_looked(capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: SEARCH-6."""
    assert main(["search", "zeppelin", "--mode", "fts", "--types", "fact"]) == 0
    text = capsys.readouterr().out
    assert "Nothing found among 1 record." in text
    assert "tenant acme" in text and "retrievers fts" in text
    assert main(["search", "ferry", "--conversation", "c9", "--role", "user"]) == 0
    text = capsys.readouterr().out
    assert "Nothing to search" in text
    assert "conversation_id c9" in text and "role user" in text


@pytest.mark.parametrize(
    "options",
    [
        ("",),
        ("  ",),
        ("ferry", "--types", "facts"),
        ("ferry", "--scope", "constellation"),
        ("ferry", "--role", "robot"),
        ("ferry", "--start-time", "yesterday"),
        ("ferry", "--start-time", "2024-05-02", "--end-time", "2024-05-01"),
        ("ferry", "--min-similarity", "2"),
        ("ferry", "--execution-status", "success"),
        ("ferry", "--min-outcome-score", "0.6", "--max-outcome-score", "0.5"),
        ("ferry", "--filter", "tools_used"),
        ("ferry", "--filter", "colour=red"),
        ("ferry", "--filter", "role=user", "--role", "user"),
        ("ferry", "--filter", "attributes.team"),
        ("ferry", "--filter", "attributes.=1"),
        ("ferry", "--filter", "attributes.a..b=1"),
        ("ferry", "--filter", "attributes.team=[1]"),
        ("ferry", "--filter", "attributes.team>true"),
        ("ferry", "--filter", "attributes.team=NaN"),
        ("ferry", "--filter", "attributes.team>1", "--filter", "attributes.team>2"),
        ("ferry", "--filter", 'attributes.team={"like": "x"}'),
        ("ferry", "--filter", "attributes=red"),
        ("ferry", "--limit", "0"),
        ("ferry", "--rerank-pool", "101"),
        ("ferry", "--fuzzy", "3"),
        ("ferry", "--fuzzy", "1", "--mode", "vector"),
        ("ferry", "--rerank-budget-ms", "-1"),
        ("ferry", "--rerank-budget-ms", "nan"),
        ("ferry", "--mode", "best"),
        ("ferry", "--profile", "some"),
        ("ferry", "--profile", "local", "--full"),
        ("ferry", "--reference-time", "now"),
        ("ferry", "--store", "nowhere"),
    ],
)
def test_bad_input_is_one_line(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: SEARCH-2, SEARCH-3."""
    assert main(["search", *options]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("recall-loop: error: ")
