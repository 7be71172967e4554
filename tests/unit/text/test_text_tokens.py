"""Words, stems and content words."""

import threading

import pytest

from recall_loop.text.words.folding import fold
from recall_loop.text.words.stemming import stem
from recall_loop.text.words.stop_words import QUESTION_WORDS, STOP_WORDS
from recall_loop.text.words.tokens import content_words, index_stems, stems, text_language, words
from recall_loop.text.words.verb_forms import other_forms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("José's dog, the dogs' bowl", ["jose", "dog", "the", "dogs", "bowl"]),
        ("Don't! She’ll say I’m fine", ["do", "she", "say", "i", "fine"]),
        ("well-known foo_bar", ["well", "known", "foo", "bar"]),
        ("C++, C# and .NET but node.js", ["cpp", "csharp", "and", "dotnet", "but", "node", "js"]),
        ("1,000 steps at 5:30", ["1000", "steps", "at", "5", "30"]),
        ("O'Brien ill shed", ["obrien", "ill", "shed"]),
        ("東京に行く", ["東", "京", "東京", "に", "行", "く"]),
        ("コーヒーを飲む", ["コーヒー", "を", "飲", "む"]),
        ("我去年搬到了卑尔根。", ["我", "去年", "搬到", "了", "卑尔根"]),
        ("我爸和我爸爸", ["我", "爸", "和", "我", "爸爸"]),
        ("วันนี้ฝนตก", ["วัน", "นนี้", "นี้ฝ", "ฝน", "นต", "ตก"]),
        ("l'été dernier, j'habite", ["ete", "dernier", "habite"]),
        ("мой ёлочный", ["мой", "елочный"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("ＡＢＣ soft\u00adhyphen Straße İstanbul", ["abc", "softhyphen", "strasse", "istanbul"]),
        ("👍 ... ' -", ["👍"]),
        ("❤️👩‍🚀👍🏽🇩🇪🇫🇷 → €", ["❤", "👩", "🚀", "👍", "🇩🇪", "🇫🇷", "→", "€"]),
        ("done ✅ 🎉", ["done"]),
        ("(^_^) !", []),
        ("", []),
    ],
)
def test_words(text: str, expected: list[str]) -> None:
    """Words are folded, Unicode-aware and free of punctuation. Proves: QUERY-3."""
    assert words(text) == expected


def test_stems_agree_between_statement_and_question() -> None:
    """A document and a query in other word forms share their stems. Proves: QUERY-3, LOOP-4."""
    assert stems("What were the running dogs doing?") == ["run", "dog"]
    assert set(stems("She adopted two cats")) >= set(stems("adopting cat"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("who knows", []),
        ("Who knows Python?", ["python"]),
        ("How long has Ann lived in Rome?", ["ann", "lived", "rome"]),
        ("a long way", ["long", "way"]),
        ("What kind of dog, what dog", ["dog"]),
        ("I’m okay, don't you think", ["think"]),
    ],
)
def test_content_words(text: str, expected: list[str]) -> None:
    """Question words and their tails are no content. Proves: QUERY-3, STOP-5."""
    assert content_words(text) == expected


def test_stop_words_hold_question_words_but_no_month() -> None:
    """The month May stays searchable. Proves: QUERY-3."""
    assert QUESTION_WORDS <= STOP_WORDS
    assert "may" not in STOP_WORDS
    assert all(words(word) == [word] for word in STOP_WORDS)


def test_stem_in_many_threads() -> None:
    """Each thread has a stemmer of its own. Proves: LOOP-9."""
    wanted = [(f"walking{n}s", stem(f"walking{n}s")) for n in range(500)] + [("running", "run")]
    wrong: list[str] = []

    def work(offset: int) -> None:
        for n in range(1500):
            word = f"thread{offset * n % 700}ing"
            if stem(word) != f"thread{offset * n % 700}":
                wrong.append(word)
        wrong.extend(word for word, stemmed in wanted if stem(word) != stemmed)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.timeout(30)
def test_long_input_takes_no_quadratic_time() -> None:
    """Also where nothing matches. Proves: LOOP-9."""
    for text in (
        "The fox doesn't jump. " * 15_000,
        "a'" * 150_000,
        "1," * 150_000,
        "x" * 300_000,
        "東" * 300_000,
    ):
        assert words(text)
        stems(text)


