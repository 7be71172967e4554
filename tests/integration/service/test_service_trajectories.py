"""Past runs over HTTP: added, searched in tiers, read back, scored and deleted."""

from __future__ import annotations

import pytest

from recall_loop.memory.trajectories.contrast.results import EXECUTION_EXPLAINED, LEARNING_EXPLAINED
from recall_loop.state.scope import Scope
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.service_server import running_service

RUN = {
    "id": "r-1",
    "agent_id": "a-1",
    "messages": [
        {"role": "user", "content": "Book the ferry to Saaremaa for Friday, token=sk-abcdefghijklmnop1234."},
        {"role": "assistant", "tool_calls": [{"id": "1", "name": "book_ferry", "arguments": {"to": "Saaremaa"}}]},
        {"role": "tool", "tool_call_id": "1", "content": "Booked, nine o'clock."},
        {"role": "assistant", "content": "Done: the ferry at nine."},
    ],
}


def scored(run_id, score, status="completed", **fields):
    """Return a trajectory as it is read back."""
    attributes = {"task": "Book the ferry.", "execution": {"status": status}}
    attributes |= {} if score is None else {"outcome_score": score}
    return {"id": run_id, "text": "Book the ferry.", "attributes": attributes, **fields}


@pytest.fixture(scope="module")
def served():
    with running_service(settings=Settings(), embedder=WordHashEmbedder()) as found:
        yield found


@pytest.fixture
def client(served):
    with served.client() as found:
        served.service.store.erase(Scope())
        yield found


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"messages": [{"role": "user", "contents": "Book it."}]}, "messages.0.contents"),
        ({"run_status": "bogus"}, "run_status"),
        ({"start_time": "2024-05-02T00:00:00Z", "end_time": "2024-05-01T00:00:00Z"}, "end_time"),
        ({"states": [{"messages": RUN["messages"]}]}, "states"),
    ],
)
def test_a_run_that_contradicts_itself_is_refused(client, more, field):
    """Proves: TRAJ-1."""
    refused = client.post("/api/trajectories", json={**RUN, **more})
    assert refused.status_code == 422 and field in refused.text
    assert not client.get("/api/trajectories").json()["trajectories"]


def test_a_run_is_added_read_listed_and_deleted(client):
    """Proves: TRAJ-1, TRAJ-3."""
    added = client.post("/api/trajectories", json=RUN)
    assert (added.status_code, added.json()["status"]) == (201, "created")
    again = client.post("/api/trajectories", json=RUN)
    assert (again.status_code, again.json()["status"]) == (200, "unchanged")
    read = client.get("/api/trajectories/r-1").json()
    assert read["execution"]["label"] == "Execution"
    assert read["execution"]["value"] == "✅ Completed"
    assert EXECUTION_EXPLAINED in read["execution"]["tooltip"]
    score = read["trajectory"]["attributes"]["outcome_score"]
    assert read["learning_value"]["value"].endswith(f"({score:.2f})")
    assert read["learning_value"]["tooltip"] == LEARNING_EXPLAINED
    assert "sk-abcdefghijklmnop1234" not in client.get("/api/trajectories/r-1").text
    assert client.put("/api/trajectories/r-1", json=read["trajectory"]).json()["status"] == "unchanged"
    listed = client.get("/api/trajectories", params={"agent_id": "a-1"}).json()["trajectories"]
    assert [(run["id"], run["details"]["tools_used"], run["outcome_score"]) for run in listed] == [
        ("r-1", ["book_ferry"], score)
    ]
    assert client.delete("/api/trajectories/r-1").status_code == 204
    assert client.get("/api/trajectories/r-1").status_code == 404
    assert client.delete("/api/trajectories/r-1").status_code == 404


