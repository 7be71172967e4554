"""Speech acts of sentences, in many languages. Proves: LIVE-1."""

from __future__ import annotations

import itertools

import pytest

from recall_loop.policy.prompting.answer_composition import NOT_IN_MEMORY, NOT_SEARCHED
from recall_loop.state.types import Role, SpeechAct
from recall_loop.text.speech.speech_acts import (
    READ_CHARACTERS,
    asks_to_forget,
    find_speech_acts,
    is_about_questions,
    speech_acts,
    stated_text,
)

S, Q, R, A, N = (
    SpeechAct.STATEMENT,
    SpeechAct.QUESTION,
    SpeechAct.REQUEST,
    SpeechAct.ACKNOWLEDGEMENT,
    SpeechAct.NON_ANSWER,
)

SENTENCES = [
    ("Dove Cameron concert is on 3 May", S),
    ("Quando restaurant booked for 8", S),
    ("Wat Arun visit on Tuesday", S),
    ("Welke Rosen liegen im Garten", S),
    ("Cosa rara, el piso cuesta 850", S),
    ("wat is de prijs", SpeechAct.QUESTION),
    ("dove abita Nina", SpeechAct.QUESTION),
    ("chi sei", SpeechAct.QUESTION),
    ("Forget that I have a cat.", R),
    ("Delete what I said about Lena.", R),
    ("Forget-me-nots are my favourite flowers.", S),
    ("Forget it, I'll do it myself.", S),
    ("I forget names easily.", S),
    ("Vergiss, dass ich eine Katze habe.", R),
    ("Lösch alles über Lena.", R),
    ("Vergiss nicht, dass ich eine Katze habe.", S),
    ("Olvídate de mi dirección.", R),
    ("Borra lo que dije de Lena.", R),
    ("No olvides que tengo un gato.", S),
    ("Oublie que j'ai un chat.", R),
    ("Efface ce que j'ai dit.", R),
    ("N'oublie pas que j'ai un chat.", S),
    ("Забудь, что у меня есть кот.", R),
    ("Удали мой адрес.", R),
    ("Не забудь, что у меня есть кот.", S),
    ("忘掉我的密码。", R),
    ("请忘了我的地址。", R),
    ("忘记带钥匙了。", S),
    ("别忘了我有一只猫。", S),
    ("猫がいることは忘れてください。", R),
    ("住所のメモを消して。", R),
    ("鍵を忘れて出かけた。", S),
    ("猫がいること、忘れないでね。", S),
    ("ジムは何曜日に行ってる", Q),
    ("歯医者いつだっけ", Q),
    ("弟はどこで働いていますか。", Q),
    ("この文章を訳してください。", R),
    ("昨日は何も食べなかった", S),
    ("弟がどこで働いてるかは知らないけど元気らしい", S),
    ("ナッツアレルギーなので、ナッツなしでお願いします。", S),
    ("りんって呼んでください。", S),
    ("土曜は仕事だって覚えておいてくれますか?", S),
    ("母がケーキを焼いてくれた。", S),
    ("了解です!", A),
    ("ありがとうございます、覚えておきます。", A),
    ("なるほど、そうなんですね", A),
    ("わかりません。", N),
    ("Vergeet dat ik een kat heb.", R),
    ("Verwijder mijn adres.", R),
    ("Vergeet niet dat ik een kat heb.", S),
    ("hoe heet m'n zus ook alweer", Q),
    ("Weet je nog waar ik werk", Q),
    ("Zeg me waar ik woon.", Q),
    ("Kun je een boek aanraden?", R),
    ("Kun je onthouden dat ik zaterdag werk?", S),
    ("Ik ben verhuisd, toch?", S),
    ("Wat een dag was dat.", S),
    ("Dat onthoud ik.", A),
    ("Bedankt, tot morgen!", A),
    ("Geen idee.", N),
    ("Danke, das merke ich mir.", A),
    ("In Ordnung, gespeichert.", A),
    ("Habe ich mir notiert.", A),
    ("Gut zu wissen.", A),
    ("Merci, je m'en souviendrai.", A),
    ("Je le note.", A),
    ("Bon à savoir !", A),
    ("Gracias, lo recordaré.", A),
    ("¡Es bueno saberlo!", A),
    ("Tomo nota.", A),
    ("I've made a note of it.", A),
    ("Thanks, I'll keep that in mind.", A),
    ("Спасибо, запомню.", A),
    ("Буду знать.", A),
    ("好的，我会记住的。", A),
    ("谢谢你告诉我。", A),
    ("Ich merke mir Gesichter schlecht.", S),
    ("Gespeichert habe ich 4412.", S),
    ("Je note mes rêves.", S),
    ("Lo recordaré el lunes con Ana.", S),
    ("I've made a note of the code: 4412.", S),
    ("It's good to know Anna is a vegan.", S),
    ("Я запомню этот день в Казани.", S),
    ("我会记住你的生日是五月三号。", S),
    ("The heron nests behind the boathouse.", S),
    ("When I was in Turin I broke my wrist.", S),
    ("What I like best is rhubarb.", S),
    ("Remember that the gate code is 4471.", S),
    ("We moved the seminar to Thursday, right?", S),
    ("My tutor is Dr. Lindqvist of St. Olav's.", S),
    ("Can you remember that my locker is number 12?", S),
    ("Could you please keep in mind that I work on Saturdays?", S),
    ("Did you know that the heron nests behind the boathouse?", S),
    ("Kannst du dir merken, dass mein Spind die Nummer 12 hat?", S),
    ("¿Puedes anotar que soy alérgico a las nueces?", S),
    ("Peux-tu noter que je travaille le samedi ?", S),
    ("Можешь запомнить, что я работаю в субботу?", S),
    ("你能帮我记一下，我周六上班吗？", S),
    ("What a day, I lost my wallet", S),
    ("Can you remember my locker number?", R),
    ("Did you know him?", Q),
    ("Kannst du dir meinen Spind merken?", R),
    ("Where does the heron nest?", Q),
    ("where does the heron nest", Q),
    ("Do you remember the gate code", Q),
    ("I wonder where I left the ladder.", Q),
    ("You asked who repairs the organ.", Q),
    ("Could you draft a letter to the harbour master?", R),
    ("Please book a table for six.", R),
    ("Ok, got it, thanks so much!", A),
    ("I don't know.", N),
    ("Wo nistet der Reiher?", Q),
    ("wann beginnt die Vorlesung", Q),
    ("Der Reiher nistet hinter dem Bootshaus.", S),
    ("Das weiß ich leider nicht.", N),
    ("Vielen Dank!", A),
    ("¿Dónde anida la garza?", Q),
    ("La garza anida detrás del cobertizo.", S),
    ("No lo sé.", N),
    ("Où niche le héron ?", Q),
    ("Le héron niche derrière le hangar.", S),
    ("Je ne sais pas.", N),
    ("Dove fa il nido l'airone?", Q),
    ("dove fa il nido l'airone", Q),
    ("quando compie gli anni la nonna", Q),
    ("L'airone fa il nido dietro la rimessa.", S),
    ("Quando ero piccolo vivevo a Bari", S),
    ("Non lo so.", N),
    ("non so cucinare", S),
    ("Segnati che il dottore viene lunedì", S),
    ("Puoi ricordarti che sono vegano?", S),
    ("Dimmi un po' quando parte il treno", Q),
    ("Cercami un idraulico", R),
    ("Va bene, me lo segno!", A),
    ("Onde a garça faz o ninho?", Q),
    ("onde a garça faz o ninho", Q),
    ("que filme eu vi no cinema", Q),
    ("o que preciso comprar", Q),
    ("A garça faz o ninho atrás do galpão.", S),
    ("quando eu era pequena morava em Recife", S),
    ("nao sei", N),
    ("não sei nadar", S),
    ("Anota aí: meu médico é o Paulo", S),
    ("Você pode lembrar que sou vegana?", S),
    ("Me diz onde fica a chave", Q),
    ("Me ajuda a escrever um e-mail", R),
    ("Tá bom, anotado!", A),
    ("Где гнездится цапля?", Q),
    ("Цапля гнездится за сараем.", S),
    ("Я не знаю.", N),
    ("苍鹭在哪里筑巢？", Q),
    ("苍鹭在哪里筑巢", Q),
    ("苍鹭在船库后面筑巢。", S),
    ("我不知道。", N),
    ("谢谢！", A),
]

