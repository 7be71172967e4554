"""The analysis of a request, and the queries that are made from it without a language model."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from recall_loop.policy.evidence.coverage import extract_facets
from recall_loop.policy.planning.query_forms import (
    RepeatFilter,
    content_query,
    fallback_queries,
    make_query,
    shorten_query,
)
from recall_loop.policy.question.question import analyse_question
from recall_loop.state.request import ChatMessage, RetrieveRequest
from recall_loop.state.types import QuerySource
from recall_loop.text.words.stop_words import ASKING_WORDS, QUESTION_WORDS, STOP_WORDS
from recall_loop.text.words.tokens import content_words, query_terms, words

NOW = datetime(2024, 6, 15, 12, tzinfo=UTC)
MOST, LONGEST = 12, 120
SKILL = ("Who knows Rust in the data team?",)
ROLE = ("Which engineer at Acme Bank became the manager of the payments group?",)
FOLLOW_UP = (
    "Maria Lopez joined the Berlin office of Acme Corp.",
    ("assistant", "Good to know."),
    "When did she start there, and who hired her?",
)


def question(*messages, goal=None):
    """Analyse a conversation; a bare text is a user message."""
    chat = [ChatMessage(role=m[0], content=m[1]) if isinstance(m, tuple) else ChatMessage(content=m) for m in messages]
    return analyse_question(RetrieveRequest(messages=chat, goal=goal), NOW)


def queries(*messages, goal=None, most=MOST, longest=LONGEST):
    return fallback_queries(question(*messages, goal=goal), most, longest)


def test_the_question_is_the_last_user_message():
    """Proves: QUERY-1."""
    assert question("Where is Ruth?", ("assistant", "At home."), ("tool", "42")).text == "Where is Ruth?"
    assert question("first", "Where is Ruth?").text == "Where is Ruth?"


def test_without_a_user_message_the_last_one_is_the_question():
    """Proves: QUERY-1."""
    assert question(("assistant", "One."), ("tool", "Where is Ruth?")).text == "Where is Ruth?"


@pytest.mark.parametrize(
    "text",
    [
        "When did Hedda mention Ossi Tamm?",
        "What did Tech B think about getting permits?",
        "Compare sauna and steam bath.",
        "What did Maria say it was like being at the waterfall in Norway?",
        "What did the surveyor think about moss and lichen?",
        "I have been to Riga, Bergen, Lahti, and Vilnius.",
        "Thanks, your answer is useful, but I'm looking for its ranking.",
        "4月份，冯浩然与同事郑文博在长沙的哪个地点共进午餐？",
    ],
)
def test_a_question_of_four_content_words_gives_six_queries_that_all_run(text):
    """Proves: QUERY-1, QUERY-3 (none of them is dropped as a repeat of another)."""
    assert len(content_words(text)) >= 4
    assert len(RepeatFilter({}, 0.9).keep(queries(text), MOST)) >= 6


def test_a_question_in_two_pieces_has_two_parts():
    """Proves: QUERY-1."""
    asked = question("Where did Ruth buy the red bicycle and when did Paul sell his old car?")
    assert len(asked.parts) == 2
    assert "bicycle" in asked.parts[0] and "car" in asked.parts[1]
    made = [query["text"] for query in fallback_queries(asked, MOST, LONGEST)]
    assert any("bicycle" in text and "car" not in text for text in made)
    assert any("car" in text.split() and "bicycle" not in text for text in made)


@pytest.mark.parametrize(
    "text",
    ["Where did Ruth buy the red bicycle?", "Who plays cello and piano in the band?", "Ruth? Really?"],
)
def test_a_question_in_one_piece_stays_whole(text):
    """Proves: QUERY-1."""
    assert question(text).parts == (text,)


def test_pronouns_of_a_follow_up_stand_for_names_of_the_window():
    """Proves: QUERY-1."""
    asked = question(*FOLLOW_UP)
    assert "Maria Lopez" in asked.referents and "Acme Corp" in asked.referents
    assert set(asked.referents) <= set(asked.names)


def test_the_newest_name_of_the_window_is_the_first_referent():
    """Proves: QUERY-1."""
    asked = question("Ruth sings in a choir.", "Paul sings in a band.", "What does he play?")
    assert asked.referents.index("Paul") < asked.referents.index("Ruth")


def test_a_question_that_names_somebody_takes_no_referents():
    """Proves: QUERY-1."""
    assert question("Paul sings in a band.", "Did Ruth see him?").referents == ()
    assert question("Paul sings in a band.", "Where is the nearest bakery downtown?").referents == ()


def test_no_names_come_from_what_was_said_after_the_question():
    """Proves: QUERY-1."""
    asked = question("Ruth sings in a choir.", "What does she play?", ("assistant", "I asked Paul about it."))
    assert "Paul" not in asked.names and asked.referents == ("Ruth",)


def test_relative_times_count_from_the_reference_time():
    """Proves: LOOP-9, QUERY-1."""
    asked = question("What did Ruth buy yesterday?")
    assert [time.start for time in asked.times] == [datetime(2024, 6, 14, tzinfo=UTC)]
    assert not any("yesterday" in part.lower() for part in (*asked.names, *asked.phrases))


def test_month_names_are_times_and_no_names():
    """Proves: STOP-5."""
    asked = question("What did Ruth buy in March 2023?")
    assert asked.names == ("Ruth",) and len(asked.times) == 1


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("How many bikes did Ruth buy?", "number"),
        ("How long did the trip take?", "number"),
        ("When did Ruth move?", "date"),
        ("In which year did Ruth move?", "date"),
        ("Who repaired the roof?", "person"),
        ("Whose bicycle was stolen?", "person"),
        ("Where did Ruth move?", None),
        ("Tell me about the whole roof", None),
    ],
)
def test_the_kind_of_answer_is_told_by_the_question_words(text, kind):
    """Proves: STOP-5."""
    assert question(text).asked == kind


def test_of_a_long_text_only_what_asks_is_kept():
    """Proves: QUERY-3."""
    padding = "The weather was fine and nothing happened at all. " * 60
    asked = question(f"{padding} Where did Ruth hide the key? {padding}")
    assert asked.text == "Where did Ruth hide the key?"


@pytest.mark.parametrize("text", ["nothing happened at all. " * 100, "did it rain there? " * 100, "x" * 5000])
def test_the_analysed_text_is_bounded(text):
    """Proves: QUERY-3."""
    assert len(question(text).text) <= 1000


@pytest.mark.parametrize("messages", [SKILL, ROLE, FOLLOW_UP])
def test_six_to_twelve_distinct_queries(messages):
    """Proves: QUERY-1."""
    made = queries(*messages)
    assert 6 <= len(made) <= 12
    assert len({query_terms(query["text"]) for query in made}) == len(made)


def test_a_skill_lookup_asks_for_the_skill_with_its_place_first():
    """Proves: QUERY-1, QUERY-3."""
    made = queries(*SKILL)
    assert set(words(made[0]["text"])) == {"rust", "data", "team"}
    assert any(set(words(query["text"])) == {"rust"} for query in made)
    assert any(query["source"] == QuerySource.SYNONYM for query in made)


def test_a_follow_up_is_asked_with_its_referents():
    """Proves: QUERY-1."""
    made = queries(*FOLLOW_UP)
    assert "Maria Lopez" in made[0]["text"]
    assert any("start" in query["text"] and "Maria Lopez" in query["text"] for query in made)


@pytest.mark.parametrize("messages", [SKILL, ROLE, FOLLOW_UP])
def test_no_stop_or_question_word_is_searched_for(messages):
    """Proves: QUERY-3."""
    for query in queries(*messages):
        used = set(words(query["text"]))
        assert not used & QUESTION_WORDS
        if query["source"] != QuerySource.SYNONYM:
            assert not used & STOP_WORDS
            assert not used & ASKING_WORDS


def test_who_knows_is_no_query():
    """Proves: QUERY-3."""
    assert not any("know" in query["text"].lower() for query in queries(*SKILL))


def test_the_raw_conversation_is_never_a_query():
    """Proves: QUERY-3."""
    made = queries(*FOLLOW_UP)
    said = [message if isinstance(message, str) else message[1] for message in FOLLOW_UP]
    for query in made:
        assert query["text"] not in said
        assert len(words(query["text"])) < len(words(" ".join(said))) / 2


@pytest.mark.parametrize(
    "text",
    [
        "What did you say?",
        "What is on my list?",
        "What do I want?",
        "Rust",
        "and what about the cello?",
        "数据团队",
    ],
)
def test_content_words_always_give_a_query(text):
    """Proves: QUERY-3."""
    assert content_words(text)
    assert queries(text)


@pytest.mark.parametrize("text", ["???", "who is it?", "😀"])
def test_without_any_content_word_there_is_no_query_of_stop_words(text):
    """Proves: QUERY-3."""
    assert not any(set(words(query["text"])) & STOP_WORDS for query in queries(text))


@pytest.mark.parametrize(
    "text", ["Who am I?", "What do I like?", "Where are we from?", "¿Quién soy?", "Was mag ich?", "Кто я?", "我是谁？"]
)
def test_a_question_about_who_asks_is_a_query_though_it_has_no_content_word(text):
    """Proves: QUERY-3 (planning never returns nothing for what can be answered)."""
    assert queries(text)[0]["text"] == text
    assert queries(text)[0]["spoken"] == text


def test_every_query_says_where_it_came_from_and_what_it_is_worth():
    """Proves: QUERY-2."""
    made = queries(*ROLE)
    assert [query["rank"] for query in made] == list(range(1, len(made) + 1))
    for query in made:
        assert query["source"] in set(QuerySource)
        assert 0.0 < query["weight"] <= 1.0
        assert query["seed"] is None and query["entity"] is None and query["missing"] == []
    assert made[0]["weight"] == max(query["weight"] for query in made)


@pytest.mark.parametrize("most", [1, 3, 50])
@pytest.mark.parametrize("longest", [10, 40])
def test_queries_are_capped_in_count_and_length(most, longest):
    """Proves: QUERY-2."""
    made = queries("Which engineer at Acme Bank leads the incomprehensibilities programme?", most=most, longest=longest)
    assert 1 <= len(made) <= most
    assert all(0 < len(query["text"]) <= longest for query in made)


def test_the_goal_adds_a_query_and_never_replaces_the_question():
    """Proves: QUERY-1."""
    made = [query["text"].lower() for query in queries(*SKILL, goal="plan the migration workshop")]
    assert any("migration workshop" in text for text in made)
    assert made[0] == queries(*SKILL)[0]["text"].lower()


def test_equal_questions_give_equal_queries():
    """Proves: LOOP-9."""
    assert queries(*ROLE) == queries(*ROLE)


def test_shorten_cuts_between_words_where_it_can():
    """Proves: QUERY-2."""
    assert shorten_query("red  bicycle\nshop", 100) == "red bicycle shop"
    assert shorten_query("red bicycle shop", 11) == "red bicycle"
    assert shorten_query("red bicycle shop", 10) == "red"
    assert shorten_query("incomprehensibilities", 10) == "incomprehe"


def test_content_query_drops_verbs_of_asking():
    """Proves: QUERY-3."""
    assert content_query("Tell me who knows about the red bicycle") == "red bicycle"


def test_a_planned_query_takes_the_weight_of_its_source_unless_told():
    """Proves: QUERY-2."""
    assert make_query("x", QuerySource.PHRASE)["weight"] >= make_query("x", QuerySource.ENTITY)["weight"]
    assert make_query("x", QuerySource.PHRASE, 0.25)["weight"] == 0.25


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Wie viele Hunde haben wir?", "number"),
        ("Wann fährt Rudi nach Bergen?", "date"),
        ("Wer hat den Hund gefunden?", "person"),
        ("Wo wohne ich?", None),
        ("¿Cuántas ovejas tenemos?", "number"),
        ("¿Cuándo es la boda?", "date"),
        ("¿Con quién viajé?", "person"),
        ("Combien de chats avons-nous ?", "number"),
        ("Quand part le train ?", "date"),
        ("Avec qui ai-je voyagé ?", "person"),
        ("Сколько у нас кошек?", "number"),
        ("Когда свадьба?", "date"),
        ("С кем я ездила в Париж?", "person"),
        ("我们家有几只猫？", "number"),
        ("我什么时候去广州？", "date"),
        ("谁给我打了电话？", "person"),
        ("我住在哪里？", None),
    ],
)
def test_the_kind_of_answer_shows_in_other_languages(text, asked):
    """Proves: OPEN-4, STOP-5."""
    assert question(text).asked == asked


def test_question_words_of_other_languages_are_no_facets():
    """Nor are stop words and verbs of asking. Proves: OPEN-4, STOP-5, QUERY-3."""
    german = question("Kannst du mir sagen, wann unser Hund Geburtstag hat?")
    facets = extract_facets(german)
    assert {term for facet in facets if facet["kind"] != "answer" for term in facet["terms"]} == {"hund", "geburtstag"}
    chinese = question("宋雅静开始快走计划的直接原因是什么？")
    assert chinese.language == "zh" and "什么" not in " ".join(chinese.phrases)
    assert content_query("请告诉我猫的名字") == "猫 名字"
