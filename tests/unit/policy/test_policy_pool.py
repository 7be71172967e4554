"""The evidence pool and what leads from it: merging, bridges, absorbed messages."""

from __future__ import annotations

import copy
from datetime import UTC, datetime

import pytest

from recall_loop.policy.evidence.evidence_folding import (
    Supersession,
    attach_sources,
    demote_superseded,
    fold_messages,
    unread_source_ids,
)
from recall_loop.policy.evidence.merging import QueryHits, merge_hits
from recall_loop.policy.evidence.ranking import RankedEntry
from recall_loop.policy.evidence.repeats import fold_repeats
from recall_loop.policy.planning.bridges import bridge_candidates, bridge_queries, candidate_terms
from recall_loop.policy.planning.query_forms import make_query
from recall_loop.policy.question.question import analyse_question
from recall_loop.state.records.records import RECORD_ADAPTER, SearchHit
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.types import QuerySource
from recall_loop.text.words.tokens import stems

NOW = datetime(2024, 6, 15, 12, tzinfo=UTC)
ASKED = "Where was the director of the film Blue Horse born?"


def question(text=ASKED):
    return analyse_question(RetrieveRequest(messages=[{"content": text}]), NOW)


def hit(record_id, text, score=0.8, similarity=0.7, kind="archival", window="", **fields):
    record = RECORD_ADAPTER.validate_python({"id": record_id, "kind": kind, "text": text, **fields})
    return SearchHit(record=record, similarity=similarity, score=score, window=window)


def found(*hits, query="q", weight=1.0, source=QuerySource.PHRASE):
    return QueryHits(make_query(query, source, weight), hits)


def merged(*parts, pool=None, iteration=1):
    return merge_hits(pool or {}, parts, iteration, frozenset(stems(ASKED)))


def only(result):
    (entry,) = result.pool.values()
    return entry


def of(result, record_id):
    return next(entry for entry in result.pool.values() if entry["record"]["id"] == record_id)


def returned(pool, most=30):
    """Return the pool's entries as a result holds them, best first."""
    ranked = [
        RankedEntry(entry, entry["relevance"], {})
        for entry in sorted(pool.values(), key=lambda entry: -entry["relevance"])
    ]
    return [item.entry for item in fold_messages(ranked, most, frozenset(stems(ASKED)))]


def ids(entries):
    return [entry["record"]["id"] for entry in entries]


# Merging


def test_the_best_of_several_queries_counts():
    """Proves: QUERY-4, RANK-2."""
    parts = [found(hit("a", "kettle", score), query=f"q{at}") for at, score in enumerate((0.3, 0.9, 0.5))]
    entry = only(merged(*parts))
    assert entry["relevance"] == 0.9
    assert [match["query"] for match in entry["matches"]] == ["q0", "q1", "q2"]


def test_a_querys_weight_discounts_its_hits():
    """Proves: QUERY-2, QUERY-4."""
    strong = only(merged(found(hit("a", "kettle", 0.6))))
    weak = only(merged(found(hit("a", "kettle", 0.9), weight=0.3)))
    assert weak["relevance"] < strong["relevance"]


def test_the_same_fact_of_two_sources_is_one_entry_with_two_pieces_of_evidence():
    """Proves: RANK-1, RANK-2."""
    same = {"kind": "fact", "subject": "Ruth", "fact_type": "works_at", "object": "Acme"}
    result = merged(
        found(hit("f1", "Ruth works at Acme.", source_ids=["m1"], **same)),
        found(hit("f2", "Ruth is employed by ACME!", source_ids=["m2"], **same), query="other"),
    )
    entry = only(result)
    assert [item["source_id"] for item in entry["evidence"]] == ["m1", "m2"]
    assert len(set(entry["evidence_keys"])) == 2
    assert (result.duplicates, result.new_evidence, len(result.pool)) == (1, 2, 1)
    assert len(entry["matches"]) == 2


def test_the_same_source_twice_is_one_piece_of_evidence():
    """Proves: RANK-1, RANK-2."""
    same = {"kind": "fact", "subject": "Ruth", "fact_type": "works_at", "object": "Acme", "source_ids": ["m1"]}
    entry = only(merged(found(hit("f1", "Ruth works at Acme.", **same), hit("f2", "Ruth works at Acme", **same))))
    assert len(entry["evidence_keys"]) == len(entry["evidence"]) == 1


