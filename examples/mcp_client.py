"""A program that keeps its memory on an MCP server, which it starts itself, as editors and assistants do.

Run it with `python examples/mcp_client.py`. It needs the extra `mcp`.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from typing import Any

from mcp import Client, StdioServerParameters


def text_of(result: Any) -> str:
    """Return the text of a tool's result."""
    return "\n".join(block.text for block in result.content)


async def talk(store: str) -> None:
    """Store something, ask for it, read it as a resource, and show the prompt."""
    arguments = ["-m", "recall_loop.cli", "mcp", "--store", store, "--user", "ann"]
    command = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(command) as client:
        kept = await client.call_tool("add", {"text": "Our launch is called Birk."})
        print(text_of(kept))
        found = await client.call_tool("retrieve", {"question": "What is our launch called?"})
        print("confidence:", found.structured_content["confidence"]["label"])
        print("recalled:", found.structured_content["facts"][0]["text"])
        (recent,) = (await client.read_resource("memory://recent")).contents
        print("resource:", recent.text.splitlines()[-1])
        (message,) = (await client.get_prompt("use_memory")).messages
        print("prompt:", message.content.text.splitlines()[0])


def main() -> None:
    """Talk to a server with a store of its own."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(talk(f"{folder}/memory"))


if __name__ == "__main__":
    main()
