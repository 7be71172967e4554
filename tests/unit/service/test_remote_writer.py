"""Writes of a worker, done by the process that owns the store."""

from __future__ import annotations

import pickle
from types import MappingProxyType

import pytest

from recall_loop import MemoryStore
from recall_loop.service.workers.remote_writer import WriterUnavailableError
from recall_loop.service.workers.writer_process import WriterProcess
from recall_loop.state import errors
from recall_loop.state.errors import InvalidInputError, RecordNotFoundError, RejectedRecordsError, Rejection
from recall_loop.state.scope import Filters, RetentionRule, Scope
from tests.embedders import WordHashEmbedder
from tests.processes.remote_writer import writing_through

BAD = {"id": "bad\ud800", "text": ""}


@pytest.fixture
def stores():
    with MemoryStore.in_memory(embedder=WordHashEmbedder()) as owner, writing_through(owner) as remote:
        yield owner, remote


def test_every_write_is_the_owners(stores):
    """Proves: OPS-1."""
    owner, remote = stores
    assert [one.index for one in remote.upsert({"id": f"m{at}", "text": "Nine."} for at in range(1003))] == list(
        range(1003)
    )
    assert remote.update("m1", {"text": "Noon."}, actor="ada").text == "Noon."
    assert owner.get(["m1"], scope=Scope())[0].text == "Noon."
    assert [version.actor for version in owner.history("m1")] == ["ada"]
    rule = RetentionRule(older_than_days=1)
    assert remote.forget(Scope(), filters=Filters(label="none"), rule=rule, content_types=["message"]).records == 0
    assert remote.delete(["m1", "none"]) == 1
    assert remote.maintenance.sweep().expired == 0
    assert remote.erase(Scope()) == 1002
    assert not owner.count(Scope())


def test_bad_records_are_the_owners_answers(stores):
    """Proves: API-2."""
    _, remote = stores
    good, bad = remote.upsert([{"id": "m1", "text": "Nine."}, BAD], on_reject="report")
    assert (good.status, bad.status) == ("created", "rejected")
    with pytest.raises(RejectedRecordsError) as caught:
        remote._ask("upsert", [BAD])
    assert caught.value.rejections[0].field == "id"
    with pytest.raises(RecordNotFoundError):
        remote.update("none", {"text": "Noon."})


def test_what_can_t_be_pickled_is_written_as_by_the_owner_itself(stores):
    """Proves: OPS-1."""
    owner, remote = stores
    record = MappingProxyType({"id": "m1", "kind": "fact", "text": "Nine."})
    assert [one.status for one in remote.upsert([record])] == ["created"]
    assert remote.update("m1", MappingProxyType({"text": "Noon."})).text == "Noon."
    assert remote.forget(Scope(), content_types=iter(["fact"])).records == 1
    assert not owner.count(Scope())


def test_no_other_user_can_reach_the_owner(stores, tmp_path):
    """Proves: OPS-1."""
    owner, _ = stores
    tmp_path.chmod(0o755)
    with pytest.raises(InvalidInputError, match="only its own user"):
        WriterProcess(owner, tmp_path / "owner")
    assert not (tmp_path / "owner").exists()


def test_without_an_owner_nothing_is_acknowledged(stores):
    """Proves: OPS-1."""
    _, remote = stores
    remote.writer_socket = remote.writer_socket.with_name("gone")
    with pytest.raises(WriterUnavailableError, match="not acknowledged"):
        remote.delete(["m1"])


REJECTED = RejectedRecordsError([Rejection(0, "m1", "text", "''", "text of 1 to 1000000 characters")])
KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.RecallError)]
PLAIN = [kind("it failed at /a/path", told="it failed") for kind in KINDS if not issubclass(kind, InvalidInputError)]
INVALID = [errors.UnsupportedOptionError("fuzzy", 3, "0 to 2"), InvalidInputError("text", "x" * 200, "less")]


@pytest.mark.parametrize("error", [*PLAIN, *INVALID, REJECTED], ids=lambda error: type(error).__name__)
def test_an_error_is_the_same_in_another_process(error):
    """Proves: OPS-1."""
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), str(found), found.told, vars(found)) == (type(error), str(error), error.told, vars(error))
