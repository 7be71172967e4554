"""An agent's side, run by `mcp_adapters.py` where only langchain-mcp-adapters is installed: arguments PYTHON FOLDER."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.prompts import load_mcp_prompt
from langchain_mcp_adapters.resources import load_mcp_resources
from langchain_mcp_adapters.tools import load_mcp_tools

TOOLS = {"add", "erase", "forget", "history", "list", "retrieve", "search", "search_trajectories", "update"}
STARTED = "serving "


def client_of(**connection: object) -> MultiServerMCPClient:
    return MultiServerMCPClient({"memory": connection})


async def check(client: MultiServerMCPClient) -> None:
    """Keep, find, change, list and erase a memory; read it as a resource; read the prompt: in a session, and without.

    Without one the client opens a session for each call, which over standard input and output is a server each.
    """
    (add,) = [tool for tool in await client.get_tools() if tool.name == "add"]
    added = text_of(await add.ainvoke({"text": "My boat is called Birk."}))
    name = added.partition(": ")[2].strip()
    async with client.session("memory") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        assert set(tools) == TOOLS, sorted(tools)

        async def call(name: str, **arguments: object) -> str:
            return text_of(await tools[name].ainvoke(arguments))

        assert "Birk" in await call("retrieve", question="What is my boat called?")
        assert name in await call("search", query="boat")
        assert "Birk II" in await call("update", id=name, changes={"text": "My boat is called Birk II."})
        assert "updated" in await call("history", id=name)
        assert "Birk II" in await call("list", limit=5)
        (memory,) = await load_mcp_resources(session, uris=f"memory://records/{name}")
        assert memory.as_string().startswith("My boat is called Birk II.")
        (prompt,) = await load_mcp_prompt(session, "use_memory")
        assert "Recall before you answer" in prompt.content
        assert "Erased 1" in await call("erase", ids=[name])


def text_of(blocks: list[dict]) -> str:
    return "".join(block["text"] for block in blocks)


def over_http(python: str, store: Path) -> None:
    command = [python, "-m", "recall_loop.cli", "mcp", "--http", "--store", str(store), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            line = next(line for line in server.stderr if STARTED in line)
            url = line.rpartition(" at ")[2].strip()
            asyncio.run(check(client_of(transport="streamable_http", url=f"{url}/mcp")))
        finally:
            server.terminate()


def main(python: str, folder: str) -> None:
    store = Path(folder) / "stdio"
    arguments = ["-m", "recall_loop.cli", "mcp", "--store", str(store), "--user", "ada"]
    asyncio.run(check(client_of(transport="stdio", command=python, args=arguments, env=dict(os.environ))))
    print("standard input and output: passed")
    over_http(python, Path(folder) / "http")
    print("streamable HTTP: passed")


if __name__ == "__main__":
    main(*sys.argv[1:])