def test_a_record_that_is_no_run_isn_t_one_here(client):
    """Proves: TRAJ-1."""
    client.put("/api/memory/records/f-1", json={"kind": "fact", "text": "Ada works here."})
    assert client.get("/api/trajectories/f-1").status_code == 404
    assert client.delete("/api/trajectories/f-1").status_code == 404
    assert client.post("/api/trajectories/f-1/score").status_code == 404
    for response in (
        client.post("/api/trajectories", json={**RUN, "id": "f-1"}),
        client.put("/api/trajectories/f-1", json={name: value for name, value in RUN.items() if name != "id"}),
    ):
        assert response.status_code == 422 and "id: got 'f-1'" in response.json()["detail"]
    assert client.get("/api/memory/records/f-1").json()["text"] == "Ada works here."


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": "no list"}, "messages"),
        ({}, "messages"),
        ({**RUN, "tenant": "another"}, "tenant"),
        ({"attributes": {}, "text": "x", "tenant": "another"}, "tenant"),
        ({**scored("r-1", 0.5), "kind": "fact"}, "record.kind"),
    ],
)
def test_what_holds_no_run_is_refused(client, body, field):
    """Proves: TRAJ-1, STORE-3."""
    for response in (client.post("/api/trajectories", json=body), client.put("/api/trajectories/r-1", json=body)):
        assert response.status_code == 422, response.text
        assert response.json()["field"] == field
    assert client.get("/api/trajectories").json() == {"trajectories": []}


def test_contrasts_cover_every_learning_value(client):
    """Proves: TRAJ-5, TRAJ-6, TRAJ-3."""
    for run in (scored("high", 0.9, "error"), scored("middle", 0.5), scored("low", 0.0), scored("open", None)):
        assert client.put(f"/api/trajectories/{run['id']}?score=later", json=run).status_code == 201
    asked = {"query": "book a ferry", "include_contrasts": True}
    found = client.post("/api/trajectories/search", json=asked).json()
    groups = ("successes", "moderate", "failures", "unscored")
    assert {name: [run["id"] for run in found[name]] for name in groups} == {
        "successes": ["high"],
        "moderate": ["middle"],
        "failures": ["low"],
        "unscored": ["open"],
    }
    assert found["successes"][0]["execution"]["value"] == "⚠ Error"
    assert found["failures"][0]["learning_value"]["value"] == "☆☆☆☆☆ (0.00)"
    assert found["failures"][0]["outcome_score"] == 0.0
    assert found["unscored"][0]["outcome_score"] is None
    plain = client.post("/api/trajectories/search", json={"query": "book a ferry", "min_score": 0.4}).json()
    assert {run["id"] for run in plain["trajectories"]} == {"high", "middle"}
    only = {**asked, "filters": {"scored": False}}
    fallback = client.post("/api/trajectories/search", json=only).json()
    assert [run["id"] for run in fallback["relevant_experiences"]] == ["open"]
    wrong = client.post("/api/trajectories/search", json={**asked, "failure_threshold": 0.8})
    assert (wrong.status_code, wrong.json()["field"]) == (422, "failure_threshold")
    vector = client.post("/api/trajectories/search", json={**asked, "mode": "vector", "fuzzy": 2})
    assert (vector.status_code, vector.json()["field"]) == (422, "fuzzy")


def test_runs_are_scored_when_asked_for(client):
    """Proves: TRAJ-2."""
    for at in range(3):
        body = {**RUN, "id": f"r-{at}"}
        later = client.post("/api/trajectories", params={"score": "later"}, json=body).json()
        assert (later.get("outcome_score"), "waiting" in later["learning_value"]["value"]) == (None, True)
    one = client.post("/api/trajectories/r-0/score", params={"scorer": "rules"}).json()
    assert 0 < one["outcome_score"] <= 1
    assert client.post("/api/trajectories/score", json={"limit": 1}).json() == {"scored": 1, "failed": 0, "errors": {}}
    assert client.post("/api/trajectories/score", json={}).json()["scored"] == 1
    unset = client.post("/api/trajectories/r-0/score", params={"scorer": "llm"})
    assert (unset.status_code, unset.json()["field"]) == (422, "scorer")
