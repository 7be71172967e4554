"""Make an archival export with the classes of Letta's own client: `python make_letta.py FOLDER COUNT`.

Letta's server needs a database server of its own, so passages don't come from one: they are the client's `Passage`,
written as the export script of Letta's documentation writes them (without their vectors). For `make import-proof`.
"""

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

from letta_client.types import Passage

TREES = ("alder", "birch", "cedar", "elder", "hazel", "linden", "maple", "rowan")


def main() -> None:
    folder, count = Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    passages = [
        Passage(
            id=f"passage-{UUID(int=number)}",
            text=f"Tree number {number} is a {TREES[number % len(TREES)]}.",
            embedding=[0.0, 1.0],
            embedding_config=None,
            archive_id=f"archive-{UUID(int=1)}",
            created_at=datetime(2025, 10, 31, tzinfo=UTC) + timedelta(minutes=number),
            metadata={"height": number},
            tags=["tree", f"row-{number % 9}"],
        )
        for number in range(count)
    ]
    found = [passage.model_dump(exclude={"embedding", "embedding_config"}) for passage in passages]
    (folder / "memories.json").write_text(json.dumps(found, indent=2, default=str))


if __name__ == "__main__":
    main()
