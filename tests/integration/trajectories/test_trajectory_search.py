"""Search of past runs: the cases of the notes, the walls, and that nothing relevant is ever hidden."""

from __future__ import annotations

import json
import math
import random
from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from recall_loop.memory.adapters.tools import trajectory_tool
from recall_loop.memory.search.engine import search, search_many
from recall_loop.memory.store.store import MemoryStore
from recall_loop.memory.trajectories.contrast.contrast_search import search_trajectories
from recall_loop.memory.trajectories.contrast.tiers import TierThresholds
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.records.trajectories import Execution, RunData, RunMetadata, trajectory_record
from recall_loop.state.scope import ExecutionStatus, Filters, Scope
from recall_loop.state.search import TRAJECTORY_MIN_SIMILARITY, SearchParams, TrajectorySearchParams
from recall_loop.state.types import ComplexityLevel, ContentType, SearchMode
from tests.embedders import WordHashEmbedder

QUERY = "world generation and story creation from user prompts"
STORY = "Story prompt crafting, neural interfaces, AI, world-model systems"
HERE = Scope()


class AtAnAngle:
    """An embedder for which every query has the same cosine with every stored text."""

    name, dimension, fingerprint = "at-an-angle", 4, "at-an-angle:1"

    def __init__(self, cosine=0.35):
        self.cosine = cosine

    def embed_documents(self, texts):
        return np.tile(np.array([1.0, 0, 0, 0], dtype=np.float32), (len(texts), 1))

    def embed_queries(self, texts):
        vector = np.array([self.cosine, math.sqrt(1 - self.cosine**2), 0, 0], dtype=np.float32)
        return np.tile(vector, (len(texts), 1))


def run_record(name, score=None, text=STORY, *, status=ExecutionStatus.COMPLETED, **fields):
    data = {
        "task": text,
        "execution": Execution(status=status),
        "outcome_score": score,
        "metadata": RunMetadata(tools_used=fields.pop("tools", ()), step_count=fields.pop("steps", 1)),
    }
    more = {key: fields.pop(key) for key in ("task_category", "complexity_level", "scoring_pending") if key in fields}
    return trajectory_record(RunData(**data, **more), id=name, text=text, **fields)


def store_of(*records, embedder=None, **elsewhere):
    store = MemoryStore.in_memory(embedder=embedder or WordHashEmbedder())
    store.upsert(records)
    for tenant, theirs in elsewhere.items():
        store.upsert(theirs, tenant=tenant)
    return store


def search_runs(store, query, scope=HERE, **params):
    return search_trajectories(store, query, scope=scope, params=TrajectorySearchParams(**params))


def items_of(found):
    """The items of all groups."""
    groups = ("trajectories", "successes", "moderate", "failures", "unscored", "relevant_experiences")
    return [item for name in groups for item in getattr(found, name)]


def ids(items):
    return [item.id for item in items]


# The cases of the notes


def test_one_moderate_run_is_found():
    """Proves: TRAJ-7 (the first case: one run, score 0.5, similarity 0.50), TRAJ-6."""
    embedder = AtAnAngle()
    with store_of(run_record("t1", 0.5, steps=2, tools=("draft",)), embedder=embedder) as store:
        words = (
            search(store, QUERY, params=SearchParams(content_types=(ContentType.TRAJECTORY,), mode=SearchMode.FTS))
            .hits[0]
            .similarity
        )
        # The mean of words and meaning is to be 0.50.
        embedder.cosine = 0.35 + math.log((1 - words) / words) / 8
        found = search_runs(store, QUERY, include_contrasts=True)
    assert (found.successes, found.failures, found.moderate, found.unscored) == ((), (), (), ())
    assert ids(found.relevant_experiences) == ["t1"]
    assert "0 successes" in found.message and "0 failures" in found.message and "1 moderate" in found.message
    shown = found.to_display()["relevant_experiences"][0]
    assert (shown["similarity"], shown["outcome_score"]) == ("0.50", "0.50")
    assert shown["learning_value"] == "⭐⭐⭐☆☆ (0.50)" and shown["execution"] == "✅ Completed"
    assert "0.30 < score < 0.70" in shown["note"] and shown["summary"] == STORY
    assert shown["details"] == {"status": "completed", "tools_used": ["draft"], "step_count": 2}