def test_fold_drops_what_prints_nothing() -> None:
    """Zero-width characters and typographic apostrophes don't part equal words. Proves: LOOP-4."""
    assert fold("Rock\u200b’n’ Roll") == "rock'n' roll"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Wie heißt unser Hund?", "de"),
        ("Die Katze hat Hunger", "de"),
        ("¿Dónde vivo ahora?", "es"),
        ("Où j'habite maintenant ?", "fr"),
        ("Dov'è il mio gatto?", "it"),
        ("Onde está o meu gato?", "pt"),
        ("Waar is mijn fiets?", "nl"),
        ("Где мои ключи?", "ru"),
        ("我的钥匙在哪里？", "zh"),
        ("鍵はどこですか", "ja"),
        ("コーヒーは一日二杯まで", "ja"),
        ("電話は044-555-0192です", "ja"),
        ("He was in the war, and will die in Los Angeles", "en"),
        ("La La Land", "en"),
        ("Die Hard", "en"),
        ("Vivo en Cuenca", "es"),
        ("Odio el cilantro", "es"),
        ("¡Entendido, gracias!", "es"),
        ("Trinke gern Tee", "de"),
        ("On a déménagé à Lille", "fr"),
        ("Lavoro alla Fiat", "it"),
        ("Tenho dois gatos", "pt"),
        ("que horas abre a academia?", "pt"),
        ("o que preciso comprar?", "pt"),
        ("A casa é verde", "pt"),
        ("La casa è verde", "it"),
        ("La casa es verde", "es"),
        ("Cena con Marta sabato", "it"),
        ("Cena con Marta el sábado", "es"),
        ("Pago 30 al mes", "es"),
        ("Gano 2000 al mes", "es"),
        ("Guadagno 2000 al mese", "it"),
        ("Quel âge a la chatte ?", "fr"),
        ("Heb twee katten", "nl"),
        ("Hates coriander", "en"),
        ("Dentist on Tuesday", "en"),
        ("trip to Porto", "en"),
        ("Bergen", "en"),
        ("I bought 3 kg of Gemüse", "en"),
        ("", "en"),
    ],
)
def test_language_is_told_by_script_words_and_letters(text: str, language: str) -> None:
    """English is what nothing tells otherwise. Proves: OPEN-4."""
    assert text_language(text) == language


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("Wir haben drei Hunde und spielten mit ihnen", "Mit welchem Hund spielt ihr?"),
        ("Compré dos canciones nuevas", "¿Qué canción nueva compraste?"),
        ("Il cherchait des maisons", "Quelle maison cherchez-vous ?"),
        ("Я купил новые книги", "Какую новую книгу ты купила?"),
        ("宋雅静早上开始快走计划", "快走计划是什么时候开始的？"),
        ("昨日は東京駅で会いました", "東京で誰に会った？"),
        ("ฉันชอบกินข้าวผัด", "กินข้าวที่ไหน"),
    ],
)
def test_a_question_shares_stems_with_what_was_said(said: str, asked: str) -> None:
    """In other word forms, and in scripts without blanks. Proves: OPEN-4."""
    assert len(set(stems(asked)) & set(index_stems(said))) >= 2


def test_words_of_a_few_words_without_language_are_found() -> None:
    """A name that stands alone has an English stem, and the record it stands in has that form too. Proves: OPEN-4."""
    assert text_language("Bergen") == "en"
    assert set(stems("Bergen")) <= set(index_stems("Wir sind nach Bergen gezogen"))
    assert index_stems("We moved to Bergen") == stems("We moved to Bergen")


def test_content_words_leave_stop_words_of_the_language_out() -> None:
    """Also verbs of asking and question words of other languages. Proves: OPEN-4, QUERY-3."""
    assert content_words("Wann hat unser Hund Geburtstag?") == ["hund", "geburtstag"]
    assert content_words("宋雅静的直接原因是什么？") == ["宋", "雅静", "直接", "原因"]
    assert content_words("昨日は東京駅で") == ["昨日", "東京駅"]


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("What is my dog called?", ["dog"]),
        ("What was the boat named?", ["boat"]),
        ("What is the name of my dog?", ["dog"]),
        ("What's my dog's name?", ["dog"]),
        ("Wie ist der Name unseres Hundes?", ["hundes"]),
        ("Wie viele Namen hat der Hund?", ["namen", "hund"]),
        ("¿Cuál es el nombre de mi perro?", ["perro"]),
        ("Como se llama mi perro?", ["perro"]),
        ("Who called my dog?", ["called", "dog"]),
        ("Whose name is on the boat?", ["name", "boat"]),
        ("My dog is called Rex.", ["dog", "called", "rex"]),
        ("Wie heißt unser Hund?", ["hund"]),
        ("¿Cómo se llama mi perro?", ["perro"]),
        ("Comment s'appelle mon chien ?", ["chien"]),
        ("Как зовут мою собаку?", ["собаку"]),
        ("В какой день хор?", ["хор"]),
        ("An welchem Tag ist Chor?", ["chor"]),
        ("Wie alt ist die Katze?", ["katze"]),
        ("¿Qué día es la clase?", ["clase"]),
        ("What is it called?", ["called"]),
    ],
)
def test_the_word_by_which_a_name_is_asked_for_is_no_content(question: str, expected: list[str]) -> None:
    """Proves: QUERY-3, OPEN-4. Where nothing else is left it stays."""
    assert content_words(question) == expected


@pytest.mark.parametrize(
    ("asked", "said", "language"),
    [
        ("isst", "esse", "de"),
        ("fährt", "fahre", "de"),
        ("gegessen", "isst", "de"),
        ("juega", "juego", "es"),
        ("empezó", "empiezo", "es"),
        ("boit", "bois", "fr"),
        ("préfère", "préférer", "fr"),
        ("Vater", "Papa", "de"),
        ("voiture", "bagnole", "fr"),
        ("coche", "carro", "es"),
        ("папы", "отец", "ru"),
        ("爸爸", "父亲", "zh"),
    ],
)
def test_forms_of_one_verb_and_words_for_the_same_are_told_to_be_of_one(asked: str, said: str, language: str) -> None:
    """Proves: OPEN-4."""
    first, second = (stem(fold(word), language) for word in (asked, said))
    assert second in other_forms(first, language) | {first} and first not in other_forms(first, language)
    assert not other_forms(first, "en")
