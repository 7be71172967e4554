"""Learn to tell what answers a question from what is only on the same matter (CONF-3): `minilm-reader.npz`.

    python benchmarks/weights/reading/fit_reader.py [-o FILE] [--judge]

`pairs/*.tsv` were written for this project: a statement a line, then questions that it answers, and behind "! " ones
that it doesn't, though they ask for something of the same. Each answered question also stands beside one of the five
nearest other lines of its file, and those of the conversations of `../talk` beside their line and the two nearest.
The first four layers of all-MiniLM-L6-v2 read question and text together, as a cross-encoder (Nogueira & Cho 2019);
the last three of them move. Nothing is learned from `pairs/held/*.tsv`: how well their pairs are told apart (AUROC) is
printed after each epoch, and `--judge` prints no more than that of the file that ships. Needs `pip install torch onnx`;
three quarters of an hour on two processors with nothing beside it.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[1]))
import tuning_model
from reading.reader_graph import cut_graph
from talk_set import read_scripts

from recall_loop.memory.store.embed.answer_reader import READER_PATCH, joined_pieces, read_answers
from recall_loop.memory.store.embed.minilm import MiniLmEmbedder, MiniLmModel, load_minilm
from recall_loop.memory.store.embed.onnx_model import pad_batch
from recall_loop.text.gloss.glosses import GLOSSED_LANGUAGES, in_english

PAIRS = Path(__file__).with_name("pairs")
FIRST, LAST = 1, 4  # layers that are learned: from, to (without); those behind are left out
EPOCHS, BATCH, RATE, HEAD_RATE = 3, 64, 3e-4, 3e-3
WARM_SHARE, DROPOUT, DECAY = 0.06, 0.1, 0.01
FILE_NEAREST, TALK_NEAREST, SEED = 5, 2, 1
LEFT_OUT = "7-chats"  # confidence is fitted on them


@dataclass(frozen=True)
class Pair:
    """A question, a text, and whether the text answers it; `origin` is the file."""

    question: str
    text: str
    answers: bool
    origin: str


class Reader(nn.Module):
    """The layers that are learned, and the head on the first token and the mean of all."""

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        super().__init__()
        self.layers, self.head = nn.ModuleList(layers), nn.Linear(2 * tuning_model.WIDTH, 1)
        self.dropout = nn.Dropout(DROPOUT)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Return the log odds [n] of hidden states [n, t, 384] with a mask [n, t]."""
        hidden = tuning_model.through(self.layers, hidden, mask)
        counted = mask[..., None].float()
        mean = (hidden * counted).sum(1) / counted.sum(1)
        odds: torch.Tensor = self.head(self.dropout(torch.cat([hidden[:, 0], mean], -1)))[:, 0]
        return odds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, default=READER_PATCH.file)
    parser.add_argument("--judge", action="store_true", help="judge the file that ships; learn nothing")
    args = parser.parse_args()
    held = {path.stem: list(read_pairs(path)) for path in sorted((PAIRS / "held").glob("*.tsv"))}
    if args.judge:
        print(told_apart(held, {name: shipped_answers(pairs) for name, pairs in held.items()}))
        return
    torch.manual_seed(SEED)
    torch.set_flush_denormal(True)  # or Adam's smallest numbers would take four times as long
    files = {path.stem: list(read_pairs(path)) for path in sorted(PAIRS.glob("*.tsv"))}
    draw = random.Random(SEED)
    embedder = MiniLmEmbedder().conversational
    learned = [pair for pairs in files.values() for pair in with_nearest(pairs, embedder, draw)]
    learned += talk_pairs(embedder)
    model = tuning_model.read()
    reader = Reader(model.layers[FIRST:LAST])
    encoded = encode(model, learned)
    answers = torch.tensor([float(pair.answers) for pair in learned])
    print(f"{len(learned)} pairs, {int(answers.sum())} of them answered", flush=True)
    judged = {name: encode(model, pairs) for name, pairs in held.items()}
    for epoch in learn(reader, encoded, answers):
        odds = {name: odds_of(reader, each) for name, each in judged.items()}
        print(f"epoch {epoch}: {told_apart(held, odds)}", flush=True)
    data = patch_of(reader, model)
    args.output.write_bytes(data)
    print(f"{args.output.name}: {len(data):,} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


def read_pairs(path: Path) -> Iterator[Pair]:
    """Yield the pairs of a file."""
    for line in path.read_text(encoding="utf-8").splitlines():
        text, *questions = line.split("\t")
        for question in questions:
            yield Pair(question.removeprefix("! "), text, not question.startswith("! "), path.stem)


def with_nearest(pairs: Sequence[Pair], embedder: MiniLmModel, draw: random.Random) -> Iterator[Pair]:
    """Yield the pairs of a file, and each answered question with one of the nearest texts of other lines."""
    yield from pairs
    texts = list(dict.fromkeys(pair.text for pair in pairs))
    answered = [pair for pair in pairs if pair.answers]
    asked = embedder.embed_queries([pair.question for pair in answered])
    for pair, near in zip(answered, asked @ embedder.embed_documents(texts).T, strict=True):
        others = [texts[at] for at in np.argsort(-near)[: FILE_NEAREST + 1] if texts[at] != pair.text]
        yield Pair(pair.question, draw.choice(others[:FILE_NEAREST]), answers=False, origin=pair.origin)


def talk_pairs(embedder: MiniLmModel) -> list[Pair]:
    """Return the questions of the scripted conversations, each with its line and the nearest that aren't beside it."""
    found: list[Pair] = []
    for script in read_scripts(Path(tuning_model.__file__).with_name("talk"), asked=True):
        if script.name.startswith(LEFT_OUT):
            continue
        texts = [f"{turn['speaker']}: {turn['text']}" for turn in script.turns]
        places = {turn["id"]: at for at, turn in enumerate(script.turns)}
        questions = [each for each in script.questions if each["category"] in ("single_hop", "unanswerable")]
        asked = embedder.embed_queries([each["question"] for each in questions])
        for each, near in zip(questions, asked @ embedder.embed_documents(texts).T, strict=True):
            gold = [places[one] for one in each["gold"]]
            found += [Pair(each["question"], texts[at], answers=True, origin=script.name) for at in gold[:1]]
            others = [at for at in np.argsort(-near) if all(abs(at - one) > 1 for one in gold)][:TALK_NEAREST]
            found += [Pair(each["question"], texts[at], answers=False, origin=script.name) for at in others]
    return found


def encode(model: tuning_model.EncoderModel, pairs: Sequence[Pair]) -> list[torch.Tensor]:
    """Return the hidden states [t, 384] of each pair after the layers that stay."""
    pieces = [joined_pieces(TOKENIZER, _english(pair.question), _english(pair.text)) for pair in pairs]
    encoded: list[torch.Tensor] = [torch.empty(0)] * len(pairs)
    order = sorted(range(len(pairs)), key=lambda at: len(pieces[at]))
    with torch.no_grad():
        for start in range(0, len(order), 64):
            rows = order[start : start + 64]
            ids, mask = map(torch.from_numpy, pad_batch([pieces[row] for row in rows]))
            hidden = tuning_model.through(model.layers[:FIRST], model.start(ids), mask.bool())
            for row, states in zip(rows, hidden, strict=True):
                encoded[row] = states[: len(pieces[row])].to(torch.bfloat16)
    return encoded


def _english(text: str) -> str:
    return in_english(text, GLOSSED_LANGUAGES) or text


def learn(reader: Reader, encoded: Sequence[torch.Tensor], answers: torch.Tensor) -> Iterator[int]:
    """Learn, and yield the number of each epoch at its end."""
    draw = random.Random(SEED)
    groups = [{"params": reader.layers.parameters()}, {"params": reader.head.parameters(), "lr": HEAD_RATE}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, weight_decay=DECAY, fused=True)
    steps = EPOCHS * -(-len(encoded) // BATCH)
    rate = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / (steps * WARM_SHARE), (steps - step) / steps)
    )
    for epoch in range(EPOCHS):
        reader.train()
        for rows in batches(encoded, draw):
            loss = functional.binary_cross_entropy_with_logits(reader(*padded_states(encoded, rows)), answers[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
            optimizer.step()
            rate.step()
        yield epoch


def batches(encoded: Sequence[torch.Tensor], draw: random.Random) -> list[list[int]]:
    """Return the rows in batches of texts of like length, in random order."""
    order = sorted(range(len(encoded)), key=lambda row: len(encoded[row]) + 6 * draw.random())
    found = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
    draw.shuffle(found)
    return found


def padded_states(encoded: Sequence[torch.Tensor], rows: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the hidden states of some rows [n, t, 384], and their mask [n, t]."""
    states = [encoded[row].float() for row in rows]
    lengths = torch.tensor([len(each) for each in states])
    hidden = nn.utils.rnn.pad_sequence(states, batch_first=True)
    return hidden, torch.arange(hidden.shape[1])[None] < lengths[:, None]


def odds_of(reader: Reader, encoded: Sequence[torch.Tensor]) -> np.ndarray:
    """Return the log odds of each pair."""
    reader.eval()
    with torch.no_grad():
        parts = [reader(*padded_states(encoded, [row])) for row in range(len(encoded))]
    return torch.cat(parts).numpy()


def shipped_answers(pairs: Sequence[Pair]) -> np.ndarray:
    """Return the probability of each pair by the file that ships."""
    return np.array([read_answers(pair.question, [pair.text])[0] for pair in pairs])


def told_apart(files: Mapping[str, Sequence[Pair]], odds: Mapping[str, np.ndarray]) -> str:
    """Return the AUROC of each file in words."""
    return ", ".join(f"{name} {auroc(pairs, odds[name]):.3f}" for name, pairs in files.items())


def auroc(pairs: Sequence[Pair], odds: np.ndarray) -> float:
    """Return how often an answered pair has higher odds than one that isn't."""
    answered = np.array([pair.answers for pair in pairs])
    ranks = np.empty(len(odds))
    ranks[np.argsort(odds)] = np.arange(1, len(odds) + 1)
    count = answered.sum()
    return float((ranks[answered].sum() - count * (count + 1) / 2) / (count * (len(odds) - count)))


def patch_of(reader: Reader, model: tuning_model.EncoderModel) -> bytes:
    """Return the file: the bytes of the learned layers and of the graph that ends with them, and the head [769]."""
    places, values = tuning_model.replaced_bytes([*model.layers[:FIRST], *reader.layers], FIRST)
    for place, changed in cut_graph(tuning_model.MODEL.read_bytes(), LAST):
        places.append((place, len(changed)))
        values.append(np.frombuffer(changed, dtype=np.uint8))
    head = torch.cat([reader.head.weight[0], reader.head.bias]).detach().numpy()
    stream = io.BytesIO()
    np.savez_compressed(stream, places=np.array(places, dtype=np.int64), values=np.concatenate(values), head=head)
    return stream.getvalue()


TOKENIZER = load_minilm().tokenizer

if __name__ == "__main__":
    main()
