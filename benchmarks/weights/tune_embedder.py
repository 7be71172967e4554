"""Tune the embedder's last layers on labelled conversations, and write a file for the setting `minilm_weights`.

    python benchmarks/weights/tune_embedder.py --talk DIR … -o FILE [--without 0]

Messages are brought near to the questions that they answer and to the facts that were taken from them, nearer than
what a search by the untuned model finds beside them: two contrastive losses (van den Oord et al. 2018), one over the
vectors of whole texts, one over late interaction of their word pieces (Khattab & Zaharia 2020). Questions and facts
stand where the untuned model puts them while it learns; what it learned of messages then holds for stored facts too.
Only the last layers move; what the first ones give is computed once. `--without` leaves one sixth of the conversations
out: what figures are taken on. Needs `pip install torch onnx`; five minutes for a thousand questions on two processors
(docs/tuning.md).
"""

from __future__ import annotations

import argparse
import hashlib
import math
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import tuning_model
from torch.nn import functional
from tuning_examples import PARTS, TuningExample, tuning_examples

from recall_loop.memory.store.embed.minilm import _shared_model
from recall_loop.memory.store.embed.onnx_model import pad_batch

FIRST = 2  # layers before it stay as they are
EPOCHS, BATCH, NEGATIVES, RATE = 2, 16, 4, 5e-5
MOST_TOKENS = 160
SHARPNESS_WHOLE, SHARPNESS_TOKENS = 15.0, 20.0
TOGETHER = 24  # texts of like length that go through the layers at once: padding would cost more


@dataclass(frozen=True)
class PartialEncoding:
    """A text after the layers that stay: hidden states [t, 384], and which word pieces carry meaning [t]."""

    hidden: torch.Tensor
    is_word: torch.Tensor


@dataclass(frozen=True)
class EncodedTexts:
    """Unit vectors of texts [n, 384], of their word pieces [n, t, 384], and which of these count [n, t]."""

    whole: torch.Tensor
    tokens: torch.Tensor
    counted: torch.Tensor

    def rows(self, wanted: Sequence[int]) -> EncodedTexts:
        """Return those of some texts."""
        return EncodedTexts(self.whole[wanted], self.tokens[wanted], self.counted[wanted])


