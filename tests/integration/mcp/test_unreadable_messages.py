"""What a client sends over standard input and isn't a message is answered, and the server lives on (OPS-6)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.mcp.mcp_clients import OPENING, Peer, request_line
from tests.processes.forked_process import forked_command

pytestmark = pytest.mark.slow
CALL = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"search","arguments":{"query":"%s"}}}'


@pytest.fixture(scope="module")
def peer(folder: Path) -> Iterator[Peer]:
    with forked_command("mcp", "--store", str(folder), "--read-only") as process:
        yield Peer(process)
        process.stdin.close()
        assert process.wait(30) == 0


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("line", "asked", "code", "words"),
    [
        (CALL % (2, r"a \ud800 b"), 2, -32700, "half of a Unicode character"),
        (CALL % ('"x"', r"\udfff"), "x", -32700, "half of a Unicode character"),
        (CALL % (r'"\ud800"', "ferry"), None, -32700, "half of a Unicode character"),
        ("no JSON", None, -32700, "Invalid JSON"),
        ('{"jsonrpc":"2.0","id":5,"method":7}', 5, -32600, "not a JSON-RPC 2.0 request"),
        ("[]", None, -32600, "not a JSON-RPC 2.0 request"),
    ],
)
def test_it_is_answered_with_an_error(peer: Peer, line: str, asked: object, code: int, words: str) -> None:
    """Proves: OPS-6. Under its own id, as far as that can be read; the next request is answered as ever."""
    answer = peer.asked(line)
    assert (answer["id"], answer["error"]["code"]) == (asked, code)
    assert words in answer["error"]["message"]
    assert peer.asked(CALL % (9, "ferry"))["result"]["isError"] is False


@pytest.mark.timeout(60)
@pytest.mark.parametrize("line", ["", r'{"jsonrpc":"2.0","method":"x","params":{"y":"\ud800"}}'])
def test_notifications_get_no_answer(peer: Peer, line: str) -> None:
    """Proves: OPS-6 (blank lines and notifications)."""
    peer.say(line)
    assert peer.asked(CALL % (10, "ferry"))["id"] == 10


@pytest.mark.timeout(60)
def test_what_was_asked_before_the_end_of_the_input_is_answered(tmp_path: Path) -> None:
    """Proves: OPS-6 (a client that pipes its requests in; one that it has cancelled is not waited for)."""
    add = '{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"add","arguments":{"text":"Line %s."}}}'
    cancelled = '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}'
    begun = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"})
    lines = [
        request_line("initialize", **OPENING),
        begun,
        *(add % (at, at) for at in (1, 2, 3)),
        cancelled,
        CALL % (4, "line"),
    ]
    with forked_command("mcp", "--store", "store", cwd=tmp_path) as process:
        process.stdin.write("\n".join(lines))
        said, complained = process.communicate()
    assert process.returncode == 0, complained
    answers = {answer["id"]: answer for answer in map(json.loads, said.splitlines())}
    assert {0, 1, 2, 4} <= set(answers)
    assert all(answers[at]["result"]["isError"] is False for at in (1, 2, 4))
