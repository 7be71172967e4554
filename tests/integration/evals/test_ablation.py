"""Ablations on a small world: leaving out an ingredient changes a run, and all are measured on the same questions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recall_loop.cli.main import main
from recall_loop.evals.ablation import ablation, ingredients
from recall_loop.evals.ablation import ablation as ablation_report
from recall_loop.evals.ablation.ablation import AblationPlan, ablate, ingredients_with_loss, ingredients_without_gain
from recall_loop.evals.ablation.ingredients import IngredientUsage
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.runs.dataset_ingest import with_query_cache
from recall_loop.evals.runs.loop_policy import LoopPolicy
from recall_loop.evals.runs.prompts import EvalOptions, ReplayPrompt
from recall_loop.memory.search.scoring.fusion import Fusion
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.embed.embedders import Embedder, TokenEmbedder
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.run_context import DEFAULT_RETRIEVAL_PARTS, RetrievalParts
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.run.events import ProgressEvent
from recall_loop.state.settings.settings import Settings
from tests.integration.evals import ablation_world
from tests.unit.evals.public_formats import write_dataset

Trace = tuple[list[str], list[tuple[str, float]]]
NAMES = [each.name for each in ingredients.ingredients()]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Everything left out in turn, on two histories of one question each."""
    folder = tmp_path_factory.mktemp("ablation")
    talk = json.loads(write_dataset("locomo", folder).read_text(encoding="utf-8"))
    talk[0]["qa"] += [
        {"question": "What did Ines sell to whom?", "evidence": ["D1:1"], "category": 4},
        {"question": "What is on the beach in Tom's picture?", "evidence": ["D1:2"], "category": 4},
    ]
    (folder / "locomo.json").write_text(json.dumps(talk), encoding="utf-8")
    dataset, options = load_dataset(folder), EvalOptions(ks=(1, 10))
    plan = AblationPlan(resamples=100, stores=folder / "stores")
    found = ablate(dataset, options, plan, Settings())
    return ablation_report.build([found], options, plan.resamples) | {"stores": folder / "stores"}


def test_every_ingredient_is_measured(report: dict[str, Any]) -> None:
    """One row for each, quality and cost, over all scored questions.

    Proves: OPS-4, RANK-3, PIECES-2.
    """
    (found,) = report["sets"]
    assert list(found["worth"]) == NAMES
    assert set(report["ingredients"]) == set(found["worth"])
    for worth in found["worth"].values():
        assert worth["questions"] == 3
        assert set(worth) == {"questions", *ablation.MEASURES}
        assert all(worth[each]["low"] <= worth[each]["worth"] <= worth[each]["high"] for each in ablation.MEASURES)
    assert found["worth"]["iterations"]["iterations"]["worth"] >= 0.0
    assert found["worth"]["fan-out"]["queries_executed"]["worth"] > 0.0


def test_kept_stores_hold_the_data_set_alone(report: dict[str, Any]) -> None:
    """The store without windows is one of its own.

    Proves: OPS-4.
    """
    from recall_loop.evals.runs.dataset_ingest import open_eval_store
    from recall_loop.state.scope import Scope

    windows, vectors = {}, {}
    for suffix in ("", "-without-context-indexing", "-without-talk-weights"):
        settings = Settings(embedder="minilm-plain" if suffix.endswith("talk-weights") else "minilm")
        with open_eval_store(report["stores"] / f"{report['sets'][0]['set']}-messages{suffix}", settings) as store:
            view = store.view(Scope(tenant="talk-1"))
            assert store.count(Scope(tenant="talk-1")) == 2
            windows[suffix] = sorted(row.window.count("\n") for row in view.rows(view.rowids().tolist()).values())
            with store._session.database.reading() as connection:
                vectors[suffix] = {own for (own,) in connection.execute("SELECT own FROM vectors")}
    assert windows == {"": [1, 1], "-without-context-indexing": [0, 0], "-without-talk-weights": [1, 1]}
    assert vectors[""] == vectors["-without-context-indexing"] and not vectors[""] & vectors["-without-talk-weights"]


@pytest.fixture(scope="module")
def whole(embedder: MiniLmEmbedder) -> Iterator[tuple[MemoryStore, dict[str | None, Trace]]]:
    """The small world's store, and what everything together does with each of its questions."""
    with _world(with_query_cache(embedder)) as store:
        policy = TracedPolicy(ablation_world.SETTINGS)
        yield store, {prompt.request.id: policy.trace(prompt, store) for prompt in ablation_world.prompts()}


def _world(embedder: Embedder, *, context_windows: bool = True) -> MemoryStore:
    store = MemoryStore.in_memory(embedder=embedder)
    store.writer.context_windows = context_windows
    outcomes = store.upsert(ablation_world.records(), tenant=ablation_world.TENANT)
    assert {outcome.status for outcome in outcomes} == {"created"}
    return store


class TracedPolicy:
    """The loop, told by what it asks and what it answers."""

    def __init__(self, settings: Settings, parts: RetrievalParts = DEFAULT_RETRIEVAL_PARTS) -> None:
        self._queries: list[str] = []
        self._policy = LoopPolicy(settings, "traced", self._note, parts)

    def _note(self, event: ProgressEvent) -> None:
        if event["type"] == "queries_planned":
            self._queries += [f"{event['strategy']}: {query['text']}" for query in event["queries"]]

    def trace(self, prompt: ReplayPrompt, store: MemoryStore) -> Trace:
        """Return the queries of one run, and the ids and scores of its facts."""
        self._queries.clear()
        facts = self._policy.run(prompt.request, store).facts
        return list(self._queries), [(fact.id, fact.score) for fact in facts]


