"""Make a store of LangGraph with its own package: `python make_langgraph.py FOLDER COUNT`; for `make import-proof`."""

import json
import sys
from pathlib import Path

from langgraph.store.sqlite import SqliteStore

BIRDS = ("heron", "plover", "siskin", "dunlin", "fulmar", "gannet", "merlin", "osprey")


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with SqliteStore.from_conn_string(str(folder / "store.db")) as store:
        store.setup()
        for number in range(count):
            text = f"Sighting number {number}: a {BIRDS[number % len(BIRDS)]}."
            value = {"text": text, "seen": {"by": ["ada"], "times": number}}
            store.put(("memories", f"user-{number % 7}"), f"key-{number}", value)
        items = [item for start in range(0, count, 100) for item in store.search((), limit=100, offset=start)]
    lines = (json.dumps(item.dict(), default=str) + "\n" for item in items)
    (folder / "expected.jsonl").write_text("".join(lines))


if __name__ == "__main__":
    main()
