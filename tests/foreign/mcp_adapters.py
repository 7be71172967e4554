"""Ask the MCP server through langchain-mcp-adapters, over both transports (OPS-6); for `make mcp-adapters` and CI.

The adapters take the SDK below version 2, and the server one above: the two live in environments of their own, as they
do on a user's machine, and speak the protocol. This script makes the adapters' environment, of the versions that the
documentation names, and runs `adapters_client.py` in it.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PINNED = ("langchain-mcp-adapters==0.3.2", "mcp==1.30.0")


def uv(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "uv", "-q", *arguments], check=True)


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        uv("venv", "--python", sys.executable, str(place / "venv"))
        python = place / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
        uv("pip", "install", "--python", str(python), *PINNED)
        print(f"== {', '.join(PINNED)}", flush=True)
        client = [python, str(HERE / "adapters_client.py"), sys.executable, str(place)]
        return subprocess.run(client, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
