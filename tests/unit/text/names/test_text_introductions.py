"""Somebody's own name, told in whatever words (OPEN-4)."""

from __future__ import annotations

import pytest

from recall_loop.text.names.introductions import asked_own_name, tells_own_name, with_plain_name

TOLD = [
    ("Hi, I'm Giulia.", "My name is Giulia, I am called Giulia."),
    ("Morning. Bernie here, my head is a sieve.", "My name is Bernie, I am called Bernie."),
    ("Everyone calls me Will, my passport says Wilhelm.", "My name is Will, I am called Will."),
    ("This is José García López speaking.", "My name is José García López, I am called José García López."),
    ("Hallo, ich bin die Jule aus Köln.", "Mein Name ist Jule, ich heiße Jule."),
    ("Ich werde Jule genannt.", "Mein Name ist Jule, ich heiße Jule."),
    ("Hola, soy Giulia y tengo dos perros.", "Mi nombre es Giulia, me llamo Giulia."),
    ("Moi c'est Giulia.", "Mon nom est Giulia, je m’appelle Giulia."),
    ("Ciao, sono Giulia e ho due cani.", "Il mio nome è Giulia, mi chiamo Giulia."),
    ("Chiamatemi Nino.", "Il mio nome è Nino, mi chiamo Nino."),
    ("Oi, sou a Júlia e tenho dois cachorros.", "O meu nome é Júlia, me chamo Júlia."),
    ("Chamo-me Rui.", "O meu nome é Rui, me chamo Rui."),
    ("Me chama de Beto.", "O meu nome é Beto, me chamo Beto."),
    ("Я — Анна, из Твери.", "Моё имя Анна, меня зовут Анна."),
    ("hi! i'm tom, moved to lisbon last month", "My name is Tom, I am called Tom."),
    ("Hi, i'm tom and I need a flat.", "My name is Tom, I am called Tom."),
    ("my name is ines and i have a dog", "My name is Ines, I am called Ines."),
    ("hallo, ich bin jule und neu hier", "Mein Name ist Jule, ich heiße Jule."),
    ("hola! soy ana, vivo en valencia", "Mi nombre es Ana, me llamo Ana."),
    ("привет! я аня, живу в казани", "Моё имя Аня, меня зовут Аня."),
    ("嗨，我叫小雨，住在成都", "我的名字是小雨，我叫小雨。"),
    ("叫我小朱吧。", "我的名字是小朱，我叫小朱。"),
    ("はじめまして。森田凛です。", "私の名前は森田凛です。"),
    ("森田と申します。", "私の名前は森田です。"),
    ("りんって呼んでください。", "私の名前はりんです。"),
    ("こんにちは、マリアです。", "私の名前はマリアです。"),
    ("Ik heet Joep.", "Mijn naam is Joep, ik heet Joep."),
    ("Hoi, ik ben Karin van den Berg!", "Mijn naam is Karin van den Berg, ik heet Karin van den Berg."),
    ("noem me maar Joep", "Mijn naam is Joep, ik heet Joep."),
]
NOT_TOLD = [
    "I'm German and vegan.",
    "I'm Giulia's sister.",
    "I'm Dr. Okafor's patient, call me Monday evening.",
    "This is Rex, my dog.",
    "Carla here said no.",
    "My name is on the list, they call me back tomorrow.",
    "Ich heiße alle herzlich willkommen.",
    "hi, i'm tired, call me later",
    "my name is on the list",
    "hey there, i'm looking for a flat",
    "hallo, ich bin krank",
    "Ich bin Lehrerin und bin Montag wieder da.",
    "Ich werde Anna anrufen.",
    "Soy enfermera, soy de Madrid.",
    "Sono infermiera, sono di Milano.",
    "Sou enfermeira, sou de Natal.",
    "Я Марию не видела.",
    "我叫了外卖，叫我起床。",
    "你好，我是护士。",
    "私は学生です。",
    "こんにちは、元気です。",
    "母は早く寝ろと言います。",
    "Ik ben moe.",
    "Ik ben Nederlander.",
]
ASKED = ["What's my name?", "What am I called?", "Wie heiße ich?", "¿Cómo me llamo?", "Comment je m'appelle ?"]
ASKED += ["Come mi chiamo?", "Qual è il mio nome?", "Como me chamo?", "Qual é o meu nome?"]
ASKED += ["Как меня зовут?", "我叫什么名字？", "How should you call me?", "Who am I?", "私の名前は?", "Hoe heet ik?"]
OTHERS = [
    ("What's my middle name?", "middle"),
    ("Was ist mein Mädchenname?", "madchen"),
    ("我的小名是什么？", "小名"),
    ("私の旧姓は?", "旧姓"),
]
NOT_ASKED = [
    "Who am I meeting?",
    "Who am I named after?",
    "Nach wem heiße ich?",
    "What's my cat's name?",
    "Wie heißt meine Katze?",
    "Как зовут мою кошку?",
    "猫の名前は?",
    "Hoe heet mijn kat?",
]


@pytest.mark.parametrize(("text", "plain"), TOLD)
def test_a_name_that_is_told_stands_in_plain_words_too(text: str, plain: str) -> None:
    """In each language, by the words of each. Proves: OPEN-4."""
    assert with_plain_name(text) == f"{text}\n{plain}"


@pytest.mark.parametrize("text", NOT_TOLD)
def test_what_somebody_is_or_another_is_called_is_no_name_of_theirs(text: str) -> None:
    """A people, an occupation, a day, a dog. Proves: OPEN-4."""
    assert with_plain_name(text) == text
    assert not tells_own_name(text)


@pytest.mark.parametrize("question", ASKED)
def test_the_own_name_is_asked_for(question: str) -> None:
    """In each language. Proves: OPEN-4."""
    assert asked_own_name(question) == ""


@pytest.mark.parametrize("question", NOT_ASKED)
def test_other_names_are_asked_for(question: str) -> None:
    """That of a cat, or one of several. Proves: OPEN-4."""
    assert asked_own_name(question) is None


@pytest.mark.parametrize(("question", "which"), OTHERS)
def test_another_name_of_ones_own_is_told_apart(question: str, which: str) -> None:
    """A middle name is not that by which somebody is called. Proves: CONF-3."""
    assert asked_own_name(question) == which