def test_two_messages_of_equal_words_stay_two():
    """Proves: RANK-1."""
    assert len(merged(found(hit("m1", "yes", kind="message"), hit("m2", "yes", kind="message"))).pool) == 2


def test_a_record_without_sources_is_its_own_evidence():
    """Proves: RANK-2."""
    pool = merged(found(hit("a", "kettle", author="Ruth", created_at="2024-01-02T03:04:05Z"))).pool
    ((item,),) = [entry["evidence"] for entry in returned(pool)]
    assert (item["source_id"], item["snippet"], item["author"]) == ("a", "kettle", "Ruth")
    assert item["created_at"].startswith("2024-01-02T03:04:05")


def test_snippets_show_the_questions_terms():
    """Proves: RANK-2, SEARCH-8."""
    text = "rain " * 200 + "the director was born in Lisbon " + "rain " * 200
    ((item,),) = [entry["evidence"] for entry in returned(merged(found(hit("a", text))).pool)]
    assert "director" in item["snippet"] and len(item["snippet"]) < 300


def test_a_later_iteration_adds_matches_and_keeps_the_first():
    """Proves: RANK-2."""
    first = merged(found(hit("a", "kettle", 0.9)))
    second = merged(found(hit("a", "kettle", 0.2), query="other"), pool=first.pool, iteration=2)
    entry = only(second)
    assert entry["first_iteration"] == 1 and entry["relevance"] == 0.9
    assert [match["iteration"] for match in entry["matches"]] == [1, 2]
    assert set(second.pool) == set(first.pool) and second.duplicates == 1


def test_what_a_later_iteration_finds_first_is_marked():
    """Proves: RANK-2, STOP-1."""
    first = merged(found(hit("a", "kettle")))
    second = merged(found(hit("b", "pot"), query="other"), pool=first.pool, iteration=2)
    assert of(second, "b")["first_iteration"] == 2
    assert set(second.pool) - set(first.pool) == {of(second, "b")["key"]}


def test_merging_leaves_its_input_alone():
    """Proves: RANK-2."""
    same = {"kind": "fact", "subject": "Ruth", "fact_type": "works_at", "object": "Acme"}
    pool = merged(found(hit("f1", "Ruth works at Acme.", source_ids=["m1"], **same))).pool
    before = copy.deepcopy(pool)
    merged(found(hit("f2", "She works there", 0.99, source_ids=["m2"], **same), query="x"), pool=pool, iteration=2)
    assert pool == before


def test_the_pool_holds_no_vectors_and_is_plain_json():
    """Proves: LOOP-2."""
    import json

    pool = merged(found(hit("a", "kettle", created_at="2024-01-02T03:04:05Z", tags=["x"]))).pool
    assert json.loads(json.dumps(pool)) == pool


def test_two_records_of_other_kinds_never_share_a_key():
    """Proves: RANK-1."""
    kinds = ("fact", "archival", "message", "trajectory")
    assert len(merged(found(*(hit(f"r-{kind}", "copper kettle", kind=kind) for kind in kinds))).pool) == 4


# Bridges: film -> director -> birthplace

FILM = hit("film", "Blue Horse is a film directed by Anna Kowalska.", 0.9, label="Blue Horse")
PERSON = hit("person", "Anna Kowalska was born in Lodz and studied painting.", 0.4, label="Anna Kowalska")
OTHER = hit("other", "Lodz is a city with many mills.", 0.3, label="Lodz")
FREQUENT = {"anna": 3, "kowalska": 3}
ROWS = 1000


def person(score):
    return PERSON.model_copy(update={"score": score})


def bridging(pool, frequencies=FREQUENT, asked=ASKED, longest=120):
    ranked = sorted(pool.values(), key=lambda entry: -entry["relevance"])
    return bridge_queries(bridge_candidates(question(asked), ranked), frequencies, ROWS, longest)


def test_a_question_of_two_hops_gives_the_right_bridge():
    """Proves: QUERY-4."""
    (bridge, *_) = bridging(merged(found(FILM)).pool)
    assert bridge["entity"] == "Anna Kowalska"
    assert "born" in bridge["missing"] and "Anna Kowalska" in bridge["text"] and "born" in bridge["text"]
    assert not set(stems("blue horse film")) & set(stems(bridge["text"]))
    assert bridge["source"] == QuerySource.FEEDBACK
    assert bridge["seed"] == of(merged(found(FILM)), "film")["key"]


