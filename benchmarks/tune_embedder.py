"""Tune the embedder's last layers on labelled questions, and write a file for the setting `minilm_weights`.

    python benchmarks/tune_embedder.py --talk DIR … -o FILE [--passages DIR …] [--without 0]

Questions are brought near to what answers them, facts near to the messages that they come from, and away from what a
search by the untuned model finds beside them: two contrastive losses (van den Oord et al. 2018), one over the vectors
of whole texts, one over late interaction of their word pieces (Khattab & Zaharia 2020). With `--passages` a third
loss keeps those, and the questions that they are asked, where they were. Only the last layers move; what the first
ones give is computed once. `--without` leaves one third of the conversations, and of the passages' questions, out:
what figures are taken on. Needs `pip install torch onnx`; five minutes for a thousand questions on two processors
(docs/tuning.md).
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import math
import random
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import tuning_model
from torch.nn import functional
from tuning_examples import PARTS, Example, examples, untouched

from recall_loop.memory.store.embeddings import _minilm, _padded

FIRST = 3  # layers before it stay as they are
EPOCHS, BATCH, NEGATIVES, RATE = 2, 16, 4, 5e-5
MOST_TOKENS = 160
SHARPNESS_WHOLE, SHARPNESS_TOKENS = 15.0, 20.0
KEPT = 30  # texts a step that shall stay where they are


@dataclass(frozen=True)
class Encoded:
    """A text after the layers that stay: hidden states [t, 384], and which word pieces carry meaning [t]."""

    hidden: torch.Tensor
    worded: torch.Tensor


class Encoder:
    """Texts as hidden states, through the layers that stay, once each; the others move."""

    def __init__(self) -> None:
        self.model = tuning_model.read()
        self.first = copy.deepcopy(self.model.layers)
        self._loaded = _minilm()

    def start(self, texts: Sequence[str]) -> list[Encoded]:
        """Return the texts after the first layers."""
        ids = [each.ids[:MOST_TOKENS] for each in self._loaded.tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(ids)), key=lambda at: len(ids[at]))
        found: dict[int, Encoded] = {}
        with torch.no_grad():
            for begin in range(0, len(order), 48):
                rows = order[begin : begin + 48]
                padded, real = map(torch.from_numpy, _padded([ids[row] for row in rows]))
                mask = real.bool()
                hidden = tuning_model.through(self.model.layers[:FIRST], self.model.start(padded), mask)
                for at, row in enumerate(rows):
                    worded = torch.from_numpy(self._loaded.worded[ids[row]]).float()
                    found[row] = Encoded(hidden[at, : len(ids[row])].to(torch.bfloat16), worded)
        return [found[row] for row in range(len(ids))]

    def finish(self, given: Sequence[Encoded]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return unit vectors of the texts [n, 384], of their word pieces [n, t, 384], and which count [n, t]."""
        return self._finished(given, self.model.layers)

    def drift(self, given: Sequence[Encoded]) -> torch.Tensor:
        """Return how far the vectors of texts and of their word pieces are from the untuned ones: 1 − cosine."""
        whole, tokens, worded = self._finished(given, self.model.layers)
        with torch.no_grad():
            whole_first, tokens_first, _ = self._finished(given, self.first)
        near = (tokens * tokens_first).sum(-1).sum() / worded.sum()
        moved: torch.Tensor = (1 - (whole * whole_first).sum(-1).mean()) + (1 - near)
        return moved

    @staticmethod
    def _finished(
        given: Sequence[Encoded], layers: torch.nn.ModuleList
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        width = max(len(each.hidden) for each in given)
        hidden, mask, worded = torch.zeros(len(given), width, tuning_model.WIDTH), *torch.zeros(2, len(given), width)
        for at, each in enumerate(given):
            hidden[at, : len(each.hidden)] = each.hidden
            mask[at, : len(each.hidden)], worded[at, : len(each.hidden)] = 1, each.worded
        last = tuning_model.through(layers[FIRST:], hidden, mask.bool())
        whole = functional.normalize((last * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), dim=-1)
        return whole, functional.normalize(last, dim=-1) * worded[..., None], worded


def loss_of(encoder: Encoder, asked: Sequence[Encoded], held: Sequence[Encoded], right: torch.Tensor) -> torch.Tensor:
    """Return the mean of both losses; `right` [questions, records] says which records are wanted."""
    whole, tokens, counted = encoder.finish(asked)
    record_whole, record_tokens, _ = encoder.finish(held)
    best = torch.einsum("qtd,nud->qntu", tokens, record_tokens).amax(-1).sum(-1)
    late = best / counted.sum(1, keepdim=True).clamp(min=1)
    loss = torch.zeros(())
    for scores, sharpness in ((whole @ record_whole.T, SHARPNESS_WHOLE), (late, SHARPNESS_TOKENS)):
        chances = functional.log_softmax(scores * sharpness, -1).masked_fill(~right, -1e4)
        loss = loss - torch.logsumexp(chances, -1).mean()
    return loss


def batches(found: Sequence[Example], chance: random.Random) -> list[list[Example]]:
    """Return the examples shuffled, each batch of one conversation: what others were asked is then a fair negative."""
    groups: dict[str, list[Example]] = {}
    for each in found:
        groups.setdefault(each.group, []).append(each)
    made = []
    for group in groups.values():
        chance.shuffle(group)
        made += [group[begin : begin + BATCH] for begin in range(0, len(group), BATCH)]
    chance.shuffle(made)
    return made


def tune(
    encoder: Encoder, found: Sequence[Example], texts: Mapping[str, str], kept: Sequence[str], keeping: float
) -> None:
    """Move the last layers; `keeping` is how much it counts that the vectors of `kept` stay."""
    chance = random.Random(1)
    asked = dict(zip((each.text for each in found), encoder.start([each.text for each in found]), strict=True))
    needed = sorted({each for example in found for each in (*example.wanted, *example.others)})
    held = dict(zip(needed, encoder.start([texts[each] for each in needed]), strict=True))
    still = dict(zip(kept, encoder.start(kept), strict=True)) if kept else {}
    moving = [part for layer in encoder.model.layers[FIRST:] for part in layer.parameters()]
    optimiser = torch.optim.AdamW(moving, lr=RATE, weight_decay=0.01)
    steps = EPOCHS * len(batches(found, random.Random(1)))
    shape = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / (0.1 * steps)) * max(0.0, 1 - step / steps)
    )
    losses: list[float] = []
    for batch in (each for _ in range(EPOCHS) for each in batches(found, chance)):
        rows = list(dict.fromkeys(row for each in batch for row in drawn(each, chance)))
        right = torch.tensor([[row in each.wanted for row in rows] for each in batch])
        loss = loss_of(encoder, [asked[each.text] for each in batch], [held[row] for row in rows], right)
        if still:
            loss = loss + keeping * encoder.drift([still[text] for text in chance.sample(kept, min(KEPT, len(kept)))])
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(moving, 1.0)
        optimiser.step()
        shape.step()
        losses.append(loss.item())
        if len(losses) % 50 == 0:
            said = sum(losses[-50:]) / 50
            print(f"{len(losses)} of {steps} steps, loss {said:.3f}", file=sys.stderr, flush=True)


