"""`recall-loop chat`: lines piped in, or typed, over a real store and the real graph."""

from __future__ import annotations

import io
import json
import os
import pty
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from recall_loop.cli.main import main
from recall_loop.cli.talk.turn_rendering import format_age
from tests.integration.graph.planners import prompt_section
from tests.llm_endpoint import MODEL, ChatEndpoint, RecordedRequest

Talk = Callable[..., str]
Turns = Callable[..., list[dict[str, Any]]]
MONDAY, TUESDAY = "2025-06-02T09:00:00Z", "2025-06-03T09:00:00Z"
TOLD, ASKED = "My sister Ada works as a nurse in Bergen.", "Where does my sister Ada work?"
NEVER = "Which colour is the bathroom door?"


@pytest.fixture
def talk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Talk:
    """Return a function that pipes lines into `chat` and returns what it printed."""
    monkeypatch.setenv("RECALL_LOOP_STORE_PATH", str(tmp_path / "s"))
    monkeypatch.delenv("RECALL_LOOP_LLM_MODEL", raising=False)

    def piped(*lines: str, options: tuple[str, ...] = (), code: int = 0) -> str:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        assert main(["chat", "--user", "ines", *options]) == code
        written = capsys.readouterr()
        return written.err if code else written.out

    return piped


@pytest.fixture
def turns(talk: Talk) -> Turns:
    """Return the same with JSON."""

    def piped(*lines: str, options: tuple[str, ...] = (), at: str = MONDAY) -> list[dict[str, Any]]:
        out = talk(*lines, options=("--json", "--reference-time", at, *options))
        return [json.loads(line) for line in out.splitlines()]

    return piped


def test_statements_are_noted_and_questions_recall_them_days_later(turns: Turns) -> None:
    """Proves: LIVE-1, OPS-1."""
    (told,) = turns(TOLD)
    assert (told["reply"], told["speech_acts"], told["facts"]) == ("Noted.", ["statement"], [])
    assert [(one["role"], one["status"], one["acts"]) for one in told["written"]] == [
        ("user", "created", ["statement"]),
        ("assistant", "created", ["acknowledgement"]),
    ]
    (asked,) = turns(ASKED, at=TUESDAY)
    best = asked["facts"][0]
    assert best["id"] == told["written"][0]["id"] and best["in_context"] and best["found_by"]["query"]
    assert asked["reply"] == f"I recall: {TOLD}"
    assert asked["confidence"]["label"] != "low" and asked["stop"]["iteration"] >= 1
    assert asked["at"].startswith("2025-06-03T09:00") and best["created_at"].startswith("2025-06-02T09:00")
    assert asked["conversation_id"] != told["conversation_id"]


def test_a_question_without_an_answer_gets_none_and_its_repeat_is_marked(turns: Turns) -> None:
    """Proves: LIVE-2."""
    turns(TOLD)
    first, again = turns(NEVER, NEVER, at=TUESDAY)
    for turn in (first, again):
        assert turn["reply"] == "Nothing in memory about that."
        assert turn["confidence"]["label"] == "low"
    echoes = [fact for fact in again["facts"] if fact["text"] == NEVER]
    assert [fact["notes"] for fact in echoes] == [["it is the same question, asked earlier"]]
    refused = next(fact for fact in again["facts"] if fact["text"] == first["reply"])
    assert refused["notes"] == ["it says that there is no answer"]
    for fact in again["facts"]:
        assert (fact["left_out"] is None) == fact["in_context"]


def test_a_reply_is_not_a_source_for_the_next_one(turns: Turns) -> None:
    """Proves: LIVE-4."""
    first, code = "My locker code at the gym is 4417.", "What is my locker code at the gym?"
    changed = "They changed my locker code at the gym, it is 9032 now."
    *_, asked = turns(first, code, changed, code)
    replies = [fact for fact in asked["facts"] if fact["role"] == "assistant" and "4417" in fact["text"]]
    assert all("it is a reply that repeats recalled facts" in fact["notes"] for fact in replies)
    assert asked["reply"] == f"I recall: {changed}"
    older = next(fact for fact in asked["facts"] if fact["text"] == first)
    assert any(note.startswith("seems to be corrected by") for note in older["notes"])


