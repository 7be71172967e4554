"""Ids in addresses: `{name:id}` in a route's path takes any text."""

from __future__ import annotations

from starlette.convertors import Convertor, register_url_convertor

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