def drawn(each: Example, chance: random.Random) -> list[str]:
    """Return one wanted record of an example and some of its negatives."""
    return [chance.choice(each.wanted), *chance.sample(each.others, min(NEGATIVES, len(each.others)))]


def main(words: Sequence[str] | None = None) -> int:
    """Learn, write the file and print its sha256."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--talk", type=Path, nargs="+", required=True, help="sets of messages to learn from")
    parser.add_argument("--passages", type=Path, nargs="+", default=[], help="sets that are to stay where they are")
    parser.add_argument("--keeping", type=float, default=10.0, help="how much it counts that these stay (default: 10)")
    parser.add_argument("--without", type=int, choices=range(PARTS), help="third to leave out")
    parser.add_argument("-o", "--output", type=Path, required=True, help="file of tuned weights to write")
    given = parser.parse_args(words)
    if not given.keeping >= 0:
        parser.error(f"--keeping: got {given.keeping}; allowed: 0 or more")
    torch.manual_seed(1)
    found, texts = examples(given.talk, given.without)
    if not found:
        parser.error(f"--talk: no answerable question with gold in {', '.join(map(str, given.talk))}")
    encoder = Encoder()
    tune(encoder, found, texts, untouched(given.passages, given.without), given.keeping)
    written = tuning_model.patch_of(encoder.model.layers, FIRST)
    given.output.write_bytes(written)
    count, digest = math.ceil(len(written) / 1e5) / 10, hashlib.sha256(written).hexdigest()
    print(f"{len(found)} examples, {count} MB, sha256 {digest}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