def test_rich_data_need_no_fallback():
    """Proves: TRAJ-7 (the second case: twelve runs), TRAJ-5 (each tier, and the count of each)."""
    scores = [0.9, 0.8, 0.7, 0.7, 0.6, 0.5, 0.5, 0.3, 0.2, 0.0, None, None]
    records = [run_record(f"t{number}", score) for number, score in enumerate(scores)]
    with store_of(*records) as store:
        found = search_trajectories(
            store, STORY, scope=HERE, params=TrajectorySearchParams(limit=10, include_contrasts=True)
        )
    assert sorted(ids(found.successes)) == ["t0", "t1", "t2", "t3"]
    assert sorted(ids(found.moderate)) == ["t4", "t5", "t6"]
    assert sorted(ids(found.failures)) == ["t7", "t8", "t9"]
    assert sorted(ids(found.unscored)) == ["t10", "t11"]
    assert found.relevant_experiences == ()
    assert found.message.startswith("Found 4 successes, 3 moderate, 3 failures, 2 unscored.")
    zero = next(item for item in found.failures if item.id == "t9")
    assert zero.to_display()["outcome_score"] == "0.00"
    assert found.unscored[0].to_display()["outcome_score"] == "not scored"


def test_all_moderate_runs_are_found():
    """Proves: TRAJ-7 (the third case: five runs from 0.4 to 0.6), TRAJ-6 (unscored ones among them)."""
    records = [run_record(f"t{number}", 0.4 + number / 20) for number in range(5)]
    with store_of(*records, run_record("new")) as store:
        found = search_trajectories(
            store, STORY, scope=HERE, params=TrajectorySearchParams(limit=10, include_contrasts=True)
        )
        best = search_trajectories(
            store, STORY, scope=HERE, params=TrajectorySearchParams(limit=2, include_contrasts=True)
        )
    assert sorted(ids(found.relevant_experiences)) == ["new", "t0", "t1", "t2", "t3", "t4"]
    assert found.moderate == found.unscored == ()
    assert "5 moderate and 1 unscored" in found.message
    assert len(best.relevant_experiences) == 2
    assert set(found.to_display()) == {
        "message",
        "successes",
        "moderate",
        "failures",
        "unscored",
        "relevant_experiences",
    }


def test_no_tier_starves():
    """Proves: TRAJ-5 (each tier searched for itself: forty better matches of another tier don't hide the one)."""
    crowd = [run_record(f"good{number}", 0.9, "ferry north granary") for number in range(40)]
    with store_of(
        *crowd, run_record("bad", 0.1, "ferry somewhere else entirely"), run_record("none", None, "ferry")
    ) as store:
        found = search_trajectories(
            store,
            "ferry north granary",
            scope=HERE,
            params=TrajectorySearchParams(min_similarity=0.0, limit=1, include_contrasts=True),
        )
    assert (len(found.successes), ids(found.failures), ids(found.unscored)) == (1, ["bad"], ["none"])


# Nothing is hidden


@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.explicit, Phase.generate])
@given(
    seed=st.integers(0, 2**32),
    size=st.integers(1, 30),
    cuts=st.lists(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0]), min_size=2, max_size=2, unique=True),
    least=st.sampled_from([0.0, TRAJECTORY_MIN_SIMILARITY, 0.5]),
)
def test_every_run_is_in_one_tier_and_no_relevant_one_is_hidden(seed, size, cuts, least):
    """Proves: TRAJ-5 (exactly one tier), TRAJ-6 (never empty while a relevant one is in scope)."""
    chance, words = random.Random(seed), ["ferry", "north", "granary", "lamp", "bread"]
    scores = [chance.choice([None, 0, 1, 0.3, 0.5, 0.7, round(chance.random(), 2)]) for _ in range(size)]
    records = [
        run_record(f"t{number}", score, " ".join(chance.choices(words, k=chance.randint(1, 4))))
        for number, score in enumerate(scores)
    ]
    failure, success = sorted(cuts)
    query = " ".join(chance.choices(words, k=2))
    with store_of(*records) as store:
        found = search_trajectories(
            store,
            query,
            scope=HERE,
            params=TrajectorySearchParams(
                min_similarity=least,
                limit=100,
                include_contrasts=True,
                success_threshold=success,
                failure_threshold=failure,
            ),
        )
        one = search_trajectories(
            store,
            query,
            scope=HERE,
            params=TrajectorySearchParams(min_similarity=least, limit=1, include_contrasts=True),
        )
        everything = search(store, query, params=SearchParams(content_types=(ContentType.TRAJECTORY,), limit=1000)).hits
    relevant = {hit.record.id for hit in everything if hit.similarity >= least}
    # Everything relevant is there, in one group each, and in the group of its score.
    assert sorted(ids(items_of(found))) == sorted(relevant)
    assert bool(items_of(one)) is bool(relevant)
    by_score = TierThresholds(success, failure)
    for name in ("successes", "moderate", "failures", "unscored"):
        for item in getattr(found, name):
            assert {"successes": "success", "failures": "failure"}.get(name, name) == by_score.tier(item.outcome_score)
    assert bool(found.relevant_experiences) <= (not found.successes and not found.failures)
    assert found.allowed == size


