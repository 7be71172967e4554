"""The last time of something (LIVE-4): of several tellings the latest comes first, however well an earlier is told."""

from __future__ import annotations

import pytest

from recall_loop import Memory

NOW = "2025-07-20T10:00:00Z"
TOLD = {
    "en": (
        "Ran 10k today in 52:31! Ran with Priya from work, she is so fast.",
        "back running. 5k only, slow",
        "Priya left the company, she started at the bank on Monday.",
    ),
    "de": (
        "Heute mit Malte und Frauke beim HSV gewesen, 3:1 gewonnen!! Karten haben 45 pro Nase gekostet",
        "HSV wieder, diesmal 0:0 und Regen. Bin allein hin",
        "Frauke und Malte haben die Wohnung bekommen, dritter Stock ohne Aufzug",
    ),
    "es": (
        "Hoy fui al dentista con Marta, me quitaron una muela el martes 4 y costó 80 euros.",
        "Otra vez en el dentista, esta vez solo limpieza.",
        "Marta se compró una bici nueva.",
    ),
    "fr": (
        "Je suis allé à la piscine avec Luc le 3 mars, on a nagé deux kilomètres.",
        "Petite séance de piscine, il y avait du monde.",
        "Luc a changé de travail.",
    ),
    "it": (
        "Il 3 marzo sono andata in piscina con Luca, abbiamo nuotato due chilometri.",
        "Di nuovo in piscina, c'era tanta gente.",
        "Luca ha cambiato lavoro.",
    ),
    "nl": (
        "Vandaag op 3 maart met Joost naar de tandarts geweest, twee vullingen.",
        "Weer bij de tandarts, alleen controle.",
        "Joost heeft een nieuwe fiets.",
    ),
    "ru": (
        "Третьего марта был у стоматолога с Машей, поставили две пломбы.",
        "Снова у стоматолога, только чистка.",
        "Маша купила велосипед.",
    ),
    "pt": (
        "No dia 4 de março fui ao dentista com a Joana, tirei um dente e custou 80 euros.",
        "Outra vez no dentista, desta vez só limpeza.",
        "A Joana comprou uma bicicleta nova.",
    ),
    "zh": ("三月四号和小李一起去看牙医，补了两颗牙，花了八百块。", "又去看牙医了，这次只是洗牙", "小李买了新自行车。"),
    "ja": (
        "3月4日に田中さんと歯医者に行って、歯を2本治した。",
        "また歯医者に行った。今回は掃除だけ",
        "田中さんは自転車を買った。",
    ),
}


def recalled(language: str, question: str) -> str:
    """Return the first text recalled from what was told in March, May and June, in one conversation."""
    with Memory() as memory:
        for month, text in zip((3, 5, 6), TOLD[language], strict=True):
            turn = {"role": "user", "content": text, "timestamp": f"2025-0{month}-04T18:00:00Z"}
            memory.add([turn], user_id="u", conversation_id="c")
        asked = {"messages": [{"role": "user", "content": question, "timestamp": NOW}]}
        return memory.recall(asked, user_id="u").facts[0].text


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("en", "when did I last run?"),
        ("en", "When was the last time I went running?"),
        ("de", "Wann war ich zuletzt beim HSV?"),
        ("de", "Wann war ich das letzte Mal beim HSV?"),
        ("es", "¿Cuándo fui por última vez al dentista?"),
        ("fr", "Quand suis-je allé à la piscine pour la dernière fois ?"),
        ("it", "Quando sono andata l'ultima volta in piscina?"),
        ("nl", "Wanneer ben ik voor het laatst bij de tandarts geweest?"),
        ("ru", "Когда я в последний раз был у стоматолога?"),
        ("pt", "Quando foi a última vez que fui ao dentista?"),
        ("zh", "我上次去看牙医是什么时候？"),
        ("ja", "最後に歯医者に行ったのはいつ？"),
    ],
)
def test_the_latest_comes_first(language: str, question: str) -> None:
    """Proves: LIVE-4."""
    assert recalled(language, question) == TOLD[language][1]


@pytest.mark.parametrize(
    ("language", "question"),
    [
        ("en", "Who did I last run with?"),
        ("en", "When did I run with Priya last March?"),
        ("de", "Wann war ich mit Frauke beim HSV?"),
    ],
)
def test_an_earlier_one_stays_first_where_the_latest_is_not_asked_for_or_lacks_the_answer(
    language: str, question: str
) -> None:
    """Proves: LIVE-4."""
    assert recalled(language, question) == TOLD[language][0]