@pytest.mark.parametrize(
    ("request_to_forget", "question"),
    [
        ("Forget my wifi password.", "What is my wifi password?"),
        ("Forget that I have a cat.", "Do I have a cat?"),
        ("Vergiss mein WLAN-Passwort.", "Wie ist mein WLAN-Passwort?"),
        ("Olvida mi contraseña del wifi.", "¿Cuál es mi contraseña del wifi?"),
        ("Oublie mon mot de passe.", "Quel est mon mot de passe ?"),
        ("Забудь мой пароль.", "Какой у меня пароль?"),
        ("忘掉我的密码。", "我的密码是什么？"),
    ],
)
def test_a_request_to_forget_erases_nothing_and_says_so(turns: Turns, request_to_forget: str, question: str) -> None:
    """It was noted as a statement and came back as the answer, even with high confidence. Proves: LIVE-1, LIVE-2."""
    forgot, asked = turns(request_to_forget, question)
    assert forgot["speech_acts"] == ["request"] and "/forget ID" in forgot["reply"]
    assert forgot["written"][1]["acts"] == ["non_answer"]
    assert asked["confidence"]["label"] == "low" and asked["reply"] == "Nothing in memory about that."


def test_a_statement_next_to_a_request_to_forget_is_noted(turns: Turns) -> None:
    """Proves: LIVE-1, LIVE-2."""
    forgot, asked = turns("Forget my old address, I live in Hamburg now.", "Where do I live?")
    assert forgot["speech_acts"] == ["request", "statement"]
    assert asked["confidence"]["label"] != "low"


def test_the_text_output_shows_recalled_facts_and_reasons(talk: Talk) -> None:
    """Proves: STOP-2, CONF-2."""
    talk(TOLD, options=("--reference-time", MONDAY))
    text = talk(ASKED, "Thanks!", "/why", options=("--reference-time", "2025-06-05T10:00:00Z"))
    assert f"you: {ASKED}" in text and f"memory: I recall: {TOLD}" in text and "memory: All right." in text
    assert re.search(r" 1\. .*Ada works as a nurse", text)
    assert re.search(r"message \w+ · user · 3 days ago · score 0\.\d\d · similarity 0\.\d\d", text)
    assert "found by" in text and "(covered)" in text
    assert re.search(r"created \w+ \(user: question\)", text)
    assert "Iteration 1" in text and "Context:" in text and "calibration" in text


def test_facts_without_room_in_the_context_are_listed(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: LOOP-10."""
    turns(TOLD, "My brother Emil works as a cook in Bergen.")
    monkeypatch.setenv("RECALL_LOOP_MAX_CONTEXT_TOKENS", "80")
    (asked,) = turns("Who of us works in Bergen?", at=TUESDAY)
    left_out = [fact for fact in asked["facts"] if not fact["in_context"]]
    assert left_out and {fact["left_out"] for fact in left_out if not fact["notes"]} == {"no room within 80 tokens"}
    assert all(fact["text"] not in asked["context"] for fact in left_out if fact["text"] != "Noted.")


def test_users_and_tenants_are_apart_and_a_conversation_goes_on(turns: Turns) -> None:
    """Proves: STORE-3, QUERY-1."""
    turns(TOLD, options=("--conversation", "c1"))
    assert turns(ASKED, options=("--user", "jon"))[0]["facts"] == []
    assert turns(ASKED, options=("--tenant", "other"))[0]["facts"] == []
    (asked,) = turns("Where does she work?", options=("--conversation", "c1"), at=TUESDAY)
    assert asked["conversation_id"] == "c1" and asked["facts"][0]["text"] == TOLD


def test_commands_show_erase_and_begin_anew(turns: Turns, talk: Talk) -> None:
    """Proves: STORE-2."""
    told, memory, new, said = turns(TOLD, "/memory 1", "/new", "//why not?")
    assert [record["text"] for record in memory["records"]] == ["Noted."]
    assert new["conversation_id"] == said["conversation_id"] != told["conversation_id"]
    assert said["text"] == "/why not?"
    record_id = told["written"][0]["id"]
    erased, page = turns(f"/forget {record_id}", "/memory", "/quit", "never read")
    assert erased == {"message": f"Erased {record_id}.", "command": "forget", "id": record_id}
    assert TOLD not in [record["text"] for record in page["records"]] and len(page["records"]) == 3
    text = talk("/help", "/memory", "/quit")
    assert "/forget ID" in text and "/why not?" in text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("/nothing", "command: got '/nothing'"),
        ("/why", "a turn before it"),
        ("/memory many", "/memory: got 'many'"),
        ("/memory 0", "a number from 1 to 1000"),
        ("/forget", "the id of a record"),
        ("/forget m-0", "'m-0'"),
        ("x" * 1_000_001, "content"),
    ],
)
def test_a_wrong_line_ends_a_script_with_one_line(line: str, message: str, talk: Talk) -> None:
    error = talk(line, "never read", code=2)
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--reference-time", "soon"), "--reference-time"),
        (("--infer",), "--infer"),
        (("--answer",), "--answer"),
        (("--conversation", " "), "--conversation"),
    ],
)
def test_a_wrong_option_is_refused_before_a_store_is_made(
    options: tuple[str, ...], message: str, talk: Talk, tmp_path: Path
) -> None:
    error = talk(TOLD, options=options, code=2)
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("verb", [("chat",), ("add", "-")])
@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])  # as locales have it
def test_invalid_utf_8_is_rejected(
    verb: tuple[str, ...], errors: str, talk: Talk, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"caf\xe9\n"), encoding="utf-8", errors=errors))
    assert main(list(verb)) == 2
    assert "recall-loop: error: stdin: got b'\\xe9'; allowed: text in UTF-8\n" in capsys.readouterr().err


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_the_lines_before_an_invalid_byte_are_taken(
    errors: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python decodes ahead, many lines at once."""
    given = "I moved to Tromsø.\r\n".encode() + b"My caf\xe9 is closed.\nI have a dog.\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8", errors=errors))
    assert main(["chat", "--store", str(tmp_path / "store"), "--json"]) == 2
    said = capsys.readouterr()
    (turn,) = [json.loads(line) for line in said.out.splitlines() if "Troms" in line]
    assert turn
    assert "dog" not in said.out
    assert "recall-loop: error: stdin: got b'\\xe9'; allowed: text in UTF-8\n" in said.err


