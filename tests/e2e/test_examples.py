"""The examples run as they stand, and show what they say."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, HumanMessage

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXPORT = Path(__file__).resolve().parents[1] / "foreign" / "exports" / "chatgpt-conversations.json"
SHOWN = {
    "agent_with_middleware": [
        "Tamme services the engine of the launch in March.\n</memories>",
        "bo> Who services the engine?\nI was given:\nBe brief.\n",
    ],
    "team_with_shared_memory": [
        '"The launch needs a new impeller."',
        'a stranger finds: {"results": []',
    ],
    "answers_from_documents": [
        "best note: Tamme services the engine in March, before the first trip.",
        "answer: Tamme does, in March [note-",
    ],
    "mcp_client": [
        "confidence: high\nrecalled: Our launch is called Birk.",
        "prompt: You have a long-term memory",
    ],
    "chat_that_recalls": ["friday> Who services the engine", "Tamme services the engine of the launch before"],
    "agent_with_searches": ['"id": "f1"', "ai: Tamme services the engine [f1]"],
    "parent_with_interrupts": [
        "waits for: {'ticket': 7, 'recalled': ['The ferry Birk leaves at nine.']}",
        "answers: The ferry Birk leaves at nine. Yours, the desk.",
        "remembers: 3 messages",
    ],
}


def test_every_example_is_tested():
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_prints_the_documented_output(name, capfd, tmp_path, monkeypatch):
    """Proves: OPS-2, OPS-5 (and writes nothing into the reader's own store)."""
    own = tmp_path / "own"
    monkeypatch.setenv("RECALL_LOOP_STORE_PATH", str(own))
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capfd.readouterr().out
    for words in SHOWN[name]:
        assert words in printed
    assert "herring" not in printed
    assert not own.exists()


async def test_the_middleware_runs_on_an_event_loop_and_past_pictures():
    """Proves: OPS-5 (what an agent is made from has to stand what agents meet)."""
    names = runpy.run_path(str(EXAMPLES / "agent_with_middleware.py"))
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    with names["Memory"]() as memory:
        memory.add("Tamme services the engine of the launch in March.", user_id="ann")
        asked = [{"type": "text", "text": "Who services the engine?"}, picture]
        for content, label in ((asked, 'confidence="high"'), ([picture], "I was given:\nBe brief.")):
            agent = names["agent"](memory, "ann", names["Scripted"](responses=[AIMessage("")]))
            for told in (
                await agent.ainvoke({"messages": [HumanMessage(content)]}),
                agent.invoke({"messages": [HumanMessage(content)]}),
            ):
                assert label in told["messages"][-1].content
        kept = [record.text for record in memory.list(user_id="ann")]
    assert kept.count("Who services the engine?") == 2
    assert len(kept) == 3


def test_the_notebook_goes_from_an_export_to_an_answer_with_its_sources(capsys, monkeypatch):
    """Proves: MOVE-1, OPS-2 (its cells one after the other, on an export written by hand)."""
    monkeypatch.setenv("EXPORT", str(EXPORT))
    notebook = json.loads((EXAMPLES / "chatgpt_export.ipynb").read_text(encoding="utf-8"))
    namespace = {"__name__": "notebook"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []  # nobody's memories are checked in
            exec(compile("".join(cell["source"]), "chatgpt_export.ipynb", "exec", dont_inherit=True), namespace)
    printed = capsys.readouterr().out
    assert "user 2024-05-01 Which ferry takes bicycles to Naissaar on Sundays?" in printed
    assert "an export of ChatGPT 5 created, {'hidden, system and tool messages': 3" in printed
    assert "[a1] The Monica takes bicycles; she leaves Tallinn at ten.\n   from a1" in printed
    assert "[a1] 2024-05-01" in printed


def test_the_deployment_of_the_graph_has_a_dockerfile(tmp_path):
    """Proves: OPS-2, SHIP-1 (what `langgraph build` would build, as its own command writes it)."""
    root = EXAMPLES.parent
    target = tmp_path / "Dockerfile"
    command = [sys.executable, "-m", "langgraph_cli", "dockerfile", "-c", str(root / "langgraph.json"), str(target)]
    environment = {**os.environ, "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=100)
    assert done.returncode == 0, done.stderr
    written = target.read_text(encoding="utf-8")
    assert "FROM langchain/langgraph-api:3." in written
    assert 'LANGSERVE_GRAPHS=\'{"recall_loop": "recall_loop.graph.studio:graph"}\'' in written
    assert "recall_loop.service.asgi:app" in written
    assert re.search(r"^ADD \. /deps/", written, re.MULTILINE) and "pip install" in written