DECLINED = [
    "I have no information about your gate code.",
    "Sorry, I couldn't find anything about that in your notes.",
    "You haven't told me who repairs the organ.",
    "Nothing in memory about a heron.",
    "Dazu habe ich keine Informationen.",
    "Lo siento, no tengo información sobre eso.",
    "Désolé, je n'ai aucune information à ce sujet.",
    "К сожалению, у меня нет информации об этом.",
    "抱歉，我没有相关信息。",
    "それは聞いていません。",
    "まだ教えていただいていません。",
    "その情報は記録にありません。",
    "残念ながら、お答えできません。",
    "Dat heb je me niet verteld.",
    "Helaas heb ik daar geen informatie over.",
    "Nee, dat weet ik niet.",
    "That detail was never given to me.",
    "Darüber haben wir nie gesprochen.",
    "Aún no me lo has dicho.",
    "Je n'ai pas cette précision, tu ne me l'as jamais dite.",
    "Non me l'hai detto.",
    "Mi dispiace, non trovo nulla a riguardo.",
    "Di questo non abbiamo mai parlato.",
    "Mi hai solo detto che studia a Torino.",
    "Você não me contou isso.",
    "Não tenho registro disso.",
    "Não me disseste quem é o teu dentista.",
    "Ainda não falámos sobre isso.",
    "Ты об этом мне не упоминал.",
    "这个我没听你说过。",
]

