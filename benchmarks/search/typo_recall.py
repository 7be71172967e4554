"""How much typos cost a search, and how much of that each fuzzy level wins back.

    python benchmarks/search/typo_recall.py [--data DIR] [--store DIR] [--levels 0 1 2] [--seed N] [--limit N] [--json]

Every answerable question of a data set is searched once as it is, once with one typo in one of its content
words, and once with one typo in each of them; a single hybrid search, messages only, the ten best. The same
seed gives the same typos. benchmarks/README.md explains every figure.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import string
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from recall_loop.evals.datasets.dataset_parts import DocumentSelection, LabelledQuestion
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.measures.quality_metrics import recall_at_k
from recall_loop.evals.runs.dataset_ingest import ingest
from recall_loop.memory.search.engine import search_many
from recall_loop.memory.store.embed.embedder_factory import make_embedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.state.errors import RecallError
from recall_loop.state.scope import Scope
from recall_loop.state.search import SearchParams
from recall_loop.state.settings.settings import Settings
from recall_loop.state.types import ContentType
from recall_loop.text.words.stop_words import STOP_WORDS

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "locomo"
CUT = 10
SHORTEST = 4
SETS = ("clean", "one per question", "one per content word")
# Of level 0's recall without typos, at level 1.
GOALS = {"one per question": 0.95, "one per content word": 0.80}
_BATCH = 64
_RUN = re.compile(r"[^\W\d_]+")


def misspell(word: str, chance: random.Random) -> str:
    """Return `word` (four letters or more) with one typo.

    Insert, delete, substitute and swap of two neighbours are equally likely, and so are all places but the
    first letter, which stays; new letters are any of a–z.
    """
    while True:
        at, letter = chance.randrange(1, len(word)), chance.choice(string.ascii_lowercase)
        kind = chance.choice(("insert", "delete", "substitute", "swap"))
        if kind == "insert":
            at = chance.randint(1, len(word))
            return word[:at] + letter + word[at:]
        if kind == "delete":
            return word[:at] + word[at + 1 :]
        if kind == "substitute":
            spelt = word[:at] + letter + word[at + 1 :]
        else:
            spelt = word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]
        if spelt != word:
            return spelt


def misspelt(question: LabelledQuestion, seed: int, every: bool) -> str:
    """Return the question with a typo in one, or in every, word of four letters or more that is no stop word."""
    chance = random.Random(f"{seed}:{question.id}")
    text = question.question
    places = [found for found in _RUN.finditer(text) if _is_content(found[0])]
    for found in reversed(places if every or not places else [chance.choice(places)]):
        text = text[: found.start()] + misspell(found[0], chance) + text[found.end() :]
    return text


def _is_content(word: str) -> bool:
    return len(word) >= SHORTEST and word.casefold() not in STOP_WORDS


def texts(question: LabelledQuestion, seed: int) -> dict[str, str]:
    """Return the three spellings of a question, by set."""
    return dict(
        zip(SETS, (question.question, misspelt(question, seed, False), misspelt(question, seed, True)), strict=True)
    )


def recall(store: MemoryStore, questions: Sequence[LabelledQuestion], asked: Sequence[str], level: int) -> float:
    """Return mean Recall@10 of `asked`, which are spellings of `questions`."""
    by_collection: dict[str, list[int]] = {}
    for number, question in enumerate(questions):
        by_collection.setdefault(question.collection, []).append(number)
    options, total = SearchParams(content_types=(ContentType.MESSAGE,), limit=CUT, fuzzy=level), 0.0
    for collection, numbers in by_collection.items():
        for start in range(0, len(numbers), _BATCH):
            part = numbers[start : start + _BATCH]
            found = search_many(
                store,
                [asked[number] for number in part],
                scope=Scope(tenant=collection),
                params=options,
            )
            for number, response in zip(part, found, strict=True):
                total += recall_at_k([hit.record.id for hit in response.hits], questions[number].gold, CUT)
    return total / len(questions)


def measure(
    store: MemoryStore, questions: Sequence[LabelledQuestion], levels: Sequence[int], seed: int
) -> dict[str, Any]:
    """Return Recall@10 by level and set, and each as a share of level 0 without typos."""
    spellings = [texts(question, seed) for question in questions]
    figures = {
        level: {name: recall(store, questions, [each[name] for each in spellings], level) for name in SETS}
        for level in sorted({0, *levels})
    }
    clean = figures[0]["clean"]
    return {
        "questions": len(questions),
        "seed": seed,
        "recall": figures,
        "share": {level: {name: value / clean for name, value in row.items()} for level, row in figures.items()},
        "goals_at_level_1": GOALS,
    }


def show(figures: dict[str, Any], console: Console) -> None:
    """Print the figures as a table."""
    title = f"Recall@{CUT} of {figures['questions']} questions, typos of seed {figures['seed']}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("fuzzy")
    for name in SETS:
        table.add_column(name, justify="right")
    for level, row in figures["recall"].items():
        share = figures["share"][level]
        table.add_row(str(level), *(f"{row[name]:.3f}  {share[name]:6.1%}" for name in SETS))
    table.caption = "Share of level 0 without typos; goals at level 1: " + ", ".join(
        f"{name} {goal:.0%}" for name, goal in GOALS.items()
    )
    console.print(table)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Fill a store, ask all questions in all spellings, and return the figures."""
    dataset = load_dataset(arguments.data, DocumentSelection.MESSAGES)
    questions = [question for question in dataset.questions if question.scored][: arguments.limit]
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.store or Path(folder) / "store"
        with MemoryStore.open(path, embedder=make_embedder(Settings.from_env())) as store:
            ingest(store, dataset, list(dict.fromkeys(question.collection for question in questions)))
            return measure(store, questions, arguments.levels, arguments.seed)


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(description="What typos cost, and what each fuzzy level wins back.")
    parser.add_argument("--data", type=Path, default=DATA, help="data set (default: %(default)s)")
    parser.add_argument("--store", type=Path, help="store to fill and keep (default: one that is thrown away)")
    parser.add_argument("--levels", type=int, nargs="+", choices=(0, 1, 2), default=[0, 1, 2], help="fuzzy levels")
    parser.add_argument("--seed", type=int, default=0, help="seed of the typos (default: %(default)s)")
    parser.add_argument("--limit", type=int, help="ask only the first so many questions")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args()
    try:
        figures = run(arguments)
    except RecallError as error:
        raise SystemExit(str(error)) from error
    if arguments.json:
        print(json.dumps(figures, indent=2))
    else:
        show(figures, Console())


if __name__ == "__main__":
    main()
