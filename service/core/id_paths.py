"""Ids in addresses: `{name:id}` in a route's path takes any text."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from starlette.convertors import Convertor, register_url_convertor
from starlette.types import Scope

from recall_loop.service.core.problems import ProblemError

ID_CONVERTOR = "id"


class IdConvertor(Convertor[str]):
    """Text with slashes and line breaks; Starlette's own `path` ends at a line break."""

    regex = "(?s:.*)"

    def convert(self, value: str) -> str:
        """Return the id as it is."""
        return value

    def to_string(self, value: str) -> str:
        """Return the id as it is."""
        return value


register_url_convertor(ID_CONVERTOR, IdConvertor())


def check_path(scope: Scope) -> None:
    """Raise `ProblemError` (400) where an address isn't UTF-8: servers replace bytes, so that ids would become one."""
    try:
        unquote_to_bytes(scope.get("raw_path") or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProblemError(400, "The percent-encoded address isn't UTF-8.", kind="invalid_path") from error
