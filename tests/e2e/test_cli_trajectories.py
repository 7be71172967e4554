"""`recall-loop trajectories`: convert, add, score, search, show, migrate, stats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from recall_loop.cli.main import main

SECRET = "hunter-22"
BREAD = {
    "id": "bread",
    "task": "Bake a sourdough loaf",
    "stop_reason": "end_turn",
    "messages": [
        {"role": "user", "content": "Bake a sourdough loaf, please."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"function": {"name": "light_oven", "arguments": json.dumps({"degrees": 230, "password": SECRET})}}
            ],
        },
        {"role": "tool", "name": "light_oven", "content": f"lit with {SECRET}"},
        {"role": "assistant", "content": "The loaf is in the oven."},
    ],
}
FERRY = {
    "id": "ferry",
    "error": "TimeoutError: no answer",
    "messages": [{"role": "user", "content": "Book the ferry to the island."}, {"role": "assistant", "content": "…"}],
    "status": "success",
    "reward": 1.0,
}


@pytest.fixture
def place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    place = str(tmp_path / "s")
    path = write(tmp_path / "runs.jsonl", [BREAD, FERRY])
    assert main(["trajectories", "add", str(path), "--store", place, "--agent", "cook", "--tag", "kitchen"]) == 0
    assert capsys.readouterr().out == "2 created, 0 replaced, 0 unchanged, 0 rejected\n"
    return place


def write(path: Path, lines: list[Any]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return path


def out(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["trajectories", *argv]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("action", ["convert", "add", "score", "search", "show", "migrate", "stats"])
def test_each_action_shows_an_example(action: str, capsys: pytest.CaptureFixture[str]) -> None:
    with_help = main(["trajectories", action, "--help"])
    assert with_help == 0
    assert f"recall-loop trajectories {action}" in capsys.readouterr().out


def test_convert_gives_records_that_ingest_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: TRAJ-1, STORE-2."""
    path, target = write(tmp_path / "runs.jsonl", [BREAD, FERRY]), tmp_path / "records.jsonl"
    assert main(["trajectories", "convert", str(path), "-o", str(target)]) == 0
    assert capsys.readouterr().err == "2 runs converted\n"
    assert SECRET not in target.read_text(encoding="utf-8")
    assert main(["ingest", str(target), "--store", str(tmp_path / "s")]) == 0
    assert "2 created" in capsys.readouterr().out
    assert main(["trajectories", "convert", str(path)]) == 0
    assert capsys.readouterr().out == target.read_text(encoding="utf-8")
    assert main(["trajectories", "convert", str(path), "-o", str(target)]) == 2
    assert main(["trajectories", "convert", str(path), "--mask", "("]) == 2
    assert "regular expression" in capsys.readouterr().err


def test_bad_lines_are_reported_and_the_rest_goes_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: TRAJ-1."""
    path = write(tmp_path / "runs.jsonl", [BREAD, {"id": "x"}, 7])
    assert main(["trajectories", "add", str(path), "--store", str(tmp_path / "s")]) == 1
    captured = capsys.readouterr()
    assert captured.out == "1 created, 0 replaced, 0 unchanged, 2 rejected\n"
    assert "runs.jsonl:2: rejected: messages: got None" in captured.err
    assert "runs.jsonl:3: rejected: not a JSON object" in captured.err


def test_a_second_line_of_the_same_id_wins_with_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where both aren't stored at once. Proves: TRAJ-1."""
    between = [{**FERRY, "id": f"f{number}"} for number in range(200)]
    path = write(tmp_path / "runs.jsonl", [BREAD, FERRY, {**BREAD, "model": "later"}, *between, FERRY])
    place = str(tmp_path / "s")
    assert main(["trajectories", "add", str(path), "--store", place, "--score", "later"]) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert warned == [
        f"{path}:3: warning: id 'bread' is also on line 1; the later line wins",
        f"{path}:204: warning: id {FERRY['id']!r} is also on line 2; the later line wins",
    ]
    assert json.loads(out(capsys, "show", "bread", "--json", "--store", place))["metadata"]["models"] == ["later"]