def test_an_empty_answer_says_why():
    """Proves: TRAJ-6."""
    with store_of() as store:
        nothing = search_runs(store, "ferry", include_contrasts=True)
    with store_of(run_record("t1", 0.5, "granary")) as store:
        unlike = search_trajectories(
            store, "zeppelin", scope=HERE, params=TrajectorySearchParams(min_similarity=0.99, include_contrasts=True)
        )
        plain = search_runs(store, "zeppelin", min_similarity=0.99)
    assert "No trajectory" in nothing.message and items_of(nothing) == []
    assert unlike.message == plain.message and "at least 0.99" in unlike.message and unlike.allowed == 1


# Bounds and filters


def test_bounds_of_the_score():
    """Proves: TRAJ-5 (min_score and max_score bound the learning value; unscored is outside of every bound)."""
    records = [run_record(f"t{number}", number / 10) for number in range(11)]
    with store_of(*records, run_record("none")) as store:

        def found(**bounds):
            return search_runs(store, STORY, limit=50, **bounds)

        assert len(found().trajectories) == 12
        assert sorted(ids(found(min_score=0.7, max_score=0.9).trajectories)) == ["t7", "t8", "t9"]
        middle = found(min_score=0.5, max_score=0.8, include_contrasts=True)
        assert sorted(ids(middle.successes)) == ["t7", "t8"] and sorted(ids(middle.moderate)) == ["t5", "t6"]
        assert middle.failures == middle.unscored == ()
        only_new = found(filters=Filters(scored=False), include_contrasts=True)
        assert ids(only_new.relevant_experiences) == ["none"]
        none_left = found(filters=Filters(scored=False), min_score=0.5, include_contrasts=True)
        assert items_of(none_left) == []


def test_filters_of_runs():
    """Proves: TRAJ-8 (status, tags, tools, category, complexity, time, agent)."""
    records = [
        run_record("t1", 0.5, status=ExecutionStatus.ERROR, tools=("grep", "edit"), agent_id="a1", tags=("x", "y")),
        run_record("t2", 0.5, tools=("grep",), task_category="coding", created_at=datetime(2024, 5, 1, tzinfo=UTC)),
        run_record("t3", 0.5, complexity_level=ComplexityLevel.EXPERT, agent_id="a2", tags=("x",)),
    ]
    cases = {
        "t1": [
            Filters(execution_status="error"),
            Filters(tags=("x", "y")),
            Filters(tools_used=("grep", "edit")),
            Filters(agent_ids=("a1",)),
        ],
        "t2": [Filters(task_category="coding"), Filters(start_time="2024-04-30"), Filters(end_time="2024-05-02")],
        "t3": [Filters(complexity_level="expert"), Filters(tags=("x",), agent_ids=("a2",))],
    }
    with store_of(*records) as store:
        for name, filters in cases.items():
            for part in filters:
                for contrasts in (False, True):
                    found = search_trajectories(
                        store,
                        STORY,
                        scope=HERE,
                        params=TrajectorySearchParams(filters=part, include_contrasts=contrasts),
                    )
                    assert ids(items_of(found)) == [name]


def test_other_tenants_and_agents_stay_out():
    """Proves: TRAJ-8 (sharing across agents is explicit; another tenant's run is never returned)."""
    mine = [run_record("t1", 0.9, agent_id="a1", group_id="g"), run_record("t2", 0.1, agent_id="a2", group_id="g")]
    with store_of(*mine, run_record("t3", 0.5, agent_id="a3"), theirs=[run_record("x", 0.9, agent_id="a1")]) as store:

        def found(**scope):
            result = search_trajectories(
                store, STORY, scope=Scope(**scope), params=TrajectorySearchParams(include_contrasts=True)
            )
            return sorted(ids(items_of(result)))

        assert found(agent_id="a1") == ["t1"]
        assert found(agent_id="a1", mode="constellation") == ["t1", "t2"]
        assert found() == ["t1", "t2", "t3"]
        assert found(tenant="theirs") == ["x"]
        assert found(tenant="nobody") == []


