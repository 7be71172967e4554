"""Ask the questions about the project's own talk that name a speaker, ordered by trees that never saw it.

    python benchmarks/weights/order_runs.py --folds DIR -o DIR [--talk DIR] [--weights DIR] [--unnamed FOREIGN]

The confidence of questions that name a speaker is fitted on these runs. A third of them has no answer: such questions
were written for each conversation, and what one speaker told is asked of another one. From runs that the trees which
ship ordered it would learn from results that are better than they are on users' conversations. So with the embedder's
weights for talk: `--weights` names those that left conversations out (`unseen.py`). With `--unnamed` the questions that
name nobody are asked instead, as they are written, and so many foreign ones of each collection. Prints Recall@10,
All@10 and nDCG@10. The orders of `--folds` are those of `fit_order.py --folds`, which needs `pip install lightgbm`.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from fit_order import FOLDS
from order_pools import TALK, TALK_SETS
from unseen import UnseenEmbedder, unseen_embedder

from recall_loop.evals.datasets.dataset_parts import Dataset, LabelledQuestion
from recall_loop.evals.datasets.datasets import load_dataset
from recall_loop.evals.replay import eval_report
from recall_loop.evals.runs.dataset_ingest import CROSS_COLLECTION, with_cross_collection_questions
from recall_loop.evals.runs.prompts import EvalOptions, draw_sample
from recall_loop.evals.runs.runner import ReplayRun, run_evaluation
from recall_loop.memory.search.engine import search_many
from recall_loop.memory.search.rerank.learned import order_features, pool_has_long_turns
from recall_loop.memory.search.rerank.learned_order import LONG_TURNS_FILE, SHORT_TURNS_FILE, LearnedRanker
from recall_loop.memory.search.rerank.rerank_stage import SearchParts
from recall_loop.memory.store.embed.embedders import Embedder
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder
from recall_loop.memory.store.store import MemoryStore
from recall_loop.nodes.runtime.run_context import RetrievalParts
from recall_loop.policy.confidence.confidence_signals import SPEAKER_NAMED
from recall_loop.state.settings.settings import Settings

SWAPPED = "swapped"
# Questions without an answer, of each conversation: those written for it, its own and others' asked of somebody else.
UNANSWERED, SWAPPED_OWN, FOREIGN = 7, 10, 3
SEED = 3
Figures = list[tuple[float, float, float]]
Orders = tuple[LearnedRanker, LearnedRanker]


def read_orders(folder: Path) -> list[Orders]:
    """Return the orders that `fit_order.py --folds` wrote, of short and of long turns for each fold."""

    def read(fold: int, file: str) -> LearnedRanker:
        return LearnedRanker.model_validate_json((folder / str(fold) / file).read_text(encoding="utf-8"))

    return [(read(fold, SHORT_TURNS_FILE), read(fold, LONG_TURNS_FILE)) for fold in range(FOLDS)]


def speakers_of(dataset: Dataset) -> dict[str, list[str]]:
    """Return who speaks in each conversation, by name; assistants aside."""
    found = {
        name: {record.author for record in records if record.author and record.role != "assistant"}
        for name, records in dataset.collections.items()
    }
    return {name: sorted(authors) for name, authors in found.items()}


def chosen_questions(dataset: Dataset, name: str, most: int) -> Iterator[LabelledQuestion]:
    """Yield a conversation's questions that name a speaker, at most so many without an answer, and its foreign ones."""
    speakers = speakers_of(dataset)[name]
    asked = [each for each in dataset.questions if each.collection == name]
    named = [each for each in asked if any(who in each.question for who in speakers)]
    unanswered = [each for each in named if not each.answerable and each.category != CROSS_COLLECTION]
    yield from (each for each in named if each.answerable)
    yield from random.Random(name).sample(unanswered, min(most, len(unanswered)))
    yield from (each for each in asked if each.category == CROSS_COLLECTION)


def swapped_questions(dataset: Dataset, name: str, count: int, *, own: bool) -> Iterator[LabelledQuestion]:
    """Yield questions on one speaker, of this conversation or of others, that are asked of another speaker of this one.

    It doesn't answer them.
    """
    speakers, draw = speakers_of(dataset), random.Random(name)
    known = [
        (question, named[0])
        for question in dataset.questions
        if question.scored and (question.collection == name) is own
        if len(named := [who for who in speakers[question.collection] if who in question.question]) == 1
    ]
    for at, (question, speaker) in enumerate(draw.sample(known, min(count, len(known)))):
        if others := [who for who in speakers[name] if who != speaker]:
            yield LabelledQuestion(
                id=f"{name}:{SWAPPED}:{question.id}",
                collection=name,
                question=question.question.replace(speaker, others[at % len(others)]),
                category=SWAPPED,
                answerable=False,
            )