def test_each_bridge_is_a_query_of_its_own():
    """Proves: QUERY-4."""
    seed = hit("film", "Blue Horse is a film directed by Anna Kowalska and Igor Novak.", label="Blue Horse")
    made = bridging(merged(found(seed)).pool, {"anna": 3, "kowalska": 3, "igor": 4, "novak": 4})
    assert {bridge["entity"] for bridge in made} == {"Anna Kowalska", "Igor Novak"}
    assert not any("Anna" in bridge["text"] and "Igor" in bridge["text"] for bridge in made)


def test_what_stands_beside_the_questions_words_comes_first():
    """Proves: QUERY-4. Of the many names in a long record few have to do with what was asked."""
    crowd = " ".join(f"Later {name} came to Lodz." for name in ("Olga Reyes", "Paul Ivers", "Ines Duarte", "Tom Abel"))
    film = hit("film", f"{crowd} The director of the film Blue Horse was Anna Kowalska. {crowd}", label="Cinema")
    made = bridge_candidates(question(), list(merged(found(film)).pool.values()))
    assert [link.entity for link in made][:3] == ["Anna Kowalska", "Cinema", "Olga Reyes"]


def test_each_seed_has_its_first_bridge_before_any_second():
    """Proves: QUERY-4. What only sounds alike doesn't keep the right record waiting."""
    noise = hit("noise", "Blue Horse met Olga Reyes. Paul Ivers saw Blue Horse.", 0.95, label="Noise")
    made = bridge_candidates(question(), list(merged(found(noise, FILM)).pool.values()))
    assert [link.seed["record"]["id"] for link in made] == ["noise", "film", "noise", "noise"]


def test_names_of_the_question_are_no_bridges():
    """Proves: QUERY-4."""
    made = bridging(merged(found(FILM)).pool, {"blue": 3, "hors": 3, **FREQUENT})
    assert {bridge["entity"] for bridge in made} == {"Anna Kowalska"}


@pytest.mark.parametrize("rows", [0, 1, 999])
def test_lonely_and_ubiquitous_entities_are_no_bridges(rows):
    """Proves: QUERY-4."""
    assert bridging(merged(found(FILM)).pool, {"anna": rows, "kowalska": rows}) == []


def test_a_messages_own_neighbours_do_not_make_a_link():
    """Proves: QUERY-4, STORE-7."""
    pool = merged(found(hit("m", "Blue Horse was directed by Anna Kowalska.", kind="message"))).pool
    assert bridging(pool, {"anna": 3, "kowalska": 3}) == []
    assert bridging(pool, {"anna": 6, "kowalska": 6}) != []


@pytest.mark.parametrize("field", ["author", "subject"])
def test_speakers_are_no_bridges(field):
    """Proves: QUERY-4."""
    kind = "message" if field == "author" else "fact"
    speaks = hit("s", "I saw the film yesterday.", 0.2, kind=kind, **{field: "Anna Kowalska"})
    assert bridging(merged(found(FILM, speaks)).pool, {"anna": 6, "kowalska": 6}) == []


def test_a_record_that_has_all_words_of_the_question_needs_no_bridge():
    """Proves: QUERY-4."""
    whole = hit("w", "The director of the film Blue Horse, Anna Kowalska, was born in Lodz.")
    assert bridge_candidates(question(), list(merged(found(whole)).pool.values())) == []
    assert bridge_candidates(question(), []) == []


def test_link_terms_are_what_is_to_be_looked_up():
    """Proves: QUERY-4."""
    terms = candidate_terms(bridge_candidates(question(), list(merged(found(FILM)).pool.values())))
    assert {"anna", "kowalska"} <= set(terms) and len(terms) == len(set(terms))


LONG = "Which architect, painter, sculptor, engraver, photographer and illustrator from the northern provinces taught"


def test_a_bridge_names_its_entity_however_long_the_question_is():
    """Proves: QUERY-2, QUERY-4."""
    made = bridging(merged(found(FILM)).pool, asked=f"{LONG} the director of Blue Horse?", longest=40)
    assert made
    assert all(len(bridge["text"]) <= 40 and bridge["entity"] in bridge["text"] for bridge in made)


