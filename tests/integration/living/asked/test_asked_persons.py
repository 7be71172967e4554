"""What is told of somebody else answers no question about oneself (CONF-3, LIVE-2, LIVE-3)."""

from __future__ import annotations

import pytest

from recall_loop import Memory, retrieve

SMALL_TALK = ("The weather was awful today.", "Dinner was great.", "The train was late again.")


def recalled(question: str, *told: str):
    with Memory() as memory:
        memory.add(
            [{"role": "user", "content": text} for text in (SMALL_TALK[0], *told, *SMALL_TALK[1:])], user_id="ada"
        )
        return memory.recall(question, user_id="ada")


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Where do I work?", "My wife works at Siemens."),
        ("When was I born?", "My boss was born in 1970."),
        ("What is my favourite colour?", "Anna's favourite colour is green."),
        ("Where does my brother live?", "My sister lives in Bergen."),
        ("Wo arbeite ich?", "Meine Frau arbeitet bei Siemens."),
        ("我住在哪里？", "我姐姐住在卑尔根。"),
        ("¿Dónde vivo?", "Mi hermana vive en Bilbao."),
        ("Где работаю?", "Жена работает в банке."),
        ("Wann habe ich Geburtstag?", "Mein Chef hat am 3. Mai Geburtstag."),
        ("私の誕生日はいつ?", "妻の誕生日は5月3日です。"),
        ("Wanneer ben ik jarig?", "Mijn baas is op 3 mei jarig."),
        ("Waar werk ik?", "Mijn vrouw werkt bij Siemens."),
    ],
)
def test_what_is_told_of_another_is_no_answer(question: str, told: str) -> None:
    """It was called high, and covered by one record; neither it nor its neighbours are. Proves: CONF-3, LIVE-3."""
    result = recalled(question, told)
    assert result.stop.reason != "covered"
    assert result.confidence.label == "low"
    assert result.facts[0].text == told  # it is still the nearest that memory has


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("When is Dad's birthday?", "Mum's birthday is on 3 May."),
        ("Wann hat mein Vater Geburtstag?", "Meine Mutter hat am 3. Mai Geburtstag."),
        ("¿Cuándo es el cumpleaños de mi padre?", "El cumpleaños de mi madre es el 3 de mayo."),
        ("C'est quand, l'anniversaire de mon père ?", "L'anniversaire de ma mère est le 3 mai."),
        ("Когда день рождения у папы?", "День рождения мамы 3 мая."),
        ("我爸的生日是什么时候？", "我妈的生日是五月三号。"),
        ("父の誕生日はいつ?", "母の誕生日は5月3日です。"),
        ("Wanneer is mijn vader jarig?", "Mijn moeder is op 3 mei jarig."),
        ("When is Ruth's birthday?", "Paul's birthday is on 3 May."),
    ],
)
def test_a_date_of_another_is_no_answer(question: str, told: str) -> None:
    """It was medium or high, by what was told beside it, too. Proves: CONF-3, LIVE-3."""
    assert recalled(question, told).confidence.label == "low"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("When is Dad's birthday?", "My father was born on 3 May."),
        ("When is Gus's birthday?", "Gustav's birthday is on 3 May."),
        ("我爸爸的生日是什么时候？", "我爸的生日是五月三号。"),
    ],
)
def test_another_word_for_the_same_person_is_one(question: str, told: str) -> None:
    """Proves: CONF-3."""
    assert recalled(question, told).confidence.label != "low"


def test_own_statement_comes_first() -> None:
    """Also where another's is nearer to the words of the question. Proves: LIVE-2."""
    result = recalled("Where do I live?", "My sister lives in Bergen.", "We live in a flat above a bakery in Oslo.")
    assert "Oslo" in result.facts[0].text
    assert "Bergen" in result.facts[1].text


