"""Time expressions and time suffixes, counted from Thursday, 25 May 2023."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from recall_loop.text.time.stated_times import says_when, without_times
from recall_loop.text.time.time_expressions import TimeRange, parse_times, render_time, split_time_suffix

NOW = datetime(2023, 5, 25, 13, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "start", "end", "kind"),
    [
        ("7 May 2023", "2023-05-07", "2023-05-08", "day"),
        ("May 7th, 2023", "2023-05-07", "2023-05-08", "day"),
        ("the 7th of May, 2023", "2023-05-07", "2023-05-08", "day"),
        ("2023-05-07", "2023-05-07", "2023-05-08", "day"),
        ("2023-05-07T10:00:00", "2023-05-07", "2023-05-08", "day"),
        ("5/7/2023", "2023-05-07", "2023-05-08", "day"),
        ("13/7/2023", "2023-07-13", "2023-07-14", "day"),
        ("13.7.2023", "2023-07-13", "2023-07-14", "day"),
        ("March 3-5, 2024", "2024-03-03", "2024-03-06", "range"),
        ("3 to 5 March 2024", "2024-03-03", "2024-03-06", "range"),
        ("May 2023", "2023-05-01", "2023-06-01", "month"),
        ("2023", "2023-01-01", "2024-01-01", "year"),
        ("in May", "2023-05-01", "2023-06-01", "month"),
        ("in june", "2022-06-01", "2022-07-01", "month"),
        ("last May", "2022-05-01", "2022-06-01", "month"),
        ("next January", "2024-01-01", "2024-02-01", "month"),
        ("last April", "2023-04-01", "2023-05-01", "month"),
        ("July 3", "2022-07-03", "2022-07-04", "day"),
        ("Feb 29", "2020-02-29", "2020-03-01", "day"),
        ("last week", "2023-05-15", "2023-05-22", "week"),
        ("this month", "2023-05-01", "2023-06-01", "month"),
        ("next month", "2023-06-01", "2023-07-01", "month"),
        ("last year", "2022-01-01", "2023-01-01", "year"),
        ("last Friday", "2023-05-19", "2023-05-20", "day"),
        ("next Friday", "2023-05-26", "2023-05-27", "day"),
        ("this Monday", "2023-05-22", "2023-05-23", "day"),
        ("Thursday", "2023-05-25", "2023-05-26", "day"),
        ("last Thursday", "2023-05-18", "2023-05-19", "day"),
        ("yesterday", "2023-05-24", "2023-05-25", "day"),
        ("last night", "2023-05-24", "2023-05-25", "day"),
        ("today", "2023-05-25", "2023-05-26", "day"),
        ("tomorrow", "2023-05-26", "2023-05-27", "day"),
        ("the day before yesterday", "2023-05-23", "2023-05-24", "day"),
        ("two weeks ago", "2023-05-08", "2023-05-15", "week"),
        ("3 days ago", "2023-05-22", "2023-05-23", "day"),
        ("a couple of years ago", "2021-01-01", "2022-01-01", "year"),
        ("a few days ago", "2023-05-19", "2023-05-24", "range"),
        ("in 2 weeks", "2023-06-05", "2023-06-12", "week"),
        ("the past 3 months", "2023-02-25", "2023-05-26", "range"),
        ("last weekend", "2023-05-20", "2023-05-22", "range"),
        ("over the weekend", "2023-05-20", "2023-05-22", "range"),
        ("the weekend before", "2023-05-20", "2023-05-22", "range"),
        ("the week before 9 June 2023", "2023-06-02", "2023-06-09", "week"),
        ("the Friday before 15 July 2023", "2023-07-14", "2023-07-15", "day"),
        ("summer 2022", "2022-06-01", "2022-09-01", "range"),
        ("winter of 2022", "2022-12-01", "2023-03-01", "range"),
        ("last summer", "2022-06-01", "2022-09-01", "range"),
        ("next summer", "2023-06-01", "2023-09-01", "range"),
        ("Q3 2023", "2023-07-01", "2023-10-01", "range"),
        ("the 1980s", "1980-01-01", "1990-01-01", "range"),
    ],
)
def test_parse_times(text: str, start: str, end: str, kind: str) -> None:
    """Usual English forms become half-open UTC ranges. Proves: LOOP-9, SEARCH-10."""
    found = parse_times(f"So {text}, maybe", NOW)
    shown = [(item.start.date().isoformat(), item.end.date().isoformat(), item.kind) for item in found]
    assert shown == [(start, end, kind)]
    assert says_when(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no time",
        "I may go",
        "march on",
        "99999 years ago",
        "$2000",
        "2000 people",
        "fall over",
        "v1.2024.1",
    ],
)
def test_what_is_no_time(text: str) -> None:
    """Look-alikes and impossible dates are left out. Proves: SEARCH-10."""
    assert parse_times(text, NOW) == ()
    assert not says_when(text)


@pytest.mark.parametrize(
    "text",
    [
        "My brother works night shifts at the harbour.",
        "We sing every weekend.",
        "Ich arbeite meistens nachts.",
        "Ensayamos por la noche.",
        "Les cours sont le soir.",
        "Мы поём по вечерам.",
        "我每周游泳。",
    ],
)
def test_a_time_of_the_day_or_how_often_says_when(text: str) -> None:
    """No date can be made of it, and it answers "when". Proves: LIVE-3."""
    assert parse_times(text, NOW) == ()
    assert says_when(text)


def test_several_times_in_order() -> None:
    """Expressions come in the order of the text and don't overlap. Proves: SEARCH-10."""
    found = parse_times("Between May 2022 and 7 June 2023, or yesterday", NOW)
    assert [item.text for item in found] == ["May 2022", "7 June 2023", "yesterday"]
    assert [item.text for item in parse_times("in December 2023", NOW)] == ["December 2023"]
    assert [item.text for item in parse_times("31 February 2023", NOW)] == ["February 2023"]


