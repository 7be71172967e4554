"""Chat models and embedders as LangChain has them: as objects, and by name as provider:model."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_openai import OpenAIEmbeddings

from recall_loop import Memory
from recall_loop.cli.main import main
from recall_loop.graph.builder import build_graph
from recall_loop.graph.remember import remember
from recall_loop.graph.run import retrieve
from recall_loop.llm.client import chat_model
from recall_loop.llm.endpoint.providers import PROVIDERS, provider_of, settings_for_model
from recall_loop.memory.store.embed.embedder_factory import as_embedder, make_embedder
from recall_loop.memory.store.embed.langchain_embedder import LangChainEmbedder, OpenAIEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.context import Context
from recall_loop.state.errors import EmbedderError, EmbedderMismatchError, InvalidInputError
from recall_loop.state.settings.settings import Settings
from tests.embedders import WordHashEmbedder
from tests.integration.graph.worlds import DIRECT, VALLEY, filled_store, valley_request
from tests.llm_endpoint import ChatEndpoint

NOTE = {"id": "n1", "kind": "archival", "text": "The ferry Birk leaves at nine."}
KEYS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_API_BASE")


@pytest.fixture(autouse=True)
def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def world():
    with filled_store() as store:
        yield store


def refuses(_: Any) -> dict[str, Any]:
    return {"queries": []}


@pytest.mark.parametrize("name", ["openai:test-model", "test-model", "llama3:8b"])
def test_a_chat_model_by_name_is_asked_everywhere(world, monkeypatch, name):
    """Proves: GRAPH-3 (an argument, a setting, the environment, the context; a server's own names may have a colon)."""
    sent = name.removeprefix("openai:")
    with ChatEndpoint(refuses) as endpoint:
        address = Settings(llm_base_url=endpoint.url)
        calls = [
            lambda: retrieve(valley_request(DIRECT), store=world, settings=address, llm=name),
            lambda: build_graph(world, name, address).invoke(valley_request(DIRECT)),
            lambda: retrieve(
                valley_request(DIRECT), store=world, settings=Settings(llm_base_url=endpoint.url, llm_model=name)
            ),
            lambda: retrieve(
                valley_request(DIRECT), store=world, context=Context(llm_model=name, llm_base_url=endpoint.url)
            ),
            lambda: retrieve(valley_request(DIRECT), store=world, settings=address, context=Context(llm_model=name)),
        ]
        for number, call in enumerate(calls):
            before = endpoint.count()
            call()
            assert endpoint.count() > before, number
        monkeypatch.setenv("RECALL_LOOP_LLM_MODEL", name)
        monkeypatch.setenv("RECALL_LOOP_LLM_BASE_URL", endpoint.url)
        before = endpoint.count()
        retrieve(valley_request(DIRECT), store=world)
        assert endpoint.count() > before
        assert {asked.body["model"] for asked in endpoint.asked} == {sent}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("anthropic:claude-x", "pip install langchain-anthropic"),
        ("nowhere:x", "Supported model providers are: anthropic"),
        ("anthropic:", "a model's name, or provider:model"),
    ],
)
def test_a_chat_model_that_cannot_be_had_says_why(world, name, words):
    """Proves: GRAPH-3 (a missing package is named; an unknown provider names those that there are; none is a model)."""
    for call in (
        lambda: chat_model(Settings(llm_model=name)),
        lambda: retrieve(valley_request(DIRECT), store=world, llm=name),
        lambda: build_graph(world, name).invoke(valley_request(DIRECT)),
        lambda: retrieve(valley_request(DIRECT), store=world, context={"llm_model": name}),
    ):
        with pytest.raises(InvalidInputError) as caught:
            call()
        assert caught.value.field == "llm_model"
        assert words in str(caught.value)


def test_invalid_chat_models(world):
    """Proves: GRAPH-3."""
    for given in ("", " ", 3, object()):
        with pytest.raises(InvalidInputError, match="llm"):
            build_graph(world, given)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="llm"):
            remember(world, given)  # type: ignore[arg-type]


def test_a_key_goes_to_its_own_provider_only(world):
    """Proves: GRAPH-3 (another provider gets neither key nor address; a context names no address for it)."""
    mine = Settings(llm_model="gpt-x", llm_base_url="http://127.0.0.1:9/v1", llm_api_key="secret")
    other = settings_for_model(mine, "anthropic:claude-x")
    assert (other.llm_model, other.llm_base_url, other.llm_api_key) == ("anthropic:claude-x", None, None)
    same = settings_for_model(mine, "llama3:8b")
    assert (same.llm_base_url, same.llm_api_key) == (mine.llm_base_url, "secret")
    with pytest.raises(InvalidInputError, match="llm_base_url"):
        retrieve(
            valley_request(DIRECT),
            store=world,
            context={"llm_model": "anthropic:claude-x", "llm_base_url": "http://127.0.0.1:9"},
        )


