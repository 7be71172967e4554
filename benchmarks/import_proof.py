"""Stores made by the real packages, brought over, and every item looked for.

    python benchmarks/import_proof.py [--items N] [--foreign PYTHON]

Makes an environment of its own with mem0ai, langgraph-checkpoint-sqlite and letta-client (some 700 MB, a minute or
two; `--foreign` names an interpreter that has them), has them write `--items` items each, imports them with the
command, a second time too, and searches for the text of each. Leaves with 1 where anything is missing or different.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from recall_loop.cli.main import main as recall_loop
from recall_loop.memory.search.engine import search_many
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.scope import Scope

MAKERS = Path(__file__).resolve().parents[1] / "tests" / "foreign"
PACKAGES = ("mem0ai>=2.2", "chromadb>=1.5.9,<1.6", "langgraph-checkpoint-sqlite>=3", "letta-client>=1.12")
_QUERIES = 50
console = Console()


def environment(folder: Path) -> Path:
    """Make an environment with the foreign packages; return its interpreter."""
    began = time.monotonic()
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=True, stderr=subprocess.DEVNULL)
    console.print(f"environment with {', '.join(PACKAGES)}: {time.monotonic() - began:.0f} s")
    return python


def make(python: Path, script: str, *words: str) -> None:
    """Run a maker; what it writes to stderr is shown where it fails."""
    done = subprocess.run([python, MAKERS / script, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{script}: {done.stderr}")


def mem0_expected(line: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    return line["id"], line["memory"], {"user_id": line["user_id"], "conversation_id": line.get("run_id")}


def langgraph_expected(line: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    name = f"langgraph-store/{'.'.join(line['namespace'])}/{line['key']}"
    return name, line["value"]["text"], {"user_id": line["namespace"][1]}


def letta_expected(line: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    return line["id"], line["text"], {"tags": tuple(line["tags"]), "agent_id": "support"}


def lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if text.startswith("[") else [json.loads(line) for line in text.splitlines()]


def check(name: str, place: Path, expected: list[tuple[str, str, dict[str, Any]]]) -> bool:
    """Look whether every item is there as it was, and among the first five that a search for its text finds."""
    scope = Scope(tenant=name)
    with MemoryStore.open(place, read_only=True) as store:
        found = {record.id: record for record in store.scan(scope)}
        whole = sum(
            item_id in found
            and found[item_id].text == text
            and all(getattr(found[item_id], key) == value for key, value in fields.items())
            for item_id, text, fields in expected
        )
        met = first = 0
        for start in range(0, len(expected), _QUERIES):
            some = expected[start : start + _QUERIES]
            answers = search_many(store, [text for _, text, _ in some], scope=scope)
            for (item_id, _, _), answer in zip(some, answers, strict=True):
                ids = [hit.record.id for hit in answer.hits[:5]]
                met += item_id in ids
                first += ids[:1] == [item_id]
    console.print(f"{name}: {len(expected):,} expected, {whole:,} whole, {met:,} among the first five, {first:,} first")
    return whole == met == len(expected)


def prove(name: str, system: str, source: Path, place: Path, expected: list[Any], *options: str) -> bool:
    command = ["import", system, str(source), "--store", str(place), "--tenant", name, *options]
    codes = [recall_loop([*command, "--dry-run"]), recall_loop(command), recall_loop(command)]
    return codes == [0, 0, 0] and check(name, place, expected)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1000)
    parser.add_argument("--foreign", type=Path, help="an interpreter that has the packages already")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="recall-loop-proof-") as folder:
        room = Path(folder)
        python = args.foreign or environment(room / "env")
        place, count, sound = room / "store", str(args.items), []
        for provider in ("qdrant", "chroma"):
            made = room / provider
            make(python, "make_mem0.py", str(made), count, provider)
            expected = expect(made / "expected.jsonl", mem0_expected)
            history = ("--history", str(made / "history.db"))
            sound.append(prove(f"mem0-{provider}", "mem0", made / provider, place, expected, *history))
        make(python, "make_langgraph.py", str(room / "langgraph"), count)
        expected = expect(room / "langgraph" / "expected.jsonl", langgraph_expected)
        whose = ("--namespace", "memories.{user}")
        sound.append(prove("langgraph", "langgraph-store", room / "langgraph" / "store.db", place, expected, *whose))
        make(python, "make_letta.py", str(room / "letta"), count)
        expected = expect(room / "letta" / "memories.json", letta_expected)
        sound.append(prove("letta", "letta", room / "letta" / "memories.json", place, expected, "--agent", "support"))
    return 0 if all(sound) else 1


def expect(path: Path, of: Callable[[dict[str, Any]], Any]) -> list[Any]:
    return [of(line) for line in lines(path)]


if __name__ == "__main__":
    sys.exit(main())
