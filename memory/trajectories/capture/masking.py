"""Masks the secrets of a run before anything of it is stored (TRAJ-1).

Three rules, in this order. A value under a key that names a secret is masked completely, however deeply it is nested. A
value that was masked by its key is masked wherever else the run repeats it. And every text is searched for patterns
of secrets. Masking can't be undone from the store.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pydantic import JsonValue

from recall_loop.memory.parsing.foreign_json import to_json_value
from recall_loop.state.errors import InvalidInputError

MASK = "[masked]"
_SECRET_WORDS = (
    r"password[s\d]*(?:_confirm|_confirmation|_repeat|_again)?|passwds?|passphrases?|passcodes?|pwd\d*|secrets?|token|"
    "(?:access|refresh|auth|api|bearer|session|id)_tokens|api_?keys?|access_?keys?|secret_?keys?|private_?keys?|"
    "signing_?keys?|encryption_?keys?|authorization|credentials?|cookies?|set_cookies?|bearer|auth|otps?|cvv|cvc"
)
# The last word of a name describes its value: `access_token` and `token` are secrets, `token_count` isn't, and
# `tokens` alone are a count.
DEFAULT_KEYS = rf"(?:^|_)(?:{_SECRET_WORDS})$"
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_REPEATED_LENGTH, _WORD_LENGTH = 6, 12
# Pairs of a name and a value, as in a form or a list of headers.
_NAMING = ("name", "key", "field", "header", "parameter")
_NAMED_IN_JSON = re.compile(r'"(?P<name>[^"\\]{1,100})"(?P<joint>\s*:\s*)(?:"(?:[^"\\]|\\.)*"?|-?[0-9][^\s,}\]]*)')


@dataclass(frozen=True, slots=True)
class SecretPattern:
    """A pattern of secrets in text. Every case-folded text that can match contains one of `hints`; () = any text.

    A group named `kept` stays; everything else of a match is masked.
    """

    regex: re.Pattern[str]
    hints: tuple[bytes, ...] = ()


def _secret_pattern(regex: str, *hints: str) -> SecretPattern:
    return SecretPattern(re.compile(regex), tuple(hint.encode() for hint in hints))


_GIT_HINTS = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-")
_NAMED = r"pass(?:word|wd|phrase|code)|pwd|client_secret|secret|(?:api|access|secret|private)[_-]?key|auth[_-]?token"
_NAMED += r"|access[_-]?token|refresh[_-]?token|id[_-]?token|session[_-]?token|token|authorization"
DEFAULT_PATTERNS = (
    _secret_pattern(
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", "private key-----"
    ),
    _secret_pattern(
        r"(?i)(?P<kept>\bauthorization[\"']?\s*[:=]\s*[\"']?(?:bearer|basic|token)\s+)[^\s\"',;]+", "authorization"
    ),
    _secret_pattern(r"(?P<kept>\b[Bb]earer\s+)(?=[^\s\"']*[0-9])[A-Za-z0-9._~+/=-]{12,}", "bearer"),
    _secret_pattern(r"(?P<kept>(?<![a-zA-Z0-9+.-])[a-zA-Z][a-zA-Z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)", "://"),
    _secret_pattern(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", "eyj"),
    _secret_pattern(r"\b(?:sk|pk|rk)[-_][A-Za-z0-9_-]{16,}", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_"),
    _secret_pattern(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", "akia", "asia"),
    _secret_pattern(
        r"\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{16,})", *_GIT_HINTS
    ),
    _secret_pattern(r"\bxox[abeprs]-[A-Za-z0-9-]{10,}", "xox"),
    _secret_pattern(r"\bAIza[A-Za-z0-9_-]{30,}", "aiza"),
    _secret_pattern(
        rf"(?i)(?P<kept>(?<![A-Za-z])(?:{_NAMED})(?:\\?[\"'])?\s*[:=]\s*)"
        # Not masked already, nor a word without a value; then a quoted text (also JSON in JSON), or up to a delimiter.
        r"(?!\[masked\]|(?:bearer|basic|token)\s+\[masked\]|(?:true|false|null|none)\b)"
        r"(?:\\\"(?:[^\"\\]|\\[^\"])*(?:\\\")?|\"(?:[^\"\\]|\\.)*\"?|'[^']*'?|(?:[^\s,;\"'}\])&]|&(?!\w+=))+)",
        *("passw", "passph", "passco", "pwd", "secret", "token", "authorization"),
        *(f"{word}{joint}key" for word in ("api", "access", "private") for joint in ("_", "-", "")),
    ),
)


@dataclass(frozen=True)
class Masking:
    """The rules for what counts as a secret: patterns of secrets inside texts, and `keys`.

    These are patterns of names, searched as snake_case, whose values are masked completely.
    """

    keys: tuple[re.Pattern[str], ...] = (re.compile(DEFAULT_KEYS),)
    patterns: tuple[SecretPattern, ...] = DEFAULT_PATTERNS
    _names: dict[str, bool] = field(default_factory=dict, compare=False, repr=False)

    def is_secret_name(self, name: str) -> bool:
        """Return whether the value under `name` is a secret."""
        known = self._names.get(name)
        if known is None:
            snake = _CAMEL.sub("_", name).lower().replace("-", "_").replace(" ", "_").replace(".", "_")
            known = any(key.search(snake) for key in self.keys)
            if len(self._names) < 10_000:  # names come from outside: the cache is bounded
                self._names[name] = known
        return known

    def text(self, text: str, repeated: Iterable[str] = ()) -> str:
        """Return `text` with secrets masked; `repeated` are values that are known to be secrets."""
        for secret in repeated:
            if secret in text:
                text = text.replace(secret, MASK)
        for pattern in self._possible(text) if self.patterns else ():
            text = pattern.regex.sub(_masked, text)
        return text

    def for_texts(self, texts: Iterable[str]) -> Masking:
        """Return it with the patterns that can match one of `texts`: one search of a run saves one for each message."""
        return replace(self, patterns=tuple(self._possible("\n".join(texts))))

    def _possible(self, text: str) -> list[SecretPattern]:
        folded = text.casefold().encode("utf-8", "replace")  # bytes are searched twice as fast as wide text
        return [one for one in self.patterns if not one.hints or any(hint in folded for hint in one.hints)]

    def value(self, value: JsonValue, repeated: Iterable[str] = ()) -> JsonValue:
        """Return a JSON value with secrets masked, by the names of its keys and by the patterns."""
        if isinstance(value, str):
            return self.text(self._mask_json(value, repeated), repeated)
        if isinstance(value, dict):
            named = self._names_a_secret(value)
            return {
                name: _mask_all(item)
                if self.is_secret_name(name) or (named and name == "value")
                else self.value(item, repeated)
                for name, item in value.items()
            }
        if isinstance(value, list):
            return [self.value(item, repeated) for item in value]
        return value

    def _names_a_secret(self, value: Mapping[str, JsonValue]) -> bool:
        """Return whether `value` stands beside the name of a secret, as in `{"name": "password", "value": "..."}`."""
        if "value" not in value:
            return False
        names = (value.get(name) for name in _NAMING)
        return any(isinstance(name, str) and self.is_secret_name(name) for name in names)

    def _mask_json(self, text: str, repeated: Iterable[str]) -> str:
        """Return text that spells JSON, also such that was cut off, with the values of secret names masked."""
        if text.lstrip()[:1] not in ("{", "[") or not self.keys:
            return text
        parsed = _parse_json(text)
        if parsed is not None:
            masked = self.value(parsed, repeated)
            return text if masked == parsed else json.dumps(masked, ensure_ascii=False)
        return _NAMED_IN_JSON.sub(self._masked_name, text)

    def _masked_name(self, match: re.Match[str]) -> str:
        name = match["name"]
        return f'"{name}"{match["joint"]}"{MASK}"' if self.is_secret_name(name) else match[0]

    def collect_secrets(self, value: JsonValue, secrets: set[str], *, secret: bool = False) -> None:
        """Add the texts under secret names that are worth masking wherever they are repeated to `secrets`.

        At least six characters, or twelve where there are only letters: a word such as "required" would be masked all
        over.
        """
        if isinstance(value, dict):
            named = self._names_a_secret(value)
            for name, item in value.items():
                if secret or self.is_secret_name(name) or (named and name == "value"):
                    self.collect_secrets(item, secrets, secret=True)
                elif not isinstance(item, int | float | None):
                    self.collect_secrets(item, secrets)
        elif isinstance(value, list):
            for item in value:
                self.collect_secrets(item, secrets, secret=secret)
        elif secret and value is not None and not isinstance(value, bool):
            text = str(value)
            if len(text) >= (_WORD_LENGTH if text.isalpha() else _REPEATED_LENGTH):
                secrets.add(text)
        elif isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            self.collect_secrets(_parse_json(value), secrets)


def make_masking(patterns: Iterable[str] = (), keys: Iterable[str] = (), *, defaults: bool = True) -> Masking:
    """Return a masking from regular expressions: of texts, and of names in snake_case (searched, not matched).

    What is no regular expression, or matches the empty text, raises `InvalidInputError`.
    """
    text_patterns = tuple(SecretPattern(_compile_regex("mask", text)) for text in patterns)
    names = tuple(_compile_regex("mask_key", text) for text in keys)
    if defaults:
        text_patterns, names = (*DEFAULT_PATTERNS, *text_patterns), (re.compile(DEFAULT_KEYS), *names)
    return Masking(names, text_patterns)


def _compile_regex(name: str, text: str) -> re.Pattern[str]:
    try:
        regex = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidInputError(name, text, f"a regular expression of Python's `re` ({error})") from error
    if regex.search(""):
        raise InvalidInputError(name, text, "a regular expression that doesn't match the empty text")
    return regex


def _parse_json(text: str) -> dict[str, JsonValue] | list[JsonValue] | None:
    """Return the object or list that a text spells, else None."""
    try:
        parsed = to_json_value(json.loads(text))  # as deep as a record may be nested, and no deeper
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def _masked(match: re.Match[str]) -> str:
    return f"{match.groupdict().get('kept') or ''}{MASK}"


def _mask_all(value: JsonValue) -> JsonValue:
    """Mask every text and number under a secret name; structure, true, false and null reveal nothing."""
    if isinstance(value, Mapping):
        return {name: _mask_all(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_mask_all(item) for item in value]
    return value if value is None or isinstance(value, bool) or value == "" else MASK