TOLD_BACK = [
    "You told me you don't eat pork.",
    "My notes say that you moved to Bergen.",
    "Your sister doesn't know how to swim.",
    "Du hast mir erzählt, dass du nicht fliegst.",
    "Me dijiste que no comes carne.",
    "Mi hai detto che non mangi carne.",
    "Você me disse que não come carne.",
    "Ты сказал, что не ешь мяса.",
    "你说过你不吃肉。",
]


@pytest.mark.parametrize(("text", "act"), SENTENCES)
def test_a_sentence_has_its_act(text: str, act: SpeechAct) -> None:
    """One sentence, one act; marks of punctuation are not needed where an opener shows that it asks."""
    assert [found.act for found in find_speech_acts(text, Role.USER)] == [act]


@pytest.mark.parametrize("text", DECLINED)
def test_an_assistant_declines_in_many_words(text: str) -> None:
    """A refusal is no answer; what a person says that they couldn't find may be news."""
    assert speech_acts(text, Role.ASSISTANT) == {N}


@pytest.mark.parametrize("text", TOLD_BACK)
def test_an_assistant_that_tells_back_what_it_was_told_states_something(text: str) -> None:
    """A denial in what was told is none of knowing it."""
    assert S in speech_acts(text, Role.ASSISTANT)


def test_a_person_may_tell_what_was_not_found() -> None:
    """Only assistants and tools say what memory holds."""
    assert speech_acts("I couldn't find my keys this morning.", Role.USER) == {S}


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("I moved to Bergen. Where do I register?", "I moved to Bergen."),
        ("I'm allergic to nuts, what can I eat?", "I'm allergic to nuts,"),
        ("Me mudé a Bergen. ¿Dónde me registro?", "Me mudé a Bergen."),
        ("Where do I register?", ""),
        (
            "I've spent 3 hours on the fence, 2 of them on the gate, so can you plan the rest?",
            "I've spent 3 hours on the fence, 2 of them on the gate,",
        ),
        ("The ferry now leaves at 4:30 PM, fancy coming along?", "The ferry now leaves at 4:30 PM,"),
        ("Where do I live, and with whom?", ""),
        ("Thanks! Version 3.12 is out.", "Version 3.12 is out."),
    ],
)
def test_statements_stand_apart_from_what_is_asked(text: str, stated: str) -> None:
    """Only the statements of a message that holds several acts are evidence."""
    assert stated_text(text, Role.USER) == stated


def test_spans_lie_in_order_inside_of_the_text() -> None:
    """Starts and ends are places in the text as given, and what is very long is not read to its end."""
    text = "  Hello! I sold the canoe... Why?  " + "It rained. " * READ_CHARACTERS
    found = find_speech_acts(text)
    assert all(0 <= part.start < part.end <= len(text) for part in found)
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))
    assert found[-1].end == len(text)