def model_reply(asked: RecordedRequest) -> dict[str, Any]:
    """Answer from the first memory that names Ada, and draw one fact from what is told."""
    if asked.schema == "facts":
        if "Ada works" not in asked.user.partition("<messages>")[2]:
            return {"facts": []}
        fact = {"text": "Ada is a nurse.", "subject": "Ada", "fact_type": "works_as", "object": "nurse", "single": True}
        return {"facts": [{**fact, "cites": [1]}]}
    if asked.schema == "answer":
        number = re.search(r"\[(\d+)\][^\n]*Ada", prompt_section(asked, "memories"))
        cited = [{"cites": [int(number[1])], "text": "Ada is in Bergen."}] if number else []
        return {"found": bool(number), "sentences": cited}
    return {}


def test_a_model_answers_questions_and_extracts_facts(turns: Turns) -> None:
    """Proves: LOOP-10, OPS-5."""
    with ChatEndpoint(model_reply) as endpoint:
        options = ("--model", MODEL, "--base-url", endpoint.url, "--infer")
        told, asked = turns(TOLD, ASKED, options=options)
        assert told["reply"] == "Noted." and len(told["extracted"]["created"]) == 1
        assert re.fullmatch(r"Ada is in Bergen\. \[[\w-]+\]", asked["reply"])
        prompts = [seen for seen in endpoint.asked if seen.schema == "answer"]
        assert len(prompts) == 1 and ASKED in prompts[0].user
        plain = turns(ASKED, options=(*options[:4], "--no-answer"))
        assert plain[0]["reply"].startswith("I recall: ")


def test_a_person_types_makes_a_mistake_and_leaves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Typed at a terminal a mistake is told and the conversation goes on; the end of the input ends it with 0."""
    person, terminal = pty.openpty()
    with os.fdopen(person, "wb", buffering=0) as keyboard, os.fdopen(terminal, encoding="utf-8") as typed:
        monkeypatch.setattr("sys.stdin", typed)
        keyboard.write(f"/nothing\n{TOLD}\n\x04".encode())
        assert main(["chat", "--store", str(tmp_path / "s")]) == 0
    out = capsys.readouterr().out
    assert "got '/nothing'" in out and "memory: Noted." in out


@pytest.mark.parametrize(
    ("moment", "age"),
    [
        ("2025-06-03T08:59:30Z", "just now"),
        ("2025-06-03T08:58:00Z", "2 minutes ago"),
        ("2025-06-02T09:00:00Z", "1 day ago"),
        ("2024-06-01T09:00:00Z", "1 year ago"),
        ("2025-06-04T10:00:00Z", "in 1 day"),
    ],
)
def test_an_age_in_words(moment: str, age: str) -> None:
    assert format_age(datetime.fromisoformat(moment), datetime.fromisoformat(TUESDAY)) == age