def crossed(*hits, pool=None):
    """Merge the film, then its bridge with `hits`."""
    first = pool or merged(found(FILM)).pool
    return merge_hits(first, [QueryHits(bridging(first)[0], hits)], 2, frozenset())


def test_a_bridge_leads_to_a_place_below_its_seed():
    """Proves: QUERY-4."""
    result = crossed(person(1.0))
    assert 0.0 < of(result, "person")["relevance"] < of(result, "film")["relevance"]


def test_what_crosses_a_bridge_outranks_what_only_sounds_alike():
    """Proves: QUERY-4."""
    pool = merged(found(FILM, PERSON, hit("noise", "A horse was born in the blue barn.", 0.45))).pool
    result = crossed(person(0.8), pool=pool)
    assert of(result, "person")["relevance"] > of(result, "noise")["relevance"]


def test_a_hit_without_the_bridges_entity_gets_no_bridge_credit():
    """Proves: QUERY-4."""
    result = crossed(person(0.9), hit("born", "Paul was born in Rome.", 1.0))
    rest = [entry for entry in result.pool.values() if entry["record"]["id"] == "born"]
    assert all(entry["relevance"] < of(result, "person")["relevance"] for entry in rest)


def test_credit_falls_with_the_bridges_own_rank():
    """Proves: QUERY-4."""
    texts = ("was born in Lodz", "was born in winter", "was born late")
    hits = [hit(f"p{at}", f"Anna Kowalska {text}.", 0.8 - at / 100) for at, text in enumerate(texts)]
    credits = [of(crossed(*hits), f"p{at}")["relevance"] for at in range(3)]
    assert credits == sorted(credits, reverse=True) and len(set(credits)) == 3


def test_the_record_that_is_about_the_entity_goes_first():
    """Proves: QUERY-4. A label that only holds the entity among other words is another matter."""
    hits = [hit(f"p{at}", "Anna Kowalska met them.", 0.8 - at / 20, label=f"The {at} others") for at in range(4)]
    about = hit("about", "Born in Lodz.", 0.5, label="Anna Kowalska")
    beside = hit("beside", "Born in Lodz.", 0.5, label="Anna Kowalska Prize")
    plain, led = crossed(*hits, beside), crossed(*hits, about)
    assert "beside" not in ids(plain.pool.values())
    assert of(led, "about")["relevance"] > of(led, "p1")["relevance"]
    assert of(led, "about")["relevance"] < of(led, "film")["relevance"]


def test_the_seed_itself_gets_nothing_from_its_bridge():
    """Proves: QUERY-4."""
    before = of(merged(found(FILM)), "film")
    after = of(crossed(hit("film", FILM.record.text, 1.0, label="Blue Horse")), "film")
    assert after["relevance"] == before["relevance"]


def test_a_bridge_never_lowers_what_a_direct_query_gave():
    """Proves: QUERY-4, RANK-2."""
    pool = merged(found(FILM, person(0.95))).pool
    assert of(crossed(person(0.1), pool=pool), "person")["relevance"] == 0.95


# Messages that a fact was drawn from

FACT = {"kind": "fact", "subject": "Ruth", "fact_type": "owns", "object": "kettle", "source_ids": ["m1"]}


def drawn(fact_score=0.5, message_score=0.5):
    return merged(
        found(
            hit("m1", "I own a copper kettle", message_score, kind="message", author="Ruth"),
            hit("m2", "Nice!", 0.2, kind="message"),
            hit("f1", "Ruth owns a kettle.", fact_score, **FACT),
        )
    ).pool


@pytest.mark.parametrize(("fact_score", "message_score"), [(0.5, 0.9), (0.9, 0.5)])
def test_a_message_named_by_a_returned_fact_becomes_its_evidence(fact_score, message_score):
    """Proves: RANK-1."""
    kept = returned(drawn(fact_score, message_score))
    assert ids(kept) == ["f1", "m2"]
    (item,) = kept[0]["evidence"]
    assert (item["source_id"], item["snippet"], item["author"]) == ("m1", "I own a copper kettle", "Ruth")


def test_a_fact_is_no_quotation_of_a_source_that_was_not_found():
    """Proves: RANK-1, RANK-2 (its snippet is read from the store, or stays empty)."""
    ((item,),) = [entry["evidence"] for entry in returned(merged(found(hit("f1", "Ruth owns a kettle.", **FACT))).pool)]
    assert item == {"source_id": "m1", "snippet": "", "author": None, "created_at": None}


