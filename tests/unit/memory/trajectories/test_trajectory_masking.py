"""Secrets out of runs, and nothing else."""

from __future__ import annotations

import pytest

from recall_loop.memory.trajectories.capture.convert import convert_run
from recall_loop.memory.trajectories.capture.masking import MASK, Masking, make_masking
from recall_loop.state.errors import InvalidInputError

MASKING = Masking()
KEY = "sk-" + "proj_" + "a1B2" * 6


@pytest.mark.parametrize(
    "name",
    ["password", "userPassword", "api_key", "apiKey", "X-Api-Key", "Authorization", "access_token", "token", "secret"],
)
def test_values_under_secret_names_are_masked_however_deep(name: str) -> None:
    """Proves: TRAJ-1."""
    given = {"a": [{name: {"value": "hunter22", "parts": [7, "x", None, True]}}], "city": "Oslo"}
    masked = MASKING.value(given)
    assert masked == {"a": [{name: {"value": MASK, "parts": [MASK, MASK, None, True]}}], "city": "Oslo"}


@pytest.mark.parametrize("name", ["token_count", "max_tokens", "secretary", "passenger", "keyboard", "author", "key"])
def test_other_names_are_left_alone(name: str) -> None:
    """Proves: TRAJ-1."""
    assert MASKING.value({name: "plain", "n": 3}) == {name: "plain", "n": 3}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"use {KEY}, please", f"use {MASK}, please"),
        ("Authorization: Bearer abc.def-123456", f"Authorization: Bearer {MASK}"),
        ("Bearer abcdefgh12345678", f"Bearer {MASK}"),
        ('{"password": "a \\"b\\" c", "x": 1}', f'{{"password": {MASK}, "x": 1}}'),
        ('{\\"password\\": \\"a b\\", \\"x\\": 1}', f'{{\\"password\\": {MASK}, \\"x\\": 1}}'),
        ('cut off: "password": "a b', f'cut off: "password": {MASK}'),
        ("PASSWORD=tr0ub4dor&3;", f"PASSWORD={MASK};"),
        ("/login?password=a&user=ada", f"/login?password={MASK}&user=ada"),
        ("postgres://ada:s3cret@db/x", f"postgres://ada:{MASK}@db/x"),
        ("AKIAABCDEFGHIJKLMNOP", MASK),
        ("ghp_" + "a" * 36, MASK),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", MASK),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----", MASK),
    ],
)
def test_patterns_of_secrets_in_texts(text: str, masked: str) -> None:
    """Proves: TRAJ-1."""
    assert MASKING.text(text) == masked
    assert MASKING.for_texts([text]).text(text) == MASKING.text(text)


@pytest.mark.parametrize(
    "text",
    ["Basic Economy. I'd like it", "You need a password.", '{"token": null}', "the secret of the sea", "a://b/c@d"],
)
def test_plain_talk_is_left_alone(text: str) -> None:
    """Proves: TRAJ-1."""
    assert MASKING.text(text) == text


def test_masking_twice_changes_nothing() -> None:
    """Proves: TRAJ-1."""
    for text in (f"api_key: {KEY}", "Authorization: Basic dXNlcg==", "password = x"):
        assert MASKING.text(MASKING.text(text)) == MASKING.text(text)


def test_a_secret_is_masked_wherever_the_run_repeats_it() -> None:
    """Proves: TRAJ-1."""
    call = {"name": "login", "arguments": {"user": "ada", "password": "hunter-22", "mode": "required"}}
    run = convert_run(
        [
            {"role": "user", "content": "Log me in with hunter-22, it is required."},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "hunter-22 is wrong", "error": "bad: hunter-22"},
        ]
    )
    assert "hunter-22" not in run.model_dump_json()
    assert run.task == f"Log me in with {MASK}, it is required."
    assert run.turns[0].messages[1].tool_calls[0].arguments == {"user": "ada", "password": MASK, "mode": "required"}


def test_arguments_that_are_text_are_masked_too() -> None:
    """Proves: TRAJ-1."""
    broken = '{"password": "hunter22", "x": '
    spelt = '{"password": "hunter22"}'
    calls = [{"function": {"name": "f", "arguments": given}} for given in (broken, spelt)]
    run = convert_run([{"role": "assistant", "content": "", "tool_calls": calls}])
    first, second = run.turns[0].messages[0].tool_calls
    assert first.arguments == f'{{"password": {MASK}, "x": '
    assert second.arguments == {"password": MASK}


def test_patterns_and_names_are_configurable() -> None:
    """Proves: TRAJ-1."""
    own = make_masking([r"\b\d{4}-\d{4}\b"], ["^pin$"])
    assert own.value({"pin": 1234, "note": "card 1111-2222", "password": "x"}) == {
        "pin": MASK,
        "note": f"card {MASK}",
        "password": MASK,
    }
    only = make_masking(["abc"], defaults=False)
    assert only.value({"password": "abcd"}) == {"password": f"{MASK}d"}
    assert Masking((), ()).value({"password": KEY}) == {"password": KEY}


@pytest.mark.parametrize("pattern", ["(", "a*", ""])
def test_unfit_patterns_are_errors_that_name_them(pattern: str) -> None:
    """Proves: TRAJ-1."""
    with pytest.raises(InvalidInputError, match=r"mask: got .*regular expression"):
        make_masking([pattern])
    with pytest.raises(InvalidInputError, match="mask_key"):
        make_masking(keys=[pattern])