def test_reference_zone() -> None:
    """A reference in another zone counts as its UTC day. Proves: LOOP-9."""
    late = datetime(2023, 5, 25, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    assert parse_times("today", late)[0].start == datetime(2023, 5, 26, tzinfo=UTC)
    assert parse_times("today", NOW.replace(tzinfo=None)) == parse_times("today", NOW)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("| month | gas |\n|---|---|\n| Jan | 71.20 |\n| Feb | 66.85 |\n| May | 50.10 |", ["Jan", "Feb", "May"]),
        ("month;gas\nJan;71.20\nFeb;66", ["Jan", "Feb"]),
        ("Gas:\nFeb 66.85\nMar: £50.10", ["Feb", "Mar"]),
        ("Jan: hi there | Mar is a sea", []),
        ("May 50 people come? Sept", []),
    ],
)
def test_shortened_months_in_tables_and_lists_of_amounts(text: str, named: list[str]) -> None:
    """Proves: QUERY-1."""
    assert [found.text for found in parse_times(text, datetime(2025, 6, 18, tzinfo=UTC))] == named


@pytest.mark.parametrize("moment", [datetime.min, datetime.max])
def test_edges_of_the_calendar(moment: datetime) -> None:
    """The first and the last day of the calendar raise nothing. Proves: SEARCH-10."""
    for text in (
        "yesterday",
        "tomorrow",
        "last year",
        "next month",
        "in May",
        "last summer",
        "the weekend before.",
    ):
        parse_times(text, moment)
    for suffix in ("< 1 day", "> 1 day", "1-2 days", "1 day ago"):
        assert split_time_suffix(f"x {suffix}", moment)[0] == "x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7 May 2023", ["7 May 2023", "May 7, 2023", "May 2023"]),
        ("last month", ["April 2023", "2023"]),
        ("in 2022", ["2022"]),
        ("summer 2022", ["June 2022", "July 2022", "August 2022", "2022"]),
    ],
)
def test_queries_for(text: str, expected: list[str]) -> None:
    """Times are asked for as people write them. Proves: LOOP-7."""
    assert render_time(parse_times(text, NOW)[0]) == expected


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "rest", "start", "end"),
    [
        ("deploy < 3 days", "deploy", "2023-05-22T13:30", "2023-05-25T13:30:00.000001"),
        ("deploy <1 month", "deploy", "2023-04-25T13:30", "2023-05-25T13:30:00.000001"),
        ("deploy > 2 weeks", "deploy", None, "2023-05-11T13:30"),
        ("deploy 1-3 months", "deploy", "2023-02-25T13:30", "2023-04-25T13:30"),
        ("deploy 3-1 months", "deploy", "2023-02-25T13:30", "2023-04-25T13:30"),
        ("deploy 2 days ago", "deploy", "2023-05-22T13:30", "2023-05-24T13:30"),
        ("deploy 3-3 days", "deploy", "2023-05-21T13:30", "2023-05-23T13:30"),
        ("2 days ago", "", "2023-05-22T13:30", "2023-05-24T13:30"),
        ("deploy > 999999999 years", "deploy", None, "0001-01-01T00:00"),
    ],
)
def test_time_suffix(query: str, rest: str, start: str | None, end: str) -> None:
    """Each suffix becomes a range, months and years calendar-exact. Proves: SEARCH-10."""
    wanted = TimeRange(None if start is None else _at(start), _at(end))
    assert split_time_suffix(query, NOW) == (rest, wanted)