def test_adding_again_changes_nothing(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STORE-2, TRAJ-2."""
    argv = ["add", str(tmp_path / "runs.jsonl"), "--store", place, "--agent", "cook"]
    assert out(capsys, *argv) == "0 created, 0 replaced, 2 unchanged, 0 rejected\n"
    scored = json.loads(out(capsys, "show", "bread", "--json", "--store", place))["outcome_score"]
    write(tmp_path / "runs.jsonl", [{**BREAD, "user_id": "u2"}])
    assert out(capsys, *argv) == "0 created, 1 replaced, 0 unchanged, 0 rejected\n"
    assert json.loads(out(capsys, "show", "bread", "--json", "--store", place))["outcome_score"] == scored
    write(tmp_path / "runs.jsonl", [{**BREAD, "stop_reason": "max_tokens"}])
    assert out(capsys, *argv) == "0 created, 1 replaced, 0 unchanged, 0 rejected\n"


def test_show_prints_a_run_as_a_person_reads_it(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: TRAJ-1, TRAJ-3."""
    text = out(capsys, "show", "bread", "--store", place)
    assert text.startswith("Bake a sourdough loaf\nbread · agent cook · 2 steps, 4 messages · tools: light_oven")
    assert "Execution: ✅ Completed\n" in text
    assert "Learning value: ⭐" in text
    assert "(by rules-2)" in text
    assert "It says nothing about the quality of the result" in text
    assert "   user: Bake a sourdough loaf, please.\n" in text
    assert '   agent calls light_oven(degrees=230, password="[masked]")\n' in text
    assert "   tool light_oven: lit with [masked]\n" in text
    assert SECRET not in text
    whole = json.loads(out(capsys, "show", "bread", "--json", "--store", place))
    assert (whole["id"], whole["execution"]["status"], len(whole["turns"])) == ("bread", "completed", 2)


def test_show_names_an_id_that_is_not_there(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: STORE-3."""
    for argv in (["nope"], ["bread", "--tenant", "other"]):
        assert main(["trajectories", "show", *argv, "--store", place]) == 2
        assert "ID: got" in capsys.readouterr().err


def test_status_comes_from_the_run_and_never_from_its_reward(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: TRAJ-1, TRAJ-2, TRAJ-3."""
    text = out(capsys, "show", "ferry", "--store", place)
    assert "Execution: ⚠ Error\n" in text
    assert "Error: TimeoutError: no answer\n" in text
    tally = json.loads(out(capsys, "stats", "--json", "--store", place))
    assert (tally["runs"], tally["execution"], tally["pending"]) == (2, {"completed": 1, "error": 1}, 0)
    table = out(capsys, "stats", "--store", place)
    assert table.startswith("2 runs\n")
    assert "✅ Completed" in table
    assert "(learning value)" in table


def test_search_finds_runs_with_and_without_contrasts(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: TRAJ-5, TRAJ-6, TRAJ-8."""
    text = out(capsys, "search", "bread baking", "--store", place)
    assert "bread · similarity" in text
    assert "    Execution: ✅ Completed\n    Learning value: ⭐" in text
    found = json.loads(out(capsys, "search", "sourdough", "--contrasts", "--json", "--store", place))
    items = [item for value in found.values() if isinstance(value, list) for item in value]
    assert "bread" in [item["id"] for item in items]
    assert "ferry" not in out(capsys, "search", "ferry", "--execution-status", "completed", "--store", place)
    assert "ferry ·" not in out(capsys, "search", "ferry", "--tenant", "other", "--store", place)
    assert "bread ·" in out(capsys, "search", "oven", "--tool", "light_oven", "--agent", "cook", "--store", place)
    for condition, kept in (("scored=true", True), ("scored=false", False)):
        text = out(capsys, "search", "oven", "--filter", condition, "--store", place)
        assert ("bread ·" in text) is kept, condition


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--success-threshold", "0.2"], "threshold"),
        (["--min-score", "2"], "score"),
        (["--execution-status", "splendid"], "--execution-status: got"),
        (["--scope", "constellation"], "--agent: got nothing"),
        (["--complexity", "hard"], "--complexity: got"),
        (["--limit", "1001"], "1 to 1000"),
        (["--filter", "colour=red"], "colour"),
    ],
)
def test_search_names_an_option_that_is_not_allowed(
    place: str, options: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: TRAJ-5, TRAJ-8."""
    assert main(["trajectories", "search", "x", "--contrasts", *options, "--store", place]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line


def test_postponed_runs_are_queued_and_scored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: TRAJ-2."""
    path, place = write(tmp_path / "runs.jsonl", [BREAD]), str(tmp_path / "s")
    text = out(capsys, "add", str(path), "--store", place, "--score", "later")
    assert text.endswith("1 run not scored yet: `recall-loop trajectories score --pending`\n")
    assert "waiting to be scored" in out(capsys, "show", "bread", "--store", place)
    assert out(capsys, "score", "--pending", "--store", place) == "1 run scored, 0 failed and queued\n"
    assert out(capsys, "score", "--pending", "--store", place) == "0 runs scored, 0 failed and queued\n"
    assert "(by rules-2)" in out(capsys, "show", "bread", "--store", place)
    assert main(["trajectories", "score", "--by", "llm", "--store", place]) == 2
    assert "RECALL_LOOP_LLM_MODEL" in capsys.readouterr().err


def test_a_run_that_is_named_is_scored_again(place: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where it has a score; of a name that isn't there none is scored. Proves: TRAJ-2."""
    before = json.loads(out(capsys, "show", "bread", "--json", "--store", place))["scoring"]
    assert out(capsys, "score", "bread", "bread", "--store", place) == "1 run scored, 0 failed\n"
    after = json.loads(out(capsys, "show", "bread", "--json", "--store", place))["scoring"]
    assert after["scored_at"] > before["scored_at"] and after["scorer"] == before["scorer"]
    for wrong, word in ((["bread", "cake"], "cake"), (["bread", "--pending"], "--pending")):
        assert main(["trajectories", "score", *wrong, "--store", place]) == 2
        assert word in capsys.readouterr().err
    assert json.loads(out(capsys, "show", "bread", "--json", "--store", place))["scoring"] == after


def test_migrate_prints_counts_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: TRAJ-4."""
    place = str(tmp_path / "s")
    old = {"id": "o", "kind": "trajectory", "text": "an old run", "attributes": {"outcome": {"type": "failure"}}}
    path = write(tmp_path / "old.jsonl", [old])
    for tenant in ("acme", "other"):
        assert main(["ingest", str(path), "--store", place, "--tenant", tenant]) == 0
    capsys.readouterr()
    with pytest.warns(DeprecationWarning, match="migrate"):
        assert "1 old record: `recall-loop trajectories migrate`" in out(
            capsys, "stats", "--store", place, "--tenant", "acme"
        )
    text = out(capsys, "migrate", "--store", place, "--dry-run", "--tenant", "acme")
    assert text == (
        "tenant acme: 1 old record would be migrated\n"
        "  before: 1 past run, 1 of them old (old outcome type: failure 1)\n"
        "  after:  1 past run, 1 of them old (execution: failed 1)\n"
    )
    reports = json.loads(out(capsys, "migrate", "--store", place, "--json"))
    assert [(report["tenant"], report["migrated"], report["after"]["old"]) for report in reports] == [
        ("acme", 1, 0),
        ("other", 1, 0),
    ]
    assert "0 old records migrated" in out(capsys, "migrate", "--store", place)
    assert "Execution: ❌ Failed" in out(capsys, "show", "o", "--tenant", "acme", "--store", place)
