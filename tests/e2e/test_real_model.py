"""A real language model, where one answers at TEST_LLM_BASE_URL (`make test-llm`): shape and limits, never wording."""

from __future__ import annotations

import os

import httpx
import pytest

from recall_loop.graph.run import retrieve
from recall_loop.state.settings.settings import Settings
from tests.integration.graph.worlds import DIRECT, NOTHING, TWO_HOPS, filled_store, valley_request

URL = os.environ.get("TEST_LLM_BASE_URL", "http://127.0.0.1:8080/v1")


def _answers() -> bool:
    try:
        return httpx.get(f"{URL}/models", timeout=1.0).status_code == 200
    except httpx.HTTPError:
        return False


pytestmark = [
    pytest.mark.llm,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(not _answers(), reason=f"no language model answers at {URL} (TEST_LLM_BASE_URL)"),
]


@pytest.fixture(scope="module")
def world(embedder):
    with filled_store(embedder) as store:
        yield store


@pytest.mark.parametrize("question", [DIRECT, TWO_HOPS, NOTHING])
def test_a_real_model_plans_within_its_limits(world, question):
    """Proves: LOOP-8 (structured replies, distinct queries, no fewer facts, limits kept)."""
    settings = Settings(
        llm_model="local",
        llm_base_url=URL,
        llm_temperature=0,
        llm_timeout_seconds=300,
        llm_total_seconds=900,
        llm_prompt_tokens=2000,
        max_iterations=2,
    )
    plain = retrieve(valley_request(question), store=world, settings=settings.model_copy(update={"llm_model": None}))
    result = retrieve(valley_request(question, debug=True), store=world, settings=settings)
    steps = result.metadata["trace"]["llm_steps"]
    plans = [step for step in steps if step["step"] in ("plan", "refine")]
    assert {fact.id for fact in plain.facts} <= {fact.id for fact in result.facts}
    assert plans and all(step["failure"] is None for step in plans)
    assert sum(step["detail"]["queries"] for step in plans) > 0  # repeats of what runs anyway are left out
    asked = [item["query"] for item in result.metadata["trace"]["query_results"]]
    assert len(asked) == len(set(asked))
    assert result.metadata["llm_calls"] <= settings.llm_max_calls
    assert 0 < result.metadata["llm_tokens"] <= settings.llm_max_tokens
    assert result.answer is None or result.answer == "Not in memory." or result.answer.endswith("]")
