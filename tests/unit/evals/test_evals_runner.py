"""Which questions are asked, which settings an evaluation takes, and what its report says."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.measuring import Stopwatch
from recall_loop.evals.datasets.dataset_parts import Dataset, DocumentSelection, LabelledQuestion, RecordPool
from recall_loop.evals.replay import eval_report
from recall_loop.evals.runs.dataset_ingest import with_cross_collection_questions
from recall_loop.evals.runs.loop_policy import PolicyResult
from recall_loop.evals.runs.prompts import EvalOptions, prompts_from_dataset, select_questions, settings_with
from recall_loop.evals.runs.runner import ReplayRun
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings


def question(number: int, category: str = "plain", *, gold: tuple[str, ...] = ("m",)) -> LabelledQuestion:
    return LabelledQuestion(id=f"q{number}", collection="c", question="Who?", category=category, gold=gold)


def dataset(*questions: LabelledQuestion) -> Dataset:
    return Dataset("small", DocumentSelection.ALL, {}, list(questions))


def answered(number: int, category: str, recall: float, **more: float) -> ReplayRun:
    asked = question(number, category)
    (prompt,) = prompts_from_dataset(dataset(asked), EvalOptions(unscored=True))
    return ReplayRun(
        policy="new",
        prompt=prompt,
        result=PolicyResult(
            facts=(),
            found_in=(),
            new_facts=(),
            iterations=int(more.get("iterations", 2)),
            executed=4,
            repeated=int(more.get("repeats", 0)),
            stop_reason="covered",
            label="medium",
            score=0.5,
        ),
        facts=1,
        ids=["m"],
        found_in={},
        scores={"recall@5": recall, "mrr": recall},
        gold_found=1,
        relevant=1,
        complete=True,
        latency_ms=more.get("latency_ms", 10.0),
    )


def test_settings_from_pairs() -> None:
    """Values are read as the environment's would be.

    Proves: OPS-4, STOP-4.
    """
    settings = settings_with(["max_iterations=1", " coverage_enough = 0.5 "])
    assert (settings.max_iterations, settings.coverage_enough) == (1, 0.5)
    assert settings_with([]) == Settings.from_env()


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        ("max_iterations", "name=value"),
        ("=3", "name=value"),
        ("max_iterations=0", "max_iterations: got"),
        ("no_such_setting=1", "no_such_setting: got"),
        ("max_facts=5", "the largest K decides it"),
        ("tenant=x", "every collection is a tenant"),
    ],
)
def test_bad_setting_is_named(pair: str, words: str) -> None:
    """Nothing is accepted and ignored.

    Proves: OPS-4, STOP-4.
    """
    with pytest.raises(InvalidInputError, match=words):
        settings_with([pair])


@pytest.mark.parametrize(
    "bad", [{"ks": ()}, {"ks": (0,)}, {"ks": (1001,)}, {"limit": 0}], ids=["none", "zero", "many", "limit"]
)
def test_options_out_of_range(bad: dict[str, object]) -> None:
    """Proves: OPS-4."""
    with pytest.raises(InvalidInputError):
        EvalOptions(**bad)  # type: ignore[arg-type]


def test_cuts_are_sorted_and_unique() -> None:
    """Proves: OPS-4."""
    assert EvalOptions(ks=(20, 5, 5)).ks == (5, 20)


def test_only_scored_questions_are_asked_by_default() -> None:
    """Proves: OPS-4."""
    unscored = question(2, gold=())
    questions = dataset(question(1), unscored, question(3, "other"))
    assert [each.id for each in select_questions(questions, EvalOptions())] == ["q1", "q3"]
    assert [each.id for each in select_questions(questions, EvalOptions(unscored=True))] == ["q1", "q2", "q3"]
    assert [each.id for each in select_questions(questions, EvalOptions(categories=("other",)))] == ["q3"]


def test_unknown_category_and_nothing_to_ask() -> None:
    """Proves: OPS-4."""
    with pytest.raises(InvalidInputError, match=r"categories: got \['odd'\].*plain"):
        select_questions(dataset(question(1)), EvalOptions(categories=("odd",)))
    with pytest.raises(InvalidInputError, match="answerable"):
        select_questions(dataset(question(1, gold=())), EvalOptions())
    with pytest.raises(InvalidInputError, match="questions: got nothing; allowed: a data set with at least one"):
        select_questions(dataset(), EvalOptions())


def test_a_gold_id_that_is_named_twice_counts_once() -> None:
    """Proves: OPS-4."""
    assert question(1, gold=("m", "n", "m")).gold == ("m", "n")


def test_limit_draws_the_same_questions_in_order() -> None:
    """A seeded draw over all questions, not the first ones.

    Proves: OPS-4, LOOP-9.
    """
    questions = dataset(*(question(number) for number in range(100)))
    first = select_questions(questions, EvalOptions(limit=10))
    assert first == select_questions(questions, EvalOptions(limit=10))
    assert first != select_questions(questions, EvalOptions(limit=10, seed=1))
    numbers = [int(each.id[1:]) for each in first]
    assert numbers == sorted(numbers)
    assert numbers != list(range(10))


def test_report_averages_by_category_and_overall() -> None:
    """Overall every question weighs the same, whatever its category.

    Proves: OPS-4.
    """
    answers = [answered(1, "a", 1.0), answered(2, "a", 1.0), answered(3, "b", 0.0, iterations=5, repeats=1)]
    figures = eval_report.build_eval_report(dataset(), EvalOptions(), settings_with(["max_iterations=3"]), answers)
    assert figures["categories"]["a"] == {"questions": 2, "recall@5": 1.0, "mrr": 1.0}
    assert figures["overall"]["recall@5"] == pytest.approx(2 / 3)
    assert figures["mean_iterations"] == 3.0
    assert figures["repeated_query_share"] == pytest.approx(1 / 12)
    assert figures["stop_reasons"] == {"covered": 3}
    assert figures["settings"] == {"max_iterations": 3}


def test_report_shows_how_unanswerable_questions_are_ranked() -> None:
    """Proves: OPS-4, CONF-4 (questions of another collection don't count)."""
    told = [
        replace(
            answer,
            prompt=replace(answer.prompt, category=category, answerable=answerable),
            result=replace(answer.result, answerable=chance),
        )
        for answer, (category, answerable, chance) in zip(
            [answered(at, "a", 1.0) for at in range(3)],
            [("a", True, 0.9), ("a", False, 0.3), ("foreign", False, 0.95)],
            strict=True,
        )
    ]
    figures = eval_report.build_eval_report(dataset(), EvalOptions(), Settings(), told)
    assert figures["answerable_auroc"] == {"score": 0.5, "answerable": 1.0}
    assert figures["foreign"] == 1
    assert eval_report.build_eval_report(dataset(), EvalOptions(), Settings(), [])["answerable_auroc"]["score"] is None


def test_foreign_questions_are_asked_of_another_collection() -> None:
    """Proves: CONF-4 (unanswerable there, the same each time, and only of those that can be scored)."""
    mine = [
        LabelledQuestion(id=f"{c}{n}", collection=c, question=f"{c}{n}?", gold=("m",)) for c in "ab" for n in range(5)
    ]
    mine.append(LabelledQuestion(id="b9", collection="b", question="b9?", answerable=False))
    both = Dataset("two", DocumentSelection.ALL, dict.fromkeys("ab", RecordPool(0, lambda: iter(()))), mine)
    added = with_cross_collection_questions(both, 3).questions[len(mine) :]
    assert [question.collection for question in added] == ["a"] * 3 + ["b"] * 3
    assert all(q.category == "foreign" and not q.answerable and not q.scored for q in added)
    assert all(question.question.startswith("b" if question.collection == "a" else "a") for question in added)
    assert "b9?" not in [question.question for question in added]
    assert (
        with_cross_collection_questions(both, 3)
        == with_cross_collection_questions(both, 3)
        != with_cross_collection_questions(both, 3, seed=4)
    )
    assert len(with_cross_collection_questions(both, 50).questions) == len(mine) + 10
    chosen = EvalOptions(categories=("uncategorised",), unscored=True)
    assert len(select_questions(with_cross_collection_questions(both, 3), chosen)) == len(mine) + 6
    with pytest.raises(InvalidInputError, match="two collections"):
        with_cross_collection_questions(dataset(question(1)), 3)


def test_report_is_json_even_with_nothing_asked() -> None:
    """Figures over nothing are null, which JSON has, and not NaN, which it hasn't.

    Proves: OPS-4.
    """
    figures = eval_report.build_eval_report(dataset(), EvalOptions(), Settings(), [])
    assert json.loads(json.dumps(figures, allow_nan=False))["latency_ms"] == {"p50": None, "p95": None}


def test_report_keeps_keys_to_itself() -> None:
    """Proves: OPS-4, OPS-7."""
    settings = Settings(openai_api_key="sk-very-secret", llm_api_key="sk-secret", chroma_api_key="secret")
    figures = eval_report.build_eval_report(dataset(), EvalOptions(), settings, [])
    assert "secret" not in json.dumps(figures)


def test_table_is_plain_where_there_is_no_terminal(tmp_path: Path) -> None:
    """No colour codes, rows in one piece.

    Proves: OPS-4.
    """
    target = tmp_path / "table.txt"
    with target.open("w", encoding="utf-8") as file:
        figures = eval_report.build_eval_report(dataset(), EvalOptions(), Settings(), [answered(1, "kind", 0.25)])
        eval_report.show(figures, Console(file=file, width=120))
    text = target.read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert any(line.split() == ["overall", "1", "0.250", "0.250"] for line in text.splitlines())
    assert "covered 1" in text


def test_lines_per_question_hold_what_was_found() -> None:
    """Proves: OPS-4."""
    line = json.loads(json.dumps(eval_report.question_line(answered(1, "kind", 0.5))))
    assert (line["id"], line["category"], line["gold"], line["ids"]) == ("q1", "kind", ["m"], ["m"])
    assert (line["question"], line["scores"]["mrr"], line["stop_reason"]) == ("Who?", 0.5, "covered")


def test_clock_counts_nested_calls_once() -> None:
    """Proves: OPS-3."""
    clock = Stopwatch()
    inner = clock.timed("inner", lambda: time.sleep(0.01))
    outer = clock.timed("outer", lambda: (inner(), inner()))
    outer()
    inner()
    assert clock.calls == {"outer": 1, "inner": 1}
    assert clock.seconds["outer"] >= 0.02
    assert clock.total == pytest.approx(clock.seconds["outer"] + clock.seconds["inner"])
    clock.reset()
    assert clock.total == 0.0


def test_clock_hands_errors_on_and_keeps_counting() -> None:
    """Proves: OPS-3."""
    clock = Stopwatch()
    with pytest.raises(ZeroDivisionError):
        clock.timed("bad", lambda: 1 // 0)()
    clock.timed("good", lambda: None)()
    assert clock.calls == {"bad": 1, "good": 1}