@pytest.mark.parametrize("ingredient", ingredients.ingredients(), ids=NAMES)
def test_a_run_without_an_ingredient_is_another_run(
    ingredient: ingredients.Ingredient, whole: tuple[MemoryStore, dict[str | None, Trace]]
) -> None:
    """On some question of the small world it asks other queries, or finds other facts or scores.

    Proves: OPS-4.
    """
    store, traces = whole
    settings = ablation_world.SETTINGS.model_copy(update=dict(ingredient.settings))
    Settings.model_validate(settings.model_dump())
    if ingredient.at_ingest:
        embedder = with_query_cache(make_embedder(settings))
        store = _world(embedder, context_windows=ingredient.context_windows)
    policy = TracedPolicy(settings, ingredient.parts)
    prompts = ablation_world.prompts()
    assert any(policy.trace(prompt, store) != traces[prompt.request.id] for prompt in prompts)


def test_a_run_with_everything_is_the_same_each_time(whole: tuple[MemoryStore, dict[str | None, Trace]]) -> None:
    """Or a difference would prove nothing.

    Proves: OPS-4.
    """
    store, traces = whole
    policy = TracedPolicy(ablation_world.SETTINGS)
    for prompt in ablation_world.prompts():
        assert policy.trace(prompt, store) == traces[prompt.request.id]


def test_left_out_parts_are_left_out() -> None:
    """A strategy out of the order, a signal out of the sum, ranks in place of scores.

    Proves: OPS-4.
    """
    signals = {"bm25": np.array([9.0, 1.0, 0.0]), "word_share": np.array([0.0, 0.0, 1.0])}
    rest = np.zeros(3), np.array([-1, -1, -1]), np.array([0])
    without = Fusion(ignored=frozenset({"word_share"}))
    assert without.fuse(signals, *rest).tolist() == Fusion().fuse({"bm25": signals["bm25"]}, *rest).tolist()
    ranked = Fusion(combine=ingredients.sum_of_reciprocal_ranks)
    by_rank = ranked.fuse({"bm25": signals["bm25"]}, *rest)
    assert by_rank[0] > by_rank[1] > by_rank[2]
    far = ranked.fuse({"bm25": np.array([900.0, 1.0, 0.0])}, *rest)
    assert far.tolist() == by_rank.tolist()


def test_what_a_run_made_use_of() -> None:
    """Proves: OPS-4."""
    use = IngredientUsage()
    query = {"text": "x", "source": "feedback", "seed": "k"}
    event = {"type": "queries_planned", "strategy": "people", "iteration": 2, "origin": "refine", "queries": [query]}
    use.note({"type": "stopped"})  # type: ignore[typeddict-item]
    use.note(event)  # type: ignore[arg-type]
    assert use.used == {"people", "later", "refine", "bridges"}


def test_gains_and_losses_over_sets() -> None:
    """Proves: OPS-4."""

    def worth(low: float, high: float) -> dict[str, dict[str, float]]:
        return {name: {"worth": low, "low": low, "high": high} for name in ablation.QUALITY}

    one = {"worth": {"a": worth(0.1, 0.2), "b": worth(-0.1, 0.1), "c": worth(-0.2, -0.1)}}
    two = {"worth": {"a": worth(-0.2, -0.1), "b": worth(0.0, 0.0)}}
    assert ingredients_without_gain([one, two]) == ["b", "c"]
    assert ingredients_with_loss([one, two]) == ["a", "c"]


def test_a_remembered_query_is_embedded_once(embedder: MiniLmEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    """And is the same as without a memory; a long unused one goes.

    Proves: OPS-4.
    """
    monkeypatch.setattr("recall_loop.evals.runs.dataset_ingest._MAX_CACHED", 2)
    kept = with_query_cache(embedder)
    assert isinstance(kept, TokenEmbedder)
    first, tokens = kept.embed_queries_with_tokens(["a boat", "a mast", "a boat"])
    again, more = kept.embed_queries_with_tokens(["a boat"])
    assert again[0].tolist() == first[0].tolist() == first[2].tolist()
    assert more[0] is tokens[0]
    kept.embed_queries_with_tokens(["an oar"])
    assert kept.embed_queries_with_tokens(["a mast"])[1][0] is not tokens[1]
    assert kept.embed_queries(["a sail"]).shape == (1, 384)
    assert kept.embed_queries([]).shape == (0, 384)


def test_the_verb_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Proves: OPS-4."""
    path, out = write_dataset("hotpotqa", tmp_path), tmp_path / "report.json"
    given = ["ablate", "--data", str(path), "--only", "reranker,novelty-bonus", "--resamples", "100"]
    assert main([*given, "--json", str(out)]) == 0
    shown = capsys.readouterr().out
    for word in ("hotpotqa (all), 1 questions", "everything", "reranker", "no gain in any measure"):
        assert word in shown
    assert list(json.loads(out.read_text(encoding="utf-8"))["sets"][0]["worth"]) == ["novelty-bonus", "reranker"][::-1]


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        (["--json", "no/such/folder.json"], "--json"),
        (["--only", "magic"], "only: got 'magic'"),
        (["--questions", "0"], "0"),
        (["--set", "k=1"], "k"),
    ],
)
def test_bad_arguments_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: list[str], told: str
) -> None:
    """Proves: OPS-4."""
    assert main(["ablate", "--data", str(write_dataset("hotpotqa", tmp_path)), *extra]) == 2
    complaint = capsys.readouterr().err
    assert told in complaint
    assert complaint.count("\n") == 1
    with pytest.raises(InvalidInputError):
        ingredients.select_ingredients(["magic"])