class Encoder:
    """Texts as hidden states, through the layers that stay, once each; the others move."""

    def __init__(self) -> None:
        self.model = tuning_model.read()
        self._loaded = _shared_model()

    def start(self, texts: Sequence[str]) -> list[PartialEncoding]:
        """Return the texts after the first layers."""
        ids = [each.ids[:MOST_TOKENS] for each in self._loaded.tokenizer.encode_batch(list(texts))]
        found: dict[int, PartialEncoding] = {}
        with torch.no_grad():
            for rows in by_length([len(each) for each in ids]):
                padded, real = map(torch.from_numpy, pad_batch([ids[row] for row in rows]))
                hidden = tuning_model.through(self.model.layers[:FIRST], self.model.start(padded), real.bool())
                for at, row in enumerate(rows):
                    worded = torch.from_numpy(self._loaded.is_word[ids[row]]).float()
                    found[row] = PartialEncoding(hidden[at, : len(ids[row])].to(torch.bfloat16), worded)
        return [found[row] for row in range(len(ids))]

    def finish(self, given: Sequence[PartialEncoding]) -> EncodedTexts:
        """Return the vectors of texts."""
        width = max(len(each.hidden) for each in given)
        parts, order = [], []
        for rows in by_length([len(each.hidden) for each in given]):
            parts.append(self._finished([given[row] for row in rows], width))
            order += rows
        back = torch.argsort(torch.tensor(order))
        whole, tokens, counted = (torch.cat(each)[back] for each in zip(*parts, strict=True))
        return EncodedTexts(whole, tokens, counted)

    def _finished(
        self, given: Sequence[PartialEncoding], width: int
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the parts of `Vectors`, padded to `width` word pieces."""
        longest = max(len(each.hidden) for each in given)
        hidden = torch.zeros(len(given), longest, tuning_model.WIDTH)
        mask, worded = torch.zeros(2, len(given), longest)
        for at, each in enumerate(given):
            hidden[at, : len(each.hidden)] = each.hidden
            mask[at, : len(each.hidden)], worded[at, : len(each.hidden)] = 1, each.is_word
        last = tuning_model.through(self.model.layers[FIRST:], hidden, mask.bool())
        whole = functional.normalize((last * mask[..., None]).sum(1) / mask.sum(1, keepdim=True), dim=-1)
        tokens = functional.normalize(last, dim=-1) * worded[..., None]
        return whole, functional.pad(tokens, (0, 0, 0, width - longest)), functional.pad(worded, (0, width - longest))


def by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield places of texts, those of like length together."""
    order = sorted(range(len(lengths)), key=lambda at: lengths[at])
    for begin in range(0, len(order), TOGETHER):
        yield order[begin : begin + TOGETHER]


def loss_of(asked: EncodedTexts, held: EncodedTexts, right: torch.Tensor) -> torch.Tensor:
    """Return the mean of both losses; `right` [questions, records] says which records are wanted."""
    best = torch.einsum("qtd,nud->qntu", asked.tokens, held.tokens).amax(-1).sum(-1)
    late = best / asked.counted.sum(1, keepdim=True).clamp(min=1)
    loss = torch.zeros(())
    for scores, sharpness in ((asked.whole @ held.whole.T, SHARPNESS_WHOLE), (late, SHARPNESS_TOKENS)):
        chances = functional.log_softmax(scores * sharpness, -1).masked_fill(~right, -1e4)
        loss = loss - torch.logsumexp(chances, -1).mean()
    return loss


def batches(found: Sequence[TuningExample], chance: random.Random) -> list[list[TuningExample]]:
    """Return the examples shuffled, each batch of one conversation: what others were asked is then a fair negative."""
    groups: dict[str, list[TuningExample]] = {}
    for each in found:
        groups.setdefault(each.group, []).append(each)
    made = []
    for group in groups.values():
        chance.shuffle(group)
        made += [group[begin : begin + BATCH] for begin in range(0, len(group), BATCH)]
    chance.shuffle(made)
    return made


def tune(encoder: Encoder, found: Sequence[TuningExample], texts: Mapping[str, str]) -> None:
    """Move the last layers."""
    chance = random.Random(1)
    place = {each.text: at for at, each in enumerate(found)}
    with torch.no_grad():
        asked = encoder.finish(encoder.start([each.text for each in found]))
    needed = sorted({each for example in found for each in (*example.positives, *example.negatives)})
    held = dict(zip(needed, encoder.start([texts[each] for each in needed]), strict=True))
    moving = [part for layer in encoder.model.layers[FIRST:] for part in layer.parameters()]
    optimiser = torch.optim.AdamW(moving, lr=RATE, weight_decay=0.01)
    steps = EPOCHS * len(batches(found, random.Random(1)))
    shape = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / (0.1 * steps)) * max(0.0, 1 - step / steps)
    )
    losses: list[float] = []
    for batch in (each for _ in range(EPOCHS) for each in batches(found, chance)):
        rows = list(dict.fromkeys(row for each in batch for row in drawn(each, chance)))
        right = torch.tensor([[row in each.positives for row in rows] for each in batch])
        questions = asked.rows([place[each.text] for each in batch])
        loss = loss_of(questions, encoder.finish([held[row] for row in rows]), right)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(moving, 1.0)
        optimiser.step()
        shape.step()
        losses.append(loss.item())
        if len(losses) % 50 == 0:
            said = sum(losses[-50:]) / 50
            print(f"{len(losses)} of {steps} steps, loss {said:.3f}", file=sys.stderr, flush=True)


def drawn(each: TuningExample, chance: random.Random) -> list[str]:
    """Return one wanted record of an example and some of its negatives."""
    return [chance.choice(each.positives), *chance.sample(each.negatives, min(NEGATIVES, len(each.negatives)))]


def main(words: Sequence[str] | None = None) -> int:
    """Learn, write the file and print its sha256."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--talk", type=Path, nargs="+", required=True, help="sets of messages to learn from")
    parser.add_argument("--without", type=int, choices=range(PARTS), help="sixth to leave out")
    parser.add_argument("-o", "--output", type=Path, required=True, help="file of tuned weights to write")
    given = parser.parse_args(words)
    torch.manual_seed(1)
    found, texts = tuning_examples(given.talk, given.without)
    if not found:
        parser.error(f"--talk: no answerable question with gold in {', '.join(map(str, given.talk))}")
    encoder = Encoder()
    tune(encoder, found, texts)
    written = tuning_model.patch_of(encoder.model.layers, FIRST)
    given.output.write_bytes(written)
    count, digest = math.ceil(len(written) / 1e5) / 10, hashlib.sha256(written).hexdigest()
    print(f"{len(found)} examples, {count} MB, sha256 {digest}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