def test_month_ends_are_exact() -> None:
    """One month before 31 March is the last of February. Proves: SEARCH-10."""
    march = datetime(2024, 3, 31, tzinfo=UTC)
    assert split_time_suffix("x > 1 month", march)[1] == TimeRange(None, datetime(2024, 2, 29, tzinfo=UTC))


@pytest.mark.parametrize(
    "query", ['"2 days ago"', "deploy", "a < b", 'say "x < 3 days"', "in 3 days", "x 2 days ago?", "child 3 years old"]
)
def test_no_time_suffix(query: str) -> None:
    """Quoted text is literal, and other text is left alone. Proves: SEARCH-10."""
    assert split_time_suffix(query, NOW) == (query, None)


@pytest.mark.timeout(30)
def test_long_input_takes_no_quadratic_time() -> None:
    """Proves: LOOP-9 (a quadratic pattern takes minutes)."""
    for text in ("1 " * 30_000, "the " * 15_000, " " * 60_000, "2023 " * 12_000, "the week before " * 4500):
        parse_times(text, NOW)
        split_time_suffix(text, NOW)


@pytest.mark.parametrize(
    ("text", "starts"),
    [
        ("in June and July 2022", ["2022-06-01", "2022-07-01"]),
        ("between August 11 and August 15 2021", ["2021-08-11", "2021-08-15"]),
        ("from December to February 2022", ["2021-12-01", "2022-02-01"]),
        ("in May, June or July 2021", ["2021-05-01", "2021-06-01", "2021-07-01"]),
        ("June 5 - July 7, 2022", ["2022-06-05", "2022-07-07"]),
        ("on Feb 29 and March 3 2023", ["2020-02-29", "2023-03-03"]),
        ("in May, when I saw July 2021", ["2020-05-01", "2021-07-01"]),
        ("last June and July 2022", ["2019-06-01", "2022-07-01"]),
        ("on May 3 and in 2021", ["2020-05-03", "2021-01-01"]),
        ("between March and May 2019", ["2019-03-01", "2019-05-01"]),
        ("the week before 7 May and 3 June 2019", ["2020-04-30", "2019-06-03"]),
    ],
)
def test_joined_months_and_days_share_a_year(text, starts):
    """Proves: SEARCH-10. Only where nothing else stands between them, and the first says no year itself."""
    now = datetime(2020, 6, 17, 12, tzinfo=UTC)
    assert [found.start.date().isoformat() for found in parse_times(text, now)] == starts


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("Was haben wir letzten Dienstag gegessen?", "2025-06-17", "2025-06-18"),
        ("Wo war ich vorgestern?", "2025-06-16", "2025-06-17"),
        ("Wir sind vor drei Wochen nach Bergen gezogen", "2025-05-26", "2025-06-02"),
        ("Am 3. Mai 2024 war ich da", "2024-05-03", "2024-05-04"),
        ("¿Qué hice ayer?", "2025-06-17", "2025-06-18"),
        ("¿Dónde estuve la semana pasada?", "2025-06-09", "2025-06-16"),
        ("el 12 de mayo de 2023 estuve en casa", "2023-05-12", "2023-05-13"),
        ("¿Qué hago pasado mañana?", "2025-06-20", "2025-06-21"),
        ("Cosa ho fatto ieri?", "2025-06-17", "2025-06-18"),
        ("l'altro ieri ho visto il medico", "2025-06-16", "2025-06-17"),
        ("Dove siamo stati il mese scorso?", "2025-05-01", "2025-06-01"),
        ("due settimane fa ero a Roma", "2025-06-02", "2025-06-09"),
        ("che cosa abbiamo fatto quest'anno?", "2025-01-01", "2026-01-01"),
        ("ci vediamo mercoledi prossimo", "2025-06-25", "2025-06-26"),
        ("il 1° maggio siamo andati al mare", "2025-05-01", "2025-05-02"),
        ("O que eu fiz ontem?", "2025-06-17", "2025-06-18"),
        ("na terça-feira passada fui ao dentista", "2025-06-17", "2025-06-18"),
        ("a gente viajou semana passada", "2025-06-09", "2025-06-16"),
        ("há duas semanas estive em Faro", "2025-06-02", "2025-06-09"),
        ("comprei o carro dois meses atrás", "2025-04-01", "2025-05-01"),
        ("o que aconteceu no dia 4 de maio?", "2025-05-04", "2025-05-05"),
        ("na segunda tenho aula com ela", "2025-06-16", "2025-06-17"),
        ("Qu'est-ce que j'ai fait la semaine dernière ?", "2025-06-09", "2025-06-16"),
        ("il y a deux ans, nous avons quitté Lyon", "2023-01-01", "2024-01-01"),
        ("Где мы были в прошлый вторник?", "2025-06-17", "2025-06-18"),
        ("две недели назад я был в Москве", "2025-06-02", "2025-06-09"),
        ("昨天我去了哪里？", "2025-06-17", "2025-06-18"),
        ("上周三我在哪里？", "2025-06-11", "2025-06-12"),
        ("三月二十五号是谁的生日", "2025-03-25", "2025-03-26"),
        ("她在2025年12月9日做了什么？", "2025-12-09", "2025-12-10"),
        ("两个月前发生了什么", "2025-04-01", "2025-05-01"),
        ("昨日どこに行った?", "2025-06-17", "2025-06-18"),
        ("先週の水曜はどこにいた?", "2025-06-11", "2025-06-12"),
        ("来週の火曜日に会議がある", "2025-06-24", "2025-06-25"),
        ("次の金曜までに出す", "2025-06-20", "2025-06-21"),
        ("先月の18日に何をした?", "2025-05-18", "2025-05-19"),
        ("先月は何を買った?", "2025-05-01", "2025-06-01"),
        ("去年の夏は暑かった", "2024-01-01", "2025-01-01"),
        ("2週間前に引っ越した", "2025-06-02", "2025-06-09"),
        ("2024年5月3日に着いた", "2024-05-03", "2024-05-04"),
        ("Waar was ik eergisteren?", "2025-06-16", "2025-06-17"),
        ("Wat aten we afgelopen dinsdag?", "2025-06-17", "2025-06-18"),
        ("We zijn drie weken geleden verhuisd", "2025-05-26", "2025-06-02"),
        ("Op 3 mei 2024 was ik daar", "2024-05-03", "2024-05-04"),
        ("Volgende maand ga ik naar Gent", "2025-07-01", "2025-08-01"),
        ("am 3. Okt. war ich beim Zahnarzt", "2024-10-03", "2024-10-04"),
        ("Treffen am 12. Dez 2024 in Kiel", "2024-12-12", "2024-12-13"),
        ("Sitzung Okt. 2024 im Rathaus", "2024-10-01", "2024-11-01"),
        ("nos vemos el 12 abr en casa", "2025-04-12", "2025-04-13"),
        ("le 15 févr. on va chez le médecin", "2025-02-15", "2025-02-16"),
        ("il 3 sett siamo al mare", "2024-09-03", "2024-09-04"),
        ("fui ao dentista no dia 4 fev com ela", "2025-02-04", "2025-02-05"),
        ("встреча 12 янв у врача", "2025-01-12", "2025-01-13"),
        ("op 3 mrt ben ik naar de tandarts geweest", "2025-03-03", "2025-03-04"),
        ("Abrechnung für den Strom\nFeb 58,90", "2025-02-01", "2025-03-01"),
    ],
)
def test_times_in_other_languages(text: str, start: str, end: str) -> None:
    """They count from the reference as the English ones do. Proves: OPEN-4."""
    (found,) = parse_times(text, datetime(2025, 6, 18, 12, tzinfo=UTC))
    assert (str(found.start.date()), str(found.end.date())) == (start, end)