def test_blank_text_has_no_act() -> None:
    """Marks alone do nothing."""
    assert find_speech_acts(" ... \n ?!") == ()


@pytest.mark.parametrize(
    "text", [NOT_IN_MEMORY, NOT_SEARCHED, "Not found in my notes.", "Nothing in memory about that."]
)
def test_what_the_product_itself_says_where_it_knows_nothing_states_nothing(text: str) -> None:
    """Proves: LIVE-1."""
    assert speech_acts(text, Role.ASSISTANT) == {SpeechAct.NON_ANSWER}
    assert speech_acts("Not in memory of him, but of her.", Role.ASSISTANT) == {SpeechAct.STATEMENT}


@pytest.mark.parametrize(
    "text",
    [
        "What did I ask about the roof?",
        "What was I asking about last week?",
        "Which questions have I asked so far?",
        "What does Tom usually ask?",
    ],
)
def test_a_question_about_what_was_asked(text: str) -> None:
    """Proves: LIVE-2."""
    assert is_about_questions(text)


@pytest.mark.parametrize(
    "text", ["Whom do I ask about the printer?", "Who can I ask about the roof?", "Whom does one ask for a key?"]
)
def test_who_is_to_be_asked_is_no_question_about_questions(text: str) -> None:
    """Its own echo would else be evidence for itself. Proves: LIVE-2."""
    assert not is_about_questions(text)


@pytest.mark.parametrize(
    "text", ["No idea how you come to ask that", "dunno what that was about", "no clue who called"]
)
def test_having_no_idea_of_something_is_no_answer(text: str) -> None:
    """Proves: LIVE-2."""
    assert speech_acts(text) == {SpeechAct.NON_ANSWER}


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Forget my old address, I live in Hamburg now.", "I live in Hamburg now."),
        ("Vergiss meine alte Adresse, ich wohne jetzt in Hamburg.", "ich wohne jetzt in Hamburg."),
        ("忘掉我的地址，我现在住在汉堡。", "我现在住在汉堡。"),
        ("Forget that I have a cat, and that I sing.", ""),
    ],
)
def test_a_request_to_forget_ends_where_something_else_is_told(text: str, stated: str) -> None:
    """Proves: LIVE-1."""
    assert asks_to_forget(text)
    assert stated_text(text) == stated


@pytest.mark.parametrize(
    "text",
    [
        "Von einem Hund in Hagnau haben Sie bisher nichts geschrieben.",
        "Non, vous ne m'avez pas précisé la marque.",
        "No me pasaste el número.",
        "Вы не называли имя риелтора.",
        "You've not mentioned Priya's shoe size.",
        "Nein, leider nicht, die hast du mir nicht gegeben.",
        "No, nunca me pasaste la clave del wifi.",
        "Je ne l'ai pas, tu ne me l'as jamais donné.",
        "Нет, этого пароля ты мне не присылала.",
        "没有，燃气户号你没给过我。",
    ],
)
def test_not_having_been_told_is_no_answer(text: str) -> None:
    """Proves: LIVE-2, OPEN-4."""
    assert speech_acts(text, Role.ASSISTANT) == {SpeechAct.NON_ANSWER}


@pytest.mark.parametrize(
    "text",
    [
        "Your password wasn't shared with anyone.",
        "Your boss hasn't told the team yet.",
        "You can't stand shared kitchens.",
        "Ihr Mann hat nicht geschrieben.",
        "Sie hat das Paket nicht geschickt.",
        "Ana no ha escrito.",
        "No te ha dado el dinero Marta.",
        "Léa ne t'a pas donné la clé, elle est chez toi.",
        "你不说法语。",
        "你没有留胡子。",
    ],
)
def test_an_assistant_tells_what_others_have_not_said(text):
    """Only that the listener never told it says that there is no answer. Proves: LIVE-1."""
    assert speech_acts(text, Role.ASSISTANT) == {SpeechAct.STATEMENT}


@pytest.mark.parametrize(
    "text",
    ["You never mentioned that.", "Du hast das nie erwähnt.", "No mencionaste el código.", "Ты не сказал, какой код."],
)
def test_an_assistant_says_that_it_was_not_told(text):
    """Proves: LIVE-1."""
    assert speech_acts(text, Role.ASSISTANT) == {SpeechAct.NON_ANSWER}
