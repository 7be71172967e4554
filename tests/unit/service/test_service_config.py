"""Settings of the service as the environment has them."""

from __future__ import annotations

import pytest

from recall_loop.service.core.config import ServiceConfig
from recall_loop.service.serving import serve
from recall_loop.state.errors import InvalidInputError
from recall_loop.state.settings.settings import Settings


@pytest.mark.parametrize("given", ["a.test,b.test", " a.test , b.test,", '["a.test", "b.test"]'])
def test_host_names_stand_between_commas_or_in_a_json_list(monkeypatch, given):
    """Proves: OPS-1."""
    monkeypatch.setenv("RECALL_LOOP_SERVICE_ALLOWED_HOSTS", given)
    assert ServiceConfig().allowed_hosts == ("a.test", "b.test")


@pytest.mark.parametrize("given", ["[", '["a.test"', "[1]"])
def test_host_names_that_are_none_are_an_error_that_names_the_variable(monkeypatch, given):
    """Proves: OPS-1."""
    monkeypatch.setenv("RECALL_LOOP_SERVICE_ALLOWED_HOSTS", given)
    with pytest.raises(InvalidInputError, match=r"^RECALL_LOOP_SERVICE_ALLOWED_HOSTS: got "):
        ServiceConfig()


def test_a_request_log_that_cannot_be_written_ends_the_start_before_an_address_is_told(tmp_path):
    """Proves: OPS-1."""
    announced = []
    config = ServiceConfig(port=0, request_log=tmp_path / "missing" / "requests.jsonl")
    with pytest.raises(InvalidInputError, match=r"^request_log: got .*allowed: a file that can be written \(No such"):
        serve(config, Settings(), access_log=False, announce=announced.append)
    assert announced == []
