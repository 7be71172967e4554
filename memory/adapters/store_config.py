"""LangGraph's configuration of a store, `index` and `ttl`, checked against what the store is, and checks of puts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from langgraph.store.base import IndexConfig, PutOp, TTLConfig, ensure_embeddings, tokenize_path

from recall_loop.memory.adapters.store_values import check_text, plain_json
from recall_loop.memory.store.embed.embedders import group_by_model, normalise_vectors, run_embedder
from recall_loop.state.errors import InvalidInputError, UnsupportedOptionError

if TYPE_CHECKING:
    from recall_loop.memory.store.store import MemoryStore

MAX_MINUTES = 52_596_000
DEFAULT_SWEEP_MINUTES = 5.0
_INDEX_KEYS = ("dims", "embed", "fields")
_ITEM = re.compile(r"\[(\*|-?\d+)\]")
_PROBE = "The lighthouse keeper feeds her gulls at noon."
_LEAST_COSINE = 0.999


def index_fields(
    store: MemoryStore, kind: str, index: IndexConfig | None, fields: Sequence[str] | None
) -> tuple[str, ...]:
    """Return the paths whose texts are indexed, from `index` or `fields`; the whole value where neither names any.

    Raises `InvalidInputError` where both are given, or `index` is about another embedder than the store's.
    """
    if index is None:
        return index_paths(("$",) if fields is None else fields, "fields") or ("$",)
    check_keys("index", index, _INDEX_KEYS)
    if fields is not None:
        raise InvalidInputError("fields", fields, "no value together with index, which has its own fields")
    dims = index.get("dims")
    if dims is not None and dims != store.dimension:
        raise InvalidInputError("index.dims", dims, f"{store.dimension}, the length of the store's vectors")
    if index.get("embed") is not None:
        _check_embed(store, kind, index["embed"])
    return index_paths(index.get("fields") or ("$",), "index.fields")


def check_keys(name: str, config: object, allowed: Sequence[str]) -> None:
    """Raise `InvalidInputError` where a configuration is no mapping, or has a key that isn't allowed."""
    if not isinstance(config, Mapping):
        raise InvalidInputError(name, config, f"a mapping with {', '.join(allowed)}")
    for key in config:
        if key not in allowed:
            raise InvalidInputError(f"{name}.{key}", config[key], f"known keys: {', '.join(allowed)}")


def index_paths(paths: object, name: str) -> tuple[str, ...]:
    """Return paths as a tuple; raise `InvalidInputError` where it isn't a list of paths."""
    if not isinstance(paths, list | tuple) or (name != "index" and not paths):
        raise InvalidInputError(name, paths, "a list of paths")
    for at, path in enumerate(paths):
        if not isinstance(path, str) or not path or not all(map(_is_sound, tokenize_path(path))):
            raise InvalidInputError(
                f"{name}[{at}]", path, "a path such as title or parts[*].text; $ is the whole value"
            )
    return tuple(paths)


def _is_sound(token: str) -> bool:
    """Return whether LangGraph would read a token of a path as anything: a bracket that is no index finds nothing."""
    if token.startswith("["):
        return _ITEM.fullmatch(token) is not None
    return not token.startswith("{") or token.endswith("}")


def _check_embed(store: MemoryStore, kind: str, embed: Any) -> None:
    """Compare one text's vector by `embed` with that of the store, whose embedder makes all vectors."""
    import numpy as np

    allowed = "the embedder that the store was opened with: MemoryStore.open(path, embedder=…)"
    ((embedder, _),) = group_by_model(store.embedder, [kind])
    try:
        theirs = np.asarray(ensure_embeddings(embed).embed_documents([_PROBE]), dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise InvalidInputError("index.embed", embed, f"{allowed}; it fails: {error}") from error
    ours, _ = run_embedder(embedder, [_PROBE], store.dimension)
    if theirs.shape != ours.shape or float((normalise_vectors(theirs) * ours).sum()) < _LEAST_COSINE:
        raise InvalidInputError("index.embed", embed, allowed)


def checked_ttl(config: TTLConfig | None) -> TTLConfig | None:
    """Return a copy of LangGraph's configuration of times to live.

    Raises `InvalidInputError` for an unknown key or value, `UnsupportedOptionError` where it asks for expired items.
    """
    if config is None:
        return None
    check_keys("ttl", config, ("default_ttl", "refresh_on_read", "omit_expired", "sweep_interval_minutes"))
    for key in ("default_ttl", "sweep_interval_minutes"):
        check_minutes(config.get(key), f"ttl.{key}")
    for key in ("refresh_on_read", "omit_expired"):
        if not isinstance(config.get(key, True), bool):
            raise InvalidInputError(f"ttl.{key}", config.get(key), "true or false")
    if config.get("omit_expired") is False:
        raise UnsupportedOptionError("ttl.omit_expired", False, "true: expired items are always left out")
    return config.copy()


def check_minutes(minutes: object, name: str) -> None:
    """Raise `InvalidInputError` where a time in minutes isn't None, nor above 0 and at most 100 years."""
    if minutes is None:
        return
    if not isinstance(minutes, int | float) or isinstance(minutes, bool) or not 0 < minutes <= MAX_MINUTES:
        raise InvalidInputError(name, minutes, f"minutes above 0, at most {MAX_MINUTES:,} (100 years), or None")


def checked_put(op: PutOp) -> PutOp:
    """Return a put as it is kept; refuse what can't be kept, before anything is written."""
    check_minutes(op.ttl, "ttl")
    if not op.namespace:
        raise InvalidInputError("namespace", op.namespace, "a tuple of one or more labels")
    for at, label in enumerate(op.namespace):
        check_text(label, f"namespace[{at}]")
    key: object = op.key
    if not isinstance(key, str):
        raise InvalidInputError("key", key, "text")
    check_text(key, "key")
    value: object = op.value
    if value is not None and not isinstance(value, Mapping):
        raise InvalidInputError("value", op.value, "a mapping, or None to delete")
    index: object = op.index
    if index is not None and index is not False:
        index_paths(index, "index")
    return op._replace(namespace=tuple(op.namespace), value=None if value is None else plain_json(value))