def test_the_known_providers_are_those_of_langchain():
    """Proves: GRAPH-3 (a new one must be told from a server's own model names)."""
    with pytest.raises(ValueError, match="providers are:") as caught:
        init_chat_model("x", model_provider="nowhere")
    listed = set(re.findall(r"\w+", str(caught.value).partition("are:")[2]))
    assert listed - {"openai"} == PROVIDERS
    assert provider_of("ft:gpt-x:team::1", None) == "openai"


def test_an_embeddings_server_without_a_key(tmp_path: Path, monkeypatch):
    """Proves: GRAPH-3 (settings, environment and names; what OPENAI_* holds isn't sent to another address)."""
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    with ChatEndpoint(refuses) as endpoint:
        monkeypatch.setenv("RECALL_LOOP_OPENAI_BASE_URL", endpoint.url)
        monkeypatch.setenv("RECALL_LOOP_EMBEDDER", "openai:small")
        with MemoryStore.from_settings(Settings.from_env(), tmp_path / "s") as store:
            store.upsert([NOTE])
            assert store.embedder.fingerprint == "openai:small"
        by_setting = Settings(embedder="openai", openai_model="small", openai_base_url=endpoint.url)
        for settings, given in ((by_setting, None), (by_setting, "openai:small"), (Settings.from_env(), None)):
            with MemoryStore.from_settings(settings, tmp_path / "s", embedder=given) as store:
                assert retrieve("When does the Birk leave?", store=store, settings=settings).facts[0].id == "n1"
        assert {asked["model"] for asked in endpoint.embedded} == {"small"}
        assert not any("secret" in str(asked) for asked in endpoint.embedded)
        found = retrieve(
            "When does the Birk leave?",
            settings=Settings(openai_base_url=endpoint.url, embedder="minilm"),
            context={"store_path": str(tmp_path / "s"), "embedder": "openai:small"},
        )
        assert found.facts[0].id == "n1"
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        objects = OpenAIEmbeddings(model="small", base_url=endpoint.url, check_embedding_ctx_length=False)
        with MemoryStore.open(tmp_path / "s", embedder=objects) as store:
            assert retrieve("When does the Birk leave?", store=store).facts[0].id == "n1"
        monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
        assert as_embedder("openai:small").fingerprint == "openai:small"


class Words(Embeddings):
    """Embeddings of LangChain's interface, of which a query is embedded otherwise than a document."""

    def __init__(self, model: str = "words-1") -> None:
        self.model, self.fails = model, False

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[5 * part for part in vector] for vector in WordHashEmbedder().embed_documents(texts).tolist()]

    def embed_query(self, text: str) -> list[float]:
        if self.fails:
            raise RuntimeError("the service is down")
        return WordHashEmbedder().embed_documents([text])[0].tolist()


class Remote(Words):
    """Embeddings over HTTP, whose client's errors name address and key."""

    def embed_query(self, text: str) -> list[float]:
        raise ConnectionError("HTTPConnectionPool(host='10.1.2.3', port=8080): refused: /embed?key=sk-secret")


@pytest.mark.parametrize("kind", ["langchain", "openai"])
def test_errors_hide_the_address_of_an_embedder(tmp_path: Path, kind: str):
    """Proves: GRAPH-3, SEARCH-9, OPS-5. In words what failed; the error itself has the client's text, for operators."""
    with ChatEndpoint(refuses) as endpoint:
        remote = LangChainEmbedder(Remote(), dimension=WordHashEmbedder.dimension)
        away = remote if kind == "langchain" else OpenAIEmbedder("small", endpoint.url, "sk-secret")
        store = MemoryStore.open(tmp_path / "s", embedder=away)
        store.upsert([NOTE])
    with store:
        result = retrieve("When does the Birk leave?", store=store, settings=Settings(tool_backoff_seconds=0))
        with pytest.raises(EmbedderError, match=r"10\.1\.2\.3" if kind == "langchain" else "Connection") as caught:
            store.embedder.embed_queries(["a"])
    assert result.degraded and [fact.id for fact in result.facts] == ["n1"]
    assert "no connection to the endpoint" in result.warnings[0]
    shown = result.model_dump_json() + caught.value.told
    assert not any(part in shown for part in ("10.1.2.3", ":8080", "127.0.0.1", "sk-secret"))


