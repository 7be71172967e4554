"""One request of a batch, run to its line of the output; what goes wrong with it is that line (OPS-2)."""

from __future__ import annotations

import logging
import re

from recall_loop.graph.batch.batch_requests import BatchRequest, ResultLine
from recall_loop.graph.run import retrieve
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import InvalidInputError, RecallError, validate_model
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings.settings import Settings

_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")
_log = logging.getLogger(__name__)


def run_request(request: BatchRequest, store: MemoryStore, settings: Settings) -> ResultLine:
    """Run one request and return its line; nothing that goes wrong with it ends the batch."""
    fields = {"tenant": settings.tenant} | dict(request.fields or {})
    try:
        result = retrieve(validate_model(RetrieveRequest, fields), store=store, settings=settings)
    except RecallError as error:
        return request.result_line(error=describe_error(error))
    except Exception as error:  # noqa: BLE001  # the log has the trace; the other requests go on
        _log.exception("request %r failed", request.request_id)
        return request.result_line(error={"type": "internal", "message": f"{type(error).__name__}: {error}"})
    return request.result_line(result=result.model_dump(mode="json"))


def describe_error(error: RecallError) -> ResultLine:
    """Return an exception as `{"type", "field", "message"}`; `field` only where one is to blame."""
    name = type(error).__name__.removesuffix("Error")
    described: ResultLine = {"type": _WORD_START.sub("_", name).lower(), "message": str(error)}
    if isinstance(error, InvalidInputError):
        described["field"] = error.field
    return described
