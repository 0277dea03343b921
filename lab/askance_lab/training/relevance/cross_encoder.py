"""The cross-encoder that is trained, and the batches of pairs that it takes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from askance.core.types import TokenIds
from askance_lab.training.loop.module import TrainedModule
from askance_lab.training.loop.schedule import TrainingSchedule
from askance_lab.training.relevance.pairs import RelevancePair
from askance_lab.training.relevance.settings import RelevanceSettings

_BATCHES_SORTED = 20
"""The number of batches whose pairs are sorted by length, so that little is padded."""


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """A pair as token ids.

    Attributes:
        ids: The ids of the query and the passage, with the special tokens around them.
        kinds: 0 for each token of the query and 1 for each token of the passage; empty if the model does not
            distinguish them.
    """

    id: str
    ids: TokenIds
    kinds: TokenIds
    label: bool


@dataclass(frozen=True, slots=True)
class PairBatch:
    """Pairs that are computed in one forward pass. Its length is the number of tokens, with padding."""

    examples: tuple[EncodedPair, ...]

    def __len__(self) -> int:
        return len(self.examples) * max(len(pair.ids) for pair in self.examples)

    @property
    def target_weight(self) -> float:
        """The number of pairs."""
        return float(len(self.examples))


class TrainableCrossEncoder(TrainedModule):
    """A cross-encoder with one score for each pair, the logit of the passage's relevance.

    The module stays in evaluation mode: without dropout, a resumed run computes the same steps. Unless
    `trains_embeddings` is set, the word embeddings keep their values, so that words which no training pair
    has stay comparable with the others.

    Args:
        module: A model for sequence classification with one label.
    """

    def __init__(self, module: Any, settings: RelevanceSettings) -> None:
        super().__init__(module, settings)
        module.get_input_embeddings().weight.requires_grad_(settings.trains_embeddings)
        self._padding = module.config.pad_token_id or 0

    def weighted_loss(self, row: PairBatch) -> Tensor:
        """Return the sum of the binary cross-entropies of all pairs (nats)."""
        labels = torch.tensor([float(pair.label) for pair in row.examples], device=self.module.device)
        return binary_cross_entropy_with_logits(self.logits(row.examples), labels, reduction="sum")

    def logits(self, pairs: Sequence[EncodedPair]) -> Tensor:
        """Return the logit of each pair: shape [pairs]."""
        longest = max(len(pair.ids) for pair in pairs)

        def padded(rows: Sequence[Sequence[int]], filler: int) -> Tensor:
            filled = [[*row, *[filler] * (longest - len(row))] for row in rows]
            return torch.tensor(filled, device=self.module.device)

        inputs = {
            "input_ids": padded([pair.ids for pair in pairs], self._padding),
            "attention_mask": padded([[1] * len(pair.ids) for pair in pairs], 0),
        }
        if pairs[0].kinds:
            inputs["token_type_ids"] = padded([pair.kinds for pair in pairs], 0)
        with self.autocast():
            logits: Tensor = self.module(**inputs).logits[:, 0]
        return logits.float()

    @torch.no_grad()
    def scores(self, pairs: Sequence[EncodedPair], batch_pairs: int = 32) -> list[float]:
        """Return the logit of each pair, in order."""
        order = sorted(range(len(pairs)), key=lambda index: len(pairs[index].ids))
        scores = [0.0] * len(pairs)
        for start in range(0, len(order), batch_pairs):
            indices = order[start : start + batch_pairs]
            values = self.logits([pairs[index] for index in indices]).tolist()
            for index, value in zip(indices, values, strict=True):
                scores[index] = value
        return scores


def encode_pairs(pairs: Sequence[RelevancePair], tokenizer: Any, max_tokens: int) -> tuple[EncodedPair, ...]:
    """Encode pairs. If a pair has more than `max_tokens`, the longer of query and passage is truncated."""
    encoded = []
    for pair in pairs:
        fields = tokenizer(pair.query, pair.passage.titled_text, truncation=True, max_length=max_tokens)
        kinds = tuple(fields.get("token_type_ids", ()))
        encoded.append(EncodedPair(pair.id, tuple(fields["input_ids"]), kinds, pair.label))
    return tuple(encoded)


def pairs_digest(pairs: Sequence[EncodedPair]) -> str:
    """Return a digest of encoded pairs and their order: 32 hexadecimal digits."""
    digest = blake2b(digest_size=16)
    for pair in pairs:
        digest.update(f"{pair.ids} {pair.label}\n".encode())
    return digest.hexdigest()


def make_schedule(
    training: Sequence[EncodedPair], held_out: Sequence[EncodedPair], settings: RelevanceSettings
) -> TrainingSchedule[PairBatch]:
    """Return the schedule of a training run, in which each step computes one batch.

    Each epoch shuffles the pairs and then sorts runs of them by length.
    """
    steps: list[tuple[PairBatch, ...]] = []
    size = settings.pairs_per_step
    for epoch in range(settings.epochs):
        rng = random.Random(f"{settings.seed} epoch {epoch}")
        batches = []
        shuffled = rng.sample(training, len(training))
        for start in range(0, len(shuffled), _BATCHES_SORTED * size):
            alike = sorted(shuffled[start : start + _BATCHES_SORTED * size], key=lambda pair: len(pair.ids))
            batches += _batches(alike, size)
        steps += [(batch,) for batch in rng.sample(batches, len(batches))]
    return TrainingSchedule(tuple(steps), tuple(_batches(held_out, size)), settings, is_packed=False)


def _batches(pairs: Sequence[EncodedPair], size: int) -> list[PairBatch]:
    return [PairBatch(tuple(pairs[start : start + size])) for start in range(0, len(pairs), size)]