def test_an_object_of_langchain_is_an_embedder(tmp_path: Path):
    """Proves: GRAPH-3, STORE-5 (vectors of length one, one per text; the store remembers the model)."""
    embeddings = Words()
    with MemoryStore.open(tmp_path / "s", embedder=embeddings) as store:
        store.upsert([NOTE, {"id": "n2", "kind": "fact", "text": "Oda is allergic to walnuts."}])
        assert store.embedder.fingerprint == "Words:words-1"
        assert retrieve("When does the Birk leave?", store=store).facts[0].id == "n1"
        embeddings.fails = True
        with pytest.raises(EmbedderError, match="service is down"):
            store.embedder.embed_queries(["a", "b"])
    with pytest.raises(EmbedderMismatchError):
        MemoryStore.open(tmp_path / "s", embedder=Words("words-2"))
    with MemoryStore.in_memory(embedder=Words()) as store:
        vectors = store.embedder.embed_queries(["one", "two", "three"])
        assert vectors.shape == (3, store.dimension)
        assert abs((vectors**2).sum(axis=1) - 1).max() < 1e-5
        assert store.embedder.embed_documents([]).shape == (0, store.dimension)
    assert LangChainEmbedder(Words(), "mine:7", 5).fingerprint == "mine:7"
    assert LangChainEmbedder(DeterministicFakeEmbedding(size=4)).fingerprint.endswith(".DeterministicFakeEmbedding")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("ollama:nomic", "pip install langchain-ollama"),
        ("nowhere:x", "Supported providers"),
        ("minilmm", "minilm, minilm-plain, multilingual, openai, onnx:FOLDER"),
        (":x", "provider:model"),
        (3, "Embeddings"),
    ],
)
def test_an_embedder_that_cannot_be_had_says_why(tmp_path: Path, given, words):
    """Proves: GRAPH-3 (before anything is written)."""
    with pytest.raises(InvalidInputError) as caught:
        MemoryStore.open(tmp_path / "s", embedder=given)
    assert caught.value.field == "embedder"
    assert words in str(caught.value)
    assert not (tmp_path / "s").exists()
    if isinstance(given, str):
        with pytest.raises(InvalidInputError, match="embedder"):
            make_embedder(Settings(embedder=given))


def test_names_without_settings():
    """Proves: GRAPH-3."""
    assert as_embedder("minilm").name == "minilm"
    assert isinstance(as_embedder("openai"), OpenAIEmbedder)
    own = WordHashEmbedder()
    assert as_embedder(own) is own
    with pytest.raises(InvalidInputError, match="embeddings"):
        LangChainEmbedder(own)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="fingerprint"):
        LangChainEmbedder(Words(), " ")


def test_a_context_names_no_embedder_for_a_bound_store(world):
    """Proves: GRAPH-3."""
    with pytest.raises(InvalidInputError, match="embedder"):
        build_graph(world).invoke(valley_request(DIRECT), context=Context(tenant=VALLEY, embedder="minilm"))


def test_the_command_line_names_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Proves: GRAPH-3 (--embedder and --model; a name that can't be had ends with 2 and one line)."""
    notes, place = tmp_path / "notes.jsonl", str(tmp_path / "s")
    notes.write_text(json.dumps(NOTE) + "\n", encoding="utf-8")
    question = ["retrieve", "When does the Birk leave?", "--store", place]
    assert main(["ingest", str(notes), "--store", place, "--embedder", "minilm-plain"]) == 0
    assert main([*question, "--embedder", "minilm-plain", "--json"]) == 0
    assert '"n1"' in capsys.readouterr().out
    for option, name in (("--embedder", "ollama:nomic"), ("--model", "anthropic:claude-x")):
        given = [*question, option, name] + (["--embedder", "minilm-plain"] if option == "--model" else [])
        assert main(given) == 2
        error = capsys.readouterr().err.strip()
        assert "pip install langchain-" in error
        assert "\n" not in error


def test_memory_takes_both_by_name():
    """Proves: GRAPH-3, API-1."""
    with ChatEndpoint(refuses) as endpoint:
        settings = Settings(openai_base_url=endpoint.url, llm_base_url=endpoint.url)
        with Memory(settings=settings, llm="openai:test-model", embedder="openai:small") as memory:
            memory.add("The ferry Birk leaves at nine.", user_id="ada")
            memory.recall("When does the Birk leave?", user_id="ada")
        assert {asked["model"] for asked in endpoint.embedded} == {"small"}
        assert {asked.body["model"] for asked in endpoint.asked} == {"test-model"}
    with Memory(embedder=Words()) as memory:
        assert memory.store.embedder.fingerprint == "Words:words-1"
    with pytest.raises(InvalidInputError, match="langchain-ollama"):
        Memory(embedder="ollama:nomic")
