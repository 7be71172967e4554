"""A chat model that is handed in, and the client that asks it."""

from __future__ import annotations

import gc
import weakref

from recall_loop.nodes.runtime.resources import GraphResources
from recall_loop.state.context import Context
from recall_loop.state.settings.settings import Settings
from tests.integration.model.test_llm_client_server import plan
from tests.llm_endpoint import ChatEndpoint


def test_a_model_that_is_gone_lends_its_client_to_no_other():
    """Proves: GRAPH-3 (clients are found by the id of the model, which is kept as long as they are)."""
    resources = GraphResources(None, Settings())
    with ChatEndpoint(plan) as endpoint:
        given = endpoint.model(max_retries=3)  # the client uses a copy without retries
        client, kept = resources.chat_client_for(Context(), Settings(), given), weakref.ref(given)
        assert resources.chat_client_for(Context(), Settings(), given) is client
        del given
        gc.collect()
        assert kept() is not None