def test_what_was_just_talked_of_is_no_answer_either() -> None:
    """The names of the conversation are no referents of "I". Proves: CONF-3, LIVE-3."""
    told = "My wife Carla works at Siemens."
    with Memory() as memory:
        memory.add([{"role": "user", "content": told}], user_id="ada")
        said = ({"role": "user", "content": told}, {"role": "assistant", "content": "Noted."})
        request = {"messages": [*said, {"role": "user", "content": "Where do I work?"}], "user_id": "ada"}
        result = retrieve(request, store=memory.store)
    assert result.confidence.label == "low"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Where did I leave the keys to the bike?", "My wife has the keys to the bike."),
        ("¿Dónde dejé las llaves del trastero?", "Mi mujer tiene las llaves del trastero."),
        ("Où ai-je mis les clés de la cave ?", "C'est mon mari qui a les clés de la cave."),
    ],
)
def test_who_has_what_i_put_somewhere_is_the_answer(question: str, told: str) -> None:
    """It counted as somebody else's, and was low. Proves: CONF-3, LIVE-2."""
    result = recalled(question, told)
    assert result.facts[0].text == told
    assert result.confidence.label in ("medium", "high")


@pytest.mark.parametrize(
    ("question", "who", "told"),
    [
        ("Where did Ruth get married?", "My sister Ruth is vegan.", "We got married in Whitby."),
        ("Where does Ruth work?", "Ruth is my sister.", "I work at Siemens."),
        ("¿Dónde vive Carla?", "Mi hija Carla tiene 27 años.", "Vivo en Vigo."),
        ("Где работает Вера?", "Моя сестра Вера не ест мяса.", "Я работаю в банке."),
    ],
)
def test_a_relative_is_known_by_name(question: str, who: str, told: str) -> None:
    """What one tells of oneself was taken for an answer, at `high`. Proves: CONF-3, LIVE-2."""
    with Memory() as memory:
        memory.add([{"role": "user", "content": text} for text in (who, told)], user_id="ada")
        result = memory.recall(question, user_id="ada")
    assert result.stop.reason != "covered"
    assert result.facts[0].text == who
    assert result.confidence.score < 0.6


def test_a_sister_stays_where_she_lives_when_i_move() -> None:
    """My move took the first place, and her town was marked as out of date. Proves: LIVE-4."""
    with Memory() as memory:
        for month, text in (("01", "My sister lives in Oslo."), ("03", "I moved to Bergen.")):
            said = {"role": "user", "content": text, "timestamp": f"2024-{month}-01T09:00:00Z"}
            memory.add([said], user_id="ada")
        first = memory.recall("Where does my sister live?", user_id="ada").facts[0]
    assert "Oslo" in first.text
    assert first.superseded_by_hint is None


@pytest.mark.parametrize(
    ("question", "wished"),
    [
        ("Where do I live?", "I'd love to live in Lisbon some day."),
        ("Wo wohne ich?", "Am liebsten würde ich in Hamburg wohnen."),
        ("¿Dónde vivo?", "Ojalá pudiera vivir en Cádiz."),
    ],
)
def test_what_is_wished_for_is_not_what_is(question: str, wished: str) -> None:
    """It was called medium or high. Proves: CONF-3, LIVE-2."""
    assert recalled(question, wished).confidence.label == "low"


def test_a_wish_answers_what_is_wished_for() -> None:
    """Proves: LIVE-2."""
    result = recalled("Where would I love to live?", "I'd love to live in Lisbon some day.")
    assert "Lisbon" in result.facts[0].text
    assert result.confidence.label != "low"


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Who is my judo teacher?", "I go to judo on Thursdays."),
        ("¿Quién es mi maestro de judo?", "Tengo entrenamiento de judo todos los jueves."),
        ("Кто мой тренер по дзюдо?", "По четвергам я хожу на дзюдо."),
        ("Who is the fire inspector?", "The fire inspection is on 12 May."),
    ],
)
def test_what_tells_of_nobody_is_no_answer_to_who(question: str, told: str) -> None:
    """It was medium, since it is on the matter. Proves: CONF-3."""
    result = recalled(question, told)
    assert result.confidence.label == "low"
    assert result.facts[0].text == told


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Who is my judo teacher?", "Akira teaches my judo class."),
        ("Who is my judo teacher?", "my judo teacher is akira"),
        ("Who waters the garden?", "I water the garden myself."),
        ("¿Quién es mi maestro de judo?", "Mi vecina es mi maestra de judo."),
    ],
)
def test_whoever_is_told_of_may_be_who_is_asked_for(question: str, told: str) -> None:
    """Proves: CONF-3."""
    assert recalled(question, told).confidence.label != "low"


