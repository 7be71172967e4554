"""What has been superseded comes behind what holds now: nothing is lost, and nothing else is moved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from recall_loop.policy.evidence.evidence_folding import Supersession, demote_superseded
from recall_loop.policy.evidence.ranking import RankedEntry

NAMES = [f"f{number}" for number in range(5)]


def ranked(name, by=None, sources=(), score=0.5):
    kind = "message" if name[0] == "m" else "fact"
    record = {"id": name, "kind": kind, "text": name, "source_ids": list(sources)}
    evidence = [{"source_id": source} for source in sources]
    entry = {"key": name, "record": record | ({"superseded_by": by} if by else {}), "evidence": evidence}
    return RankedEntry(entry, score, {})


ITEMS = st.lists(
    st.one_of(
        st.builds(ranked, st.sampled_from(NAMES), st.sampled_from([None, "elsewhere", *NAMES]), st.just(())),
        st.builds(ranked, st.sampled_from(NAMES), st.none(), st.lists(st.sampled_from(["m0", "m1"]), max_size=2)),
        st.builds(ranked, st.sampled_from(["m0", "m1", "m2"])),
    ),
    unique_by=lambda item: item.entry["record"]["id"],
).map(lambda items: [RankedEntry(item.entry, 1.0 - at / 10, {}) for at, item in enumerate(items)])
OUTDATED = st.dictionaries(
    st.sampled_from(["m0", "m1", "m2"]),
    st.builds(Supersession, st.sampled_from(NAMES), st.just("2024-01-01T00:00:00Z")),
)


def ids(items):
    return [item.entry["record"]["id"] for item in items]


@given(ITEMS, OUTDATED)
def test_nothing_is_lost_and_scores_fall(items, outdated):
    """Proves: OPS-5, RANK-4."""
    found = demote_superseded(items, outdated)
    assert sorted(ids(found)) == sorted(ids(items))
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    facts = {item.entry["record"]["id"]: item.entry["record"] for item in items}
    for item in found:
        by = item.entry["record"].get("superseded_by")
        holds = by in facts and not facts[by].get("superseded_by")
        if holds:
            assert ids(found).index(by) < ids(found).index(item.entry["record"]["id"])


def test_an_old_message_comes_behind_the_newer_fact_unless_it_says_that_too():
    """Proves: OPS-5."""
    items = [ranked("m0", score=0.9), ranked("m1", score=0.8), ranked("f0", sources=["m1"]), ranked("m2", score=0.4)]
    since = {name: Supersession("f0", "2024-01-01T00:00:00Z") for name in ("m0", "m1")}
    found = demote_superseded(items, since)
    assert ids(found) == ["m1", "f0", "m0", "m2"]
    assert found[2].score == 0.5 and found[2].entry["record"]["superseded_by"] == "f0"
    assert demote_superseded(items, {}) == items
