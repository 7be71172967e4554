"""Ask the questions of permissive archives, and write what each one measured, for fitting confidence (CONF-4, LIVE-3).

    python benchmarks/weights/confidence/confidence_runs.py --train DIR -o DIR [--limit N]

DIR of `--train` holds folders with turns/*.jsonl and questions.jsonl (docs/confidence.md names sets and licences). One
file for each is written, in the form of `recall-loop eval --per-question`. A question sees only what was there before
it was asked. Each collection is also asked questions of another one, which it can't answer. Where gold is wide (more
than three records to a question on average) the nearest three stand for it: any of them among the first three. Where a
question says `any_of`, each of its gold records answers it alone, and any among the first ten will do.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from statistics import fmean
from typing import Any

from recall_loop.graph.run import retrieve
from recall_loop.memory.intake.files.documents import record_from_document
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.settings.settings import Settings

WIDE_GOLD = 3.0
WIDE_CUT = 3
FOUND = 10
FOREIGN_SHARE = 0.25


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def drawn_questions(folder: Path, limit: int, seed: int) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield collection, question and whether it is another collection's; the same ones for the same seed."""
    draw = random.Random(seed)
    questions = read_lines(folder / "questions.jsonl")
    collections = sorted({question["collection"] for question in questions})
    chosen = sorted(draw.sample(range(len(questions)), min(limit, len(questions))))
    for at in chosen:
        own = questions[at]["collection"]
        yield own, questions[at], False
        if len(collections) > 1 and draw.random() < FOREIGN_SHARE:
            yield draw.choice([name for name in collections if name != own]), questions[at], True


def asked_until(question: dict[str, Any], times: dict[str, str]) -> dict[str, Any]:
    """Return the filter that leaves out what came later; empty where the archive says no time."""
    last = times.get(question.get("before") or "") or question.get("asked_at")
    if not last or question.get("before") is None:
        return {}
    day = datetime.fromisoformat(last).replace(hour=0, minute=0, second=0, microsecond=0)
    return {"end_time": (day - timedelta(microseconds=1)).isoformat()}


def line_of(question: dict[str, Any], collection: str, foreign: bool, wide: bool, result: Any) -> dict[str, Any]:
    """Return one line of the file."""
    ids = [fact.id for fact in result.facts]
    gold = [] if foreign else list(question["gold"])
    if gold and (wide or question.get("any_of")):
        near = [each for each in ids[: FOUND if question.get("any_of") else WIDE_CUT] if each in gold]
        gold = near[:1] or gold[:1]
    return {
        "id": f"{question['id']}@{collection}",
        "collection": collection,
        "ids": ids,
        "gold": gold,
        "answerable": bool(gold) and question.get("answerable", True),
        "category": question.get("category"),
        "confidence_detail": result.confidence.model_dump(mode="json"),
        "all_gold": [] if foreign else list(question["gold"]),
        "facts": [[fact.id, fact.score, fact.similarity, *(fact.debug or {})["alignment"]] for fact in result.facts],
    }


def ask_archive(folder: Path, limit: int, settings: Settings) -> Iterator[dict[str, Any]]:
    """Write the collections that are needed to a store in memory, and yield a line for each question."""
    asked = list(drawn_questions(folder, limit, seed=7))
    wide = fmean(len(question["gold"]) for _, question, _ in asked) > WIDE_GOLD
    with MemoryStore.in_memory() as store:
        times: dict[str, dict[str, str]] = {}
        for collection in dict.fromkeys(name for name, _, _ in asked):
            documents = read_lines(folder / "turns" / f"{collection}.jsonl")
            times[collection] = {each["id"]: each["timestamp"] for each in documents if each.get("timestamp")}
            store.upsert([record_from_document(each) for each in documents], tenant=collection)
        for collection, question, foreign in asked:
            request = {"messages": [{"content": question["question"]}], "tenant": collection, "debug": True}
            filters = {} if foreign else asked_until(question, times[collection])
            result = retrieve({**request, "filters": filters}, store=store, settings=settings)
            yield line_of(question, collection, foreign, wide, result)


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--sets", default="realmem,ikat2023,lifebench-en")
    parser.add_argument("--limit", type=int, default=400)
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args(arguments)
    given.output.mkdir(parents=True, exist_ok=True)
    for name in given.sets.split(","):
        lines = ask_archive(given.train / name, given.limit, Settings.from_env())
        path = given.output / f"{name}.jsonl"
        path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    main()
