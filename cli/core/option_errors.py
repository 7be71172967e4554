"""Errors about a field, under the name of the option that set it: whoever typed `--types` knows no `content_types`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from recall_loop.state.errors import NOTHING, InvalidInputError, RejectedRecordsError, display_value


def named_by_option(
    error: InvalidInputError, args: argparse.Namespace, argv: Sequence[str]
) -> InvalidInputError | None:
    """Return the error with the option that gave its value in place of the field; None where none did.

    A field that is missing has the name of the option that would give it.

    Args:
        error: an error of a verb, whose field may stand in others: `scope.user_id`, `content_types.0`.
        args: the arguments, and as `parser` who parsed them.
        argv: the command line.
    """
    if isinstance(error, RejectedRecordsError):  # it has reasons of its own for each record
        return None
    for action in args.parser.options():
        given = getattr(args, action.dest, None)
        values = [given, *given] if isinstance(given, list | tuple) else [NOTHING if given is None else given]
        if action.dest in error.field.split(".") and error.value in map(display_value, values):
            names = action.option_strings
            typed = [one for one in names if given is None or any(word.split("=")[0] == one for word in argv)]
            return error.renamed(typed[0]) if typed else None
    return None