def test_wrong_values_are_errors():
    """Proves: TRAJ-5, SEARCH-2."""
    with store_of(run_record("t1", 0.5)) as store:
        for wrong in (
            {"success_threshold": 0.2},
            {"failure_threshold": 2},
            {"min_score": 0.9, "max_score": 0.1},
            {"min_similarity": -1},
            {"limit": 0},
        ):
            with pytest.raises(ValueError, match=next(iter(wrong)).replace("success", "failure")):
                params = TrajectorySearchParams(include_contrasts=True, **wrong)
                search_trajectories(store, STORY, scope=HERE, params=params)
        with pytest.raises(InvalidInputError, match="query"):
            search_trajectories(store, " ", scope=HERE)


# One embedding for all tiers


class Counting(WordHashEmbedder):
    """Counts the texts that it embeds for queries."""

    def __init__(self):
        self.queries = []

    def embed_queries(self, texts):
        self.queries += list(texts)
        return super().embed_queries(texts)


def test_the_query_is_embedded_once_for_all_tiers():
    """Proves: TRAJ-5 (contrasts cost no further embedding)."""
    embedder = Counting()
    with store_of(*(run_record(f"t{number}", number / 4) for number in range(5)), embedder=embedder) as store:
        search_runs(store, STORY, include_contrasts=True)
    assert embedder.queries == [STORY]


def test_queries_may_have_filters_of_their_own():
    """Proves: SEARCH-3 (several queries in one call, each with its own filters)."""
    with store_of(run_record("t1", 0.9), run_record("t2", 0.1)) as store:
        each = [Filters(min_outcome_score=0.5), Filters(max_outcome_score=0.5), Filters()]
        answers = search_many(
            store, [STORY] * 3, filters=each, params=SearchParams(content_types=(ContentType.TRAJECTORY,))
        )
        assert [sorted(hit.record.id for hit in answer.hits) for answer in answers] == [["t1"], ["t2"], ["t1", "t2"]]
        with pytest.raises(InvalidInputError, match="filters"):
            search_many(store, [STORY] * 2, filters=each)


# The tool


def test_the_tool_answers_with_json_and_keeps_its_scope():
    """Proves: TRAJ-5 (as a LangChain tool), TRAJ-8 (the scope is not the model's to choose)."""
    records = [run_record("t1", 0.0, agent_id="a1"), run_record("t2", 0.9, agent_id="a2")]
    with store_of(*records) as store:
        tool = trajectory_tool(store, Scope(agent_id="a1"))
        assert "scope" not in tool.args and "tenant" not in tool.args
        answer = json.loads(tool.invoke({"query": STORY, "include_contrasts": True}))
        assert [item["id"] for item in answer["failures"]] == ["t1"] and answer["successes"] == []
        assert answer["failures"][0]["learning_value"] == "☆☆☆☆☆ (0.00)"
        plain = json.loads(tool.invoke({"query": STORY, "execution_status": "failed"}))
        assert plain["trajectories"] == [] and "No trajectory" in plain["message"]
        assert "min_score" in tool.invoke({"query": STORY, "min_score": 0.9, "max_score": 0.1})
        assert "query" in tool.invoke({"query": " "})
        assert isinstance(tool.invoke({"query": STORY, "limit": 0}), str)
        assert isinstance(tool.invoke({"query": STORY, "tenant": "theirs"}), str)


OLD = {
    "typed": ({"outcome": {"type": "failure", "score": 0.2}}, "failed", 0.2),
    "named": ({"outcome": "success", "outcome_score": 0.8}, "completed", 0.8),
    "nested": (
        {"data": {"outcome": {"type": "partial_success"}, "outcome_score": 0.5, "turns": []}},
        "incomplete",
        0.5,
    ),
    "beyond": ({"outcome": {"type": "error"}, "outcome_score": 85}, "error", None),
}


@pytest.mark.filterwarnings("ignore:outcome.type:DeprecationWarning")
@pytest.mark.parametrize("name", OLD)
def test_records_from_before_the_migration_are_found_by_status_and_score(name):
    """Proves: TRAJ-4, TRAJ-5, TRAJ-8."""
    records = [
        {"id": each, "kind": "trajectory", "text": STORY, "attributes": attributes}
        for each, (attributes, _, _) in OLD.items()
    ]
    _, status, score = OLD[name]
    with store_of(*records) as store:
        found = search_trajectories(
            store, STORY, scope=HERE, params=TrajectorySearchParams(filters=Filters(execution_status=status))
        )
        assert ids(found.trajectories) == [name]
        whole = search_runs(store, STORY, include_contrasts=True)
        groups = {
            "successes": whole.successes,
            "failures": whole.failures,
            "moderate": whole.moderate,
            "unscored": whole.unscored,
        }
        here = [group for group, items in groups.items() if name in ids(items)]
        expected = "unscored" if score is None else TierThresholds().tier(score).value
        assert here == [{"success": "successes", "failure": "failures"}.get(expected, expected)]