def test_sources_are_read_where_the_store_has_them():
    """Proves: RANK-2."""
    (item,) = [
        RankedEntry(entry, 0.5, {}) for entry in returned(merged(found(hit("f1", "Ruth owns it.", **FACT))).pool)
    ]
    assert unread_source_ids([item]) == ["m1"]
    said = {"id": "m1", "text": "I have a kettle.", "author": "Ruth", "created_at": "2024-01-01T00:00:00Z"}
    (read,) = attach_sources([item], {"m1": said}, frozenset())
    assert read.entry["evidence"][0]["snippet"] == "I have a kettle."
    assert read.entry["evidence"][0]["author"] == "Ruth"
    assert unread_source_ids([read]) == []


def test_a_message_stays_where_its_fact_is_cut_off():
    """A strong message must not vanish with a weak fact. Proves: RANK-1, RANK-4."""
    assert ids(returned(drawn(fact_score=0.1, message_score=0.9), most=1)) == ["m1"]
    assert ids(returned(drawn(fact_score=0.1, message_score=0.9), most=2)) == ["m1", "m2"]


def test_a_fact_takes_the_better_place_of_itself_and_its_messages():
    """Proves: RANK-1, RANK-4."""
    assert ids(returned(drawn(fact_score=0.1, message_score=0.9), most=3)) == ["f1", "m2"]


def test_the_place_of_a_folded_message_goes_to_the_next_best():
    """Proves: RANK-1, RANK-4."""
    assert ids(returned(drawn(fact_score=0.8, message_score=0.9), most=2)) == ["f1", "m2"]
    assert len(returned(drawn(), most=2)) == 2


def test_only_facts_fold_messages():
    """Proves: RANK-1."""
    note = hit("n", "Notes on kettles", 0.9, source_ids=["m1"])
    pool = merged(found(note, hit("m1", "I own a copper kettle", 0.5, kind="message"))).pool
    assert ids(returned(pool)) == ["n", "m1"]


SAID = ("I own a copper kettle", "Yes, the kettle is mine")


def told_twice(second):
    """Return the pool of a fact that two messages say, as two records of which `second` has the fields of one."""
    messages = [hit(f"m{at}", text, 0.6, kind="message", author="Ruth") for at, text in enumerate(SAID, 1)]
    facts = [hit("f1", "Ruth owns a kettle.", 0.9, **FACT), hit("f2", score=0.8, **second)]
    return merged(found(*facts, *messages)).pool


def test_a_fact_folds_the_messages_of_every_fact_merged_into_it():
    """Proves: RANK-1, RANK-2 (one key, two sources: neither source stands as an item of its own)."""
    (item,) = returned(told_twice({**FACT, "text": "Ruth owns a kettle.", "source_ids": ["m2"]}))
    assert item["record"]["id"] == "f1"
    assert {(source["source_id"], source["snippet"]) for source in item["evidence"]} == {
        ("m1", SAID[0]),
        ("m2", SAID[1]),
    }


def test_a_fact_folds_the_messages_of_its_repeats():
    """Proves: RANK-1, LIVE-6 (of a repeat with a key of its own, too)."""
    pool = told_twice({**FACT, "text": "Kettle: Ruth owns a kettle.", "fact_type": "has", "source_ids": ["m2"]})
    ranked = [RankedEntry(entry, entry["relevance"], {}) for entry in pool.values()]
    (item,) = fold_messages(fold_repeats(ranked), 30, frozenset())
    assert {source["source_id"] for source in item.entry["evidence"]} == {"m1", "m2"}


def test_a_message_of_a_merged_fact_that_holds_is_not_outdated():
    """Proves: RANK-1, LIVE-4 (it is the source of what still holds, if not of the record that stands for it)."""
    pool = told_twice({**FACT, "text": "Ruth owns a kettle.", "source_ids": ["m2"]})
    ranked = [RankedEntry(entry, entry["relevance"], {}) for entry in pool.values()]
    ordered = demote_superseded(ranked, {"m2": Supersession("f1", "2024-05-01T00:00:00Z")})
    assert not any(item.entry["record"].get("superseded_by") for item in ordered)


def test_returning_leaves_the_pool_alone():
    """Proves: RANK-1."""
    pool = drawn()
    before = copy.deepcopy(pool)
    returned(pool)
    assert pool == before
