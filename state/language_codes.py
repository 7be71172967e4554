"""The languages that a record or a query may state (OPEN-4)."""

from __future__ import annotations

from typing import Literal, get_args

# fmt: off
LanguageCode = Literal[
    "ar", "ca", "cs", "da", "de", "el", "en", "eo", "es", "et", "eu", "fa", "fi", "fr", "ga", "hi", "hu", "hy", "id",
    "it", "ja", "lt", "nb", "ne", "nl", "nn", "no", "pl", "pt", "ro", "ru", "sr", "st", "sv", "ta", "th", "tr", "yi",
    "zh",
]
"""ISO 639-1 code of a language whose words are stemmed, or cut out of text without blanks."""
# fmt: on

RECORD_LANGUAGE = "Language of the text (ISO 639-1), for stemming; absent = detected from the text."
QUERY_LANGUAGE = "Language of the query (ISO 639-1), for stemming; absent = detected from the query."
_CODES = frozenset(get_args(LanguageCode))


def is_language_code(value: object) -> bool:
    """Return whether a foreign value is one of the codes; others may be words, or codes for something else."""
    return isinstance(value, str) and value in _CODES
