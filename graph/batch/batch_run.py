"""Scripted batches: requests in, one line each out, in files or as a stream, resumable (OPS-2).

A request is a `RetrieveRequest` with an `id`. Its line is `{"id", "line", "digest", "result"}`, or `{"id", "line",
"digest", "error": {"type", "field", "message"}}` where it failed; `line` counts from 1, and `digest` tells the
request's line of the file from another's. Lines are on disk before more requests are begun in the place of theirs: a
killed run that is resumed neither repeats nor loses a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

from recall_loop.graph.batch.batch_engines import ProcessEngine, ThreadEngine, multiprocess_blocker
from recall_loop.graph.batch.batch_output import BatchSummary, ResultsFile
from recall_loop.graph.batch.batch_requests import (
    BatchRequest,
    ResultLine,
    RunOptions,
    requests_from_file,
    requests_from_objects,
)
from recall_loop.graph.batch.batch_rounds import BatchEngine, BatchScheduler, OutputOrder
from recall_loop.graph.batch.ray_engine import RayCluster, RayEngine, ray_blocker
from recall_loop.llm.endpoint.wrapped_models import ChatModel
from recall_loop.memory.store.files.store_place import check_store, checked_file
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.bindings import check_bindings
from recall_loop.state.context import Context
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.request import RetrieveRequest
from recall_loop.state.settings.settings import Settings, checked_settings

MAX_CONCURRENCY = 64
MAX_TIMEOUT = 86_400.0


def run_batch(
    requests_path: str | Path,
    output_path: str | Path,
    *,
    store: MemoryStore,
    settings: Settings | None = None,
    context: Context | Mapping[str, Any] | None = None,
    llm: ChatModel | str | None = None,
    concurrency: int = 4,
    workers: int = 1,
    ray: RayCluster | None = None,
    order: OutputOrder = "completed",
    timeout: float | None = None,
    resume: bool = False,
    progress: Callable[[BatchSummary], None] | None = None,
) -> BatchSummary:
    """Run every request of a file and append one line per request to the output.

    What a request leaves out, such as its tenant, is the context's, else the settings'. `progress` is called with the
    summary after every line.

    Args:
        requests_path: JSON Lines, a regular file.
        output_path: a new file, or with `resume` the one that an earlier run began.
        store: the memory to search.
        settings: None = the environment and the defaults.
        context: defaults of all requests, as `retrieve` takes them, but for `store_path` and `embedder`.
        llm: chat model of all requests, as `retrieve` takes it; a name with `workers` or `ray`.
        concurrency: requests at a time, 1 to 64.
        workers: processes that share them, 1 to 64; 1 = threads of this process. Each opens the store to read.
        ray: run them in actors of a Ray cluster instead, `concurrency` in each; the store is on a Chroma server, and
            every machine of the cluster reads its folder at the same path.
        order: "completed" = lines as requests end; "input" = in the order of the requests.
        timeout: seconds for each request, up to a day; one that takes longer gets an error line.
        resume: run the requests that have no line in the output yet.
        progress: called with the summary so far.

    Raises:
        InvalidInputError: an argument is not allowed; the output exists and `resume` is off, isn't an output of this
            function or of these requests, or is being written by another run.
        OSError: a file can't be read or written.
        WorkerError: worker processes can't begin, or end one after the other.
    """
    options = _run_options(settings, context, llm, timeout)
    _check(concurrency, workers, order, ray, store, options)
    source, target = checked_file(requests_path, "requests_path"), checked_file(output_path, "output_path")
    _check_files(source, target)
    with ResultsFile(target, resume=resume) as output:
        output.completed.check(source)
        summary = BatchSummary(skipped_errors=output.failures)
        requests = _pending_requests(requests_from_file(source, output.completed), summary)
        with closing(_engine(store, options, concurrency, workers, ray)) as engine:
            for lines in BatchScheduler(requests, engine, order, timeout):
                output.append(lines)
                for line in lines:
                    summary.add(line)
                    if progress:
                        progress(summary)
    return summary


def stream_batch(
    requests: Iterable[Mapping[str, Any] | RetrieveRequest],
    *,
    store: MemoryStore,
    settings: Settings | None = None,
    context: Context | Mapping[str, Any] | None = None,
    llm: ChatModel | str | None = None,
    concurrency: int = 4,
    workers: int = 1,
    ray: RayCluster | None = None,
    order: OutputOrder = "completed",
    timeout: float | None = None,
) -> Iterator[ResultLine]:
    """Yield one line per request, as `run_batch` writes them (without `digest`), reading requests as they are needed.

    Each request needs its own `id`. Closing the iterator drops the requests that haven't begun.

    Raises:
        InvalidInputError: an argument is not allowed; at once, not at the first line.
        WorkerError: worker processes can't begin, or end one after the other.
    """
    options = _run_options(settings, context, llm, timeout)
    _check(concurrency, workers, order, ray, store, options)
    if isinstance(requests, str | bytes | Mapping) or not isinstance(requests, Iterable):
        raise InvalidInputError("requests", requests, "requests, one after another")

    def lines() -> Iterator[ResultLine]:
        with closing(_engine(store, options, concurrency, workers, ray)) as engine:
            for some in BatchScheduler(requests_from_objects(requests), engine, order, timeout):
                yield from some

    return lines()


def _pending_requests(requests: Iterator[BatchRequest | None], summary: BatchSummary) -> Iterator[BatchRequest]:
    for request in requests:
        if request is None:
            summary.skip()
        else:
            yield request


def _engine(
    store: MemoryStore, options: RunOptions, concurrency: int, workers: int, ray: RayCluster | None
) -> BatchEngine:
    if ray is not None:
        return RayEngine(store, options, concurrency, ray)
    if workers == 1:
        return ThreadEngine(store, options, concurrency)
    return ProcessEngine({"location": store.location, "options": options}, concurrency, workers)


def _run_options(
    settings: Settings | None, context: Context | Mapping[str, Any] | None, llm: ChatModel | str | None, timeout: Any
) -> RunOptions:
    """Return what every run gets: the loop's deadline is at most the timeout, so that work ends with it."""
    chosen, defaults = checked_settings(settings), Context.resolve(context)
    for name in ("store_path", "embedder"):
        if (value := getattr(defaults, name)) is not None:
            raise InvalidInputError(f"context.{name}", value, "none in the context of a batch, which has its store")
    if timeout is None:
        return RunOptions(chosen, defaults, llm)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= MAX_TIMEOUT:
        raise InvalidInputError("timeout", timeout, f"seconds, more than 0 and at most {MAX_TIMEOUT:,.0f}")
    deadline = min(timeout, defaults.deadline_seconds or chosen.deadline_seconds or timeout)
    return RunOptions(chosen, defaults.model_copy(update={"deadline_seconds": deadline}), llm)