def answer_unseen(dataset: Dataset, embedder: Embedder, orders: list[Orders]) -> Iterator[ReplayRun]:
    """Ask what is chosen, with the weights and the orders that haven't seen the conversation."""
    dataset = with_cross_collection_questions(dataset, FOREIGN)
    for place, name in enumerate(sorted(dataset.collections)):
        if isinstance(embedder, UnseenEmbedder):
            embedder.use_weights_for(dataset, name)
        asked = [
            *chosen_questions(dataset, name, UNANSWERED),
            *swapped_questions(dataset, name, SWAPPED_OWN, own=True),
            *swapped_questions(dataset, name, FOREIGN, own=False),
        ]
        parts = ordered_by(orders[place % FOLDS])
        with MemoryStore.in_memory(embedder=embedder) as store:
            own = replace(dataset, questions=asked)
            yield from run_evaluation(own, EvalOptions(unscored=True), store, settings=Settings(), parts=parts)


def answer_unnamed(dataset: Dataset, orders: list[Orders], foreign: int) -> Iterator[ReplayRun]:
    """Ask all questions and so many foreign ones of each collection, with the orders that haven't seen it."""
    dataset = with_cross_collection_questions(dataset, foreign)
    for place, name in enumerate(sorted(dataset.collections)):
        asked = [each for each in dataset.questions if each.collection == name]
        if not asked:
            continue
        with MemoryStore.in_memory(embedder=MiniLmEmbedder()) as store:
            own, parts = replace(dataset, questions=asked), ordered_by(orders[place % FOLDS])
            yield from run_evaluation(own, EvalOptions(unscored=True), store, settings=Settings(), parts=parts)


def ordered_by(orders: Orders) -> RetrievalParts:
    """Return the parts of a retrieval whose searches use other orders, for short and for long turns."""

    def gains(view: Any, part: Any, best: Any, compared: Any) -> Any:
        order = orders[pool_has_long_turns(view, part.rowids[best].tolist())]
        return order.gains(order_features(view, part, best, compared))

    return RetrievalParts(search=partial(search_many, parts=SearchParts(gains=gains)))


def write_answers(found: Iterator[ReplayRun], file: TextIO, *, named: bool = True) -> Figures:
    """Write a line for each answer where a speaker of what was found is named, or isn't, and for foreign questions.

    Returns the figures of all questions with gold.
    """
    figures: Figures = []
    for answer in found:
        line = eval_report.question_line(answer)
        names = line["confidence_detail"]["signals"][SPEAKER_NAMED] > 0.0
        if names is named or (named and line["category"] == CROSS_COLLECTION):
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
        if answer.prompt.scored:
            scores = line["scores"]
            figures.append((scores["recall@10"], scores["all@10"], scores["ndcg@10"]))
    return figures


def main(words: Sequence[str] | None = None) -> int:
    """Ask, write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--talk", type=Path, default=TALK, help="set that talk_set.py wrote")
    parser.add_argument("--folds", type=Path, required=True, help="folder that fit_order.py --folds wrote")
    every = [*(kinds for kinds, _ in TALK_SETS), "all"]
    parser.add_argument("--kinds", nargs="+", choices=every, default=every[:-1], help="documents to write")
    parser.add_argument("--weights", type=Path, help="weights for talk that left conversations out")
    parser.add_argument(
        "--unnamed", type=int, metavar="FOREIGN", help="ask what names nobody, and so many foreign ones"
    )
    parser.add_argument("--only", default="", help="ask only collections whose names begin so")
    parser.add_argument("--limit", type=int, help="ask at most so many questions")
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder of the files to write")
    given = parser.parse_args(words)
    given.output.mkdir(parents=True, exist_ok=True)
    embedder = unseen_embedder(given.weights)
    orders = read_orders(given.folds)
    for kinds in given.kinds:
        dataset = load_dataset(given.talk, kinds)
        chosen = [each for each in dataset.questions if each.collection.startswith(given.only)]
        dataset = replace(dataset, questions=draw_sample(chosen, given.limit, seed=SEED))
        named = given.unnamed is None
        title = f"{given.talk.name}{'' if named else '-unnamed'}-{kinds.replace('+', '-')}"
        with (given.output / f"{title}.jsonl").open("w", encoding="utf-8") as file:
            asked = (
                answer_unseen(dataset, embedder, orders) if named else answer_unnamed(dataset, orders, given.unnamed)
            )
            figures = write_answers(asked, file, named=named)
        recall, complete, ndcg = np.mean(figures, axis=0)
        print(f"{title:26}{len(figures):5}  Recall@10 {recall:.3f}  All@10 {complete:.3f}  nDCG@10 {ndcg:.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