@pytest.mark.parametrize("kind", ["fact", "message"])
@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("When does my car insurance expire?", "User's car insurance expires on 30 September 2024."),
        ("Where do I live?", "User lives in Leeds with his wife Hannah."),
        ("When does my passport expire?", "Ada's passport expires on 11 August 2029."),
    ],
)
def test_what_a_fact_tells_of_its_user_is_told_of_who_asks(question: str, told: str, kind: str) -> None:
    """It was taken for somebody else's, and low, at a similarity of .98. Proves: CONF-3, LIVE-2."""
    with Memory() as memory:
        memory.add([{"kind": kind, "text": text} for text in (told, "User is vegetarian.")], user_id="ada")
        result = memory.recall(question, user_id="ada")
    assert result.facts[0].text == told
    assert result.stop.reason == "covered"
    assert result.confidence.label != "low"


def test_what_a_fact_tells_of_its_users_wife_is_still_another() -> None:
    """Nor is what somebody says of a user of theirs told of who asks. Proves: CONF-3, LIVE-2."""
    with Memory() as memory:
        memory.add({"kind": "fact", "text": "User's wife works at Siemens."}, user_id="ada")
        memory.add({"role": "user", "content": "Bo works at Siemens."}, user_id="bo")
        assert memory.recall("Where do I work?", user_id="ada").confidence.label == "low"
        assert memory.recall("Where do I work?", user_id="bo").confidence.label == "low"


def test_a_users_move_changes_nothing_of_what_the_sister_eats() -> None:
    """Both facts tell of "User": the move came first, and the sister was marked as out of date. Proves: LIVE-4."""
    facts = [("01", "User's sister Mary is vegan."), ("02", "User lives in Bergen."), ("03", "User moved to Oslo.")]
    with Memory() as memory:
        told = [{"kind": "fact", "text": text, "created_at": f"2024-{month}-01T09:00:00Z"} for month, text in facts]
        memory.add(told, user_id="u-5")
        sister = memory.recall("Is Mary vegan?", user_id="u-5").facts[0]
        home, before = memory.recall("Where do I live?", user_id="u-5").facts[:2]
    assert sister.text == "User's sister Mary is vegan."
    assert sister.superseded_by_hint is None
    assert home.text == "User moved to Oslo."
    assert before.superseded_by_hint == home.id


IN_A_GROUP = (
    ("Ana", "My desk phone is 4411."),
    ("Ben", "My desk phone is 4522."),
    ("Ben", "I work in the old harbour office."),
    ("Ben", "We meet on Mondays at nine."),
)


@pytest.mark.parametrize(
    ("who", "question", "first", "sure"),
    [
        ("Ana", "What is my desk phone?", "My desk phone is 4411.", True),
        ("Ben", "What is my desk phone?", "My desk phone is 4522.", True),
        ("Ana Ruiz", "Where do I work?", "I work in the old harbour office.", False),
        ("Ana", "When do I meet the team?", "We meet on Mondays at nine.", True),
    ],
)
def test_in_a_group_i_am_the_one_who_asks(who: str, question: str, first: str, sure: bool) -> None:
    """The same came first whoever asked, and another's own statement was high. Proves: CONF-3, LIVE-2."""
    with Memory() as memory:
        said = [{"role": "user", "author": author, "content": text} for author, text in IN_A_GROUP]
        memory.add(said, conversation_id="team")
        result = memory.recall([{"author": who, "content": question}], conversation_id="team")
    assert result.facts[0].text == first
    assert (result.confidence.label != "low") == sure


@pytest.mark.parametrize(
    ("question", "told"),
    [
        ("Who is Dr Lindqvist?", "skipped the run, physio appointment with Dr Lindqvist on Thursday at 8:45"),
        ("Wer ist Dr. Behrens?", "Termin bei Dr. Behrens am Donnerstag wegen der Knie, um 8:45"),
        ("¿Quién es Marta?", "El jueves a las 8:45 tengo fisioterapia con Marta."),
        ("Chi è Luca?", "Giovedì alle 8:45 ho fisioterapia con Luca."),
    ],
)
def test_what_names_a_person_tells_who_that_is(question: str, told: str) -> None:
    """It was no evidence for want of another name, with a confidence of 0. Proves: CONF-3, OPEN-4."""
    result = recalled(question, told)
    assert result.facts[0].text == told
    assert result.confidence.score > 0.3


def test_a_person_who_is_not_named_stays_unknown() -> None:
    """Proves: CONF-3."""
    result = recalled("Who is Dr Brown?", "skipped the run, physio appointment with Dr Lindqvist on Thursday at 8:45")
    assert result.confidence.label == "low"