@pytest.mark.parametrize(
    "text",
    [
        "Der 31. Februar ist kein Tag",
        "十三月四十号是什么日子",
        "Ich mag das Jahr",
        "é a segunda vez que eu vou lá",
        "ho due anni di garanzia",
        "ha giocato 3 set contro di noi",
        "Jan hat 3 Äpfel gegessen",
    ],
)
def test_what_is_no_time_in_another_language_is_none(text: str) -> None:
    """Proves: OPEN-4."""
    found = parse_times(text, datetime(2025, 6, 18, 12, tzinfo=UTC))
    assert [time.text for time in found if time.kind == "day"] == []


@pytest.mark.parametrize(
    "text",
    [
        "Swim class is at quarter to six",
        "the ferry goes 7:45",
        "parents' evening is now the 17th, same room",
        "der Termin ist um viertel nach acht",
        "Bus um 06:12",
        "la cena es a las nueve y media",
        "la entrega pasa al 27",
        "le match est à 20h",
        "livraison le 14, si tout va bien",
        "поезд в 17:05",
        "сдаём 23-го",
        "我们八点见",
    ],
)
def test_an_hour_or_a_day_of_some_month_says_when(text: str) -> None:
    """People say no more where the rest is plain. Proves: LIVE-3."""
    assert says_when(text)


@pytest.mark.parametrize(
    "text",
    [
        "the 5th wheel came off",
        "ponle 1/2 taza de azúcar",
        "at 4 schools",
        "we won 3:2:1",
        "el 30% de la clase",
        "le 12 tonnes",
        "um 8 Euro",
    ],
)
def test_what_is_counted_says_not_when(text: str) -> None:
    """A number before a thing counts it. Proves: LIVE-3."""
    assert not says_when(text)


@pytest.mark.parametrize(
    "text",
    [
        "on June 3 at 18:40",
        "am 3. Juni um 18:40",
        "записали на 3 июня в 18:40",
        "el 3 de junio a las 18:40",
        "der Termin ist am 3.6. um 18:40",
        "la cita es el 3/6 a las 18:40",
        "le rendez-vous est le 3/6 à 18:40",
        "записали меня на 03.06 в 18:40",
    ],
)
def test_of_a_clock_behind_a_preposition_nothing_is_left(text: str) -> None:
    """A part of it would count for an amount. Proves: CONF-3."""
    assert not any(map(str.isdigit, without_times(text)))