def _check(
    concurrency: int, workers: int, order: str, ray: RayCluster | None, store: MemoryStore, options: RunOptions
) -> None:
    check_store(store)
    check_bindings(None, options.llm)
    if type(concurrency) is not int or not 1 <= concurrency <= MAX_CONCURRENCY:
        raise InvalidInputError("concurrency", concurrency, f"an integer from 1 to {MAX_CONCURRENCY}")
    if type(workers) is not int or not 1 <= workers <= concurrency:
        raise InvalidInputError("workers", workers, f"an integer from 1 to {concurrency}, the concurrency")
    if workers > 1 and (reason := "ray counts actors" if ray else multiprocess_blocker(store, options)):
        raise InvalidInputError("workers", workers, f"1, as {reason}")
    if ray is not None and (reason := ray_blocker(store, options)):
        raise InvalidInputError("engine", "ray", f"local, as {reason}")
    if order not in get_args(OutputOrder):
        raise InvalidInputError("order", order, "completed or input")


def _check_files(requests_path: Path, output_path: Path) -> None:
    if requests_path.exists() and not requests_path.is_file():  # first: opening a named pipe waits for its writer
        raise InvalidInputError("requests", str(requests_path), "a regular file: it is read more than once")
    requests_path.open("rb").close()
    if output_path.exists() and output_path.samefile(requests_path):
        raise InvalidInputError("output", str(output_path), "a file other than the requests")
