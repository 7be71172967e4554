"""Forgetting by policy: sweeps, rules of retention, `forget` with its dry run. Nothing goes that isn't named."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, StoreReadOnlyError
from recall_loop.state.scope import Filters, RetentionRule, Scope
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType, Role, SpeechAct
from recall_loop.text.speech.speech_acts import speech_acts
from tests.embedders import WordHashEmbedder

PAST, FUTURE = "2001-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
TEXTS = ["Thanks!", "Where do I live?", "I moved to Bergen.", "Thanks! I moved to Bergen.", "I don't know."]


def opened(path, **options):
    return MemoryStore.open(path, embedder=WordHashEmbedder(), **options)


def ago(days):
    return (datetime.now(UTC) - timedelta(days=days)).isoformat()


def turn(number, text="I moved to Bergen.", **more):
    return {"id": f"m{number}", "kind": "message", "text": text, "conversation_id": "c", "position": number} | more


def ids(store, tenant="default"):
    return sorted(record.id for record in store.scan(Scope(tenant=tenant)))


def rows(store):
    return [row[0] for row in store._session.database.fetch("SELECT id FROM records ORDER BY id")]


def test_a_sweep_erases_what_has_expired_of_every_tenant_and_nothing_else(tmp_path):
    """Proves: LIVE-7, STORE-6."""
    with opened(tmp_path) as store:
        store.upsert([turn(1, "secretword", expires_at=PAST), turn(2), turn(3, expires_at=FUTURE)])
        store.upsert([turn(n, "secretword", expires_at=PAST) for n in range(600)], tenant="b")
        assert store.count() == 2 and len(rows(store)) == 603
        report = store.maintenance.sweep()
        assert (report.expired, report.retained_no_longer, report.versions) == (601, 0, 0)
        assert store.maintenance.sweep().expired == 0
        assert rows(store) == ["m2", "m3"] and store.maintenance.verify().sound
        store.maintenance.compact()
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert b"secretword" not in path.read_bytes().lower(), path


def test_an_open_for_writing_begins_with_a_sweep(tmp_path):
    """Proves: LIVE-7, API-3."""
    with opened(tmp_path) as store:
        store.upsert([turn(1, expires_at=PAST), turn(2), turn(3, "Thanks!", created_at=ago(8))])
        store.upsert([turn(2, "changed"), turn(3, "Thank you!", created_at=ago(8))])
        with store._session.database.transaction() as connection:
            connection.execute("UPDATE versions SET changed_at = changed_at - 31 * 86400000000 WHERE id = 'm2'")
        assert store.history("m2") == [] and len(store.history("m3")) == 1
    with opened(tmp_path, read_only=True) as reader:
        assert len(rows(reader)) == 3
        with pytest.raises(StoreReadOnlyError):
            reader.maintenance.sweep()
    rule = RetentionRule(speech_acts=[SpeechAct.ACKNOWLEDGEMENT], older_than_days=7)
    with opened(tmp_path, history_days=None) as store:
        assert rows(store) == ["m2", "m3"]
        assert store._session.database.fetch("SELECT count(*) FROM versions") == [(2,)]
    with opened(tmp_path) as store:
        assert store._session.database.fetch("SELECT id FROM versions") == [("m3",)]
    settings = Settings(store_path=str(tmp_path), retention=[rule.model_dump()])
    with MemoryStore.from_settings(settings, embedder=WordHashEmbedder()) as store:
        assert rows(store) == ["m2"] and store.maintenance.verify().sound


acts = st.lists(st.sampled_from(SpeechAct), min_size=1, max_size=2, unique=True)
rules = st.builds(
    RetentionRule,
    kinds=st.none() | st.lists(st.sampled_from(ContentType), min_size=1, max_size=2),
    roles=st.none() | st.lists(st.sampled_from(Role), min_size=1, max_size=2),
    speech_acts=st.none() | acts,
    older_than_days=st.sampled_from([0, 5, 50]),
)
records = st.tuples(
    st.sampled_from(["fact", "archival", "message"]),
    st.sampled_from([None, "user", "assistant"]),
    st.sampled_from(TEXTS),
    st.sampled_from([None, 1, 10, 100]),
)


def named(rule, kind, role, text, days):
    """Whether a rule names a record, said once more."""
    found = speech_acts(text, None if role is None else Role(role))
    return (
        (rule.kinds is None or kind in rule.kinds)
        and (rule.roles is None or role in rule.roles)
        and (rule.speech_acts is None or (bool(found) and found <= set(rule.speech_acts)))
        and (rule.older_than_days is None or (days is not None and days > rule.older_than_days))
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(records, max_size=8), st.lists(rules, min_size=1, max_size=2))
def test_records_without_a_rule_stay(made, rules):
    """Proves: LIVE-7."""
    with MemoryStore.in_memory(embedder=WordHashEmbedder(), retention=rules) as store:
        for at, (kind, role, text, days) in enumerate(made):
            created = None if days is None else ago(days)
            given = {"id": f"r{at}", "kind": kind, "text": text, "role": role, "created_at": created}
            store.upsert([given], tenant=f"t{at % 2}")
        stay = {f"r{at}" for at, record in enumerate(made) if not any(named(rule, *record) for rule in rules)}
        for rule in rules:
            counted = sum(store.forget(Scope(tenant=t), rule=rule, dry_run=True).records for t in ("t0", "t1"))
            assert counted == sum(named(rule, *record) for record in made)
        assert store.maintenance.sweep().retained_no_longer == len(made) - len(stay)
        assert set(rows(store)) == stay


def test_forget_counts_first_and_keeps_to_scope_and_tenant(store):
    """Proves: LIVE-7, STORE-3."""
    fact = {"id": "f1", "kind": "fact", "text": "Ann lives in Oslo.", "valid_until": PAST, "superseded_by": "f2"}
    mine = [turn(1, user_id="u1"), turn(2, user_id="u2"), turn(3, "Thanks!", user_id="u1"), fact | {"user_id": "u1"}]
    for tenant in ("a", "b"):
        store.upsert(mine, tenant=tenant)
    scope = Scope(tenant="a", user_id="u1")
    report = store.forget(scope, content_types=["message", "fact"], dry_run=True)
    assert (report.by_kind, report.records, report.dry_run) == ({"fact": 1, "message": 2}, 3, True)
    assert len(ids(store, "a")) == 4
    assert store.forget(scope, rule=RetentionRule(speech_acts=["acknowledgement"])).by_kind == {"message": 1}
    assert ids(store, "a") == ["f1", "m1", "m2"]
    assert store.forget(scope, filters=Filters(user_id="u1", include_superseded=False)).by_kind == {"message": 1}
    assert store.forget(scope, filters=Filters(user_id="u1")).by_kind == {"fact": 1}
    assert (ids(store, "a"), len(ids(store, "b"))) == (["m2"], 4)
    assert store.forget(scope, filters=Filters(user_id="u1")).records == 0


def test_forget_requires_a_selection_of_records(store):
    """Proves: LIVE-7."""
    store.upsert([turn(1)])
    for wrong, field in (
        ({}, "filters"),
        ({"filters": Filters()}, "filters"),
        ({"filters": Filters(min_similarity=0.5)}, "min_similarity"),
        ({"content_types": []}, "content_types"),
        ({"content_types": ["memo"]}, "content_types"),
    ):
        with pytest.raises(InvalidInputError, match=field):
            store.forget(Scope(), **wrong)
    with pytest.raises(InvalidInputError, match="local"):
        store.forget(Scope(agent_id="a", mode="constellation"), content_types=["message"])
    assert store.count() == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[{}]", "names at least one of"),
        ('[{"kinds": []}]', "at least one value"),
        ('[{"kinds": ["memo"]}]', "fact"),
        ('[{"older_than_days": -1}]', "a number from 0 to 36500"),
        ('[{"older": 1}]', "older"),
        ("{", "a JSON list of rules"),
    ],
)
def test_bad_rules_are_refused_at_start(monkeypatch, text, words):
    """Proves: LIVE-7, STOP-4."""
    monkeypatch.setenv("RECALL_LOOP_RETENTION", text)
    with pytest.raises(InvalidInputError, match="RECALL_LOOP_RETENTION") as caught:
        Settings()
    assert words in str(caught.value)
    with pytest.raises(InvalidInputError, match="retention"):
        MemoryStore.in_memory(embedder=WordHashEmbedder(), retention=[json.dumps({})])


def test_rules_come_from_the_environment(monkeypatch):
    """Proves: LIVE-7."""
    monkeypatch.setenv("RECALL_LOOP_RETENTION", '[{"kinds": ["trajectory"], "older_than_days": 90}]')
    assert Settings().retention == (RetentionRule(kinds=[ContentType.TRAJECTORY], older_than_days=90),)
