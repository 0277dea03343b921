"""Pack training examples into rows, so that a prefix shared by several examples is computed once.

Questions on one paragraph repeat the paragraph, and judgements repeat their instruction. A row is therefore a
tree of tokens: examples with a common prefix share a path from the root and then branch off. Each token
attends only to itself and its ancestors, and its position is its depth. One forward pass therefore computes
every example exactly as it would be computed alone (up to rounding). Unrelated examples, which share only the
root, fill up the rows, so that almost no padding is needed.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from askance.inference.prefix_cache import num_shared
from askance_lab.training.reader.training_example import EncodedExample

MIN_SHARED_TOKENS = 24
"""The minimum number of tokens in a common prefix for examples to be kept together."""
MOSTLY_SHARED = 0.7
"""The fraction of an example's tokens that must be shared before its group may fill more than half a row."""
_MAX_OPEN_ROWS = 16


@dataclass(frozen=True, slots=True)
class TargetToken:
    """A token to be predicted.

    Attributes:
        index: The index of the token in the row whose output predicts the target token.
    """

    index: int
    token_id: int
    weight: float


@dataclass(slots=True)
class PackedRow:
    """A row of packed examples: a tree of tokens in which every parent precedes its children.

    Attributes:
        parents: The index of each token's parent; -1 for the first token of an example.
        positions: Each token's position in its own example.
    """

    ids: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    targets: list[TargetToken] = field(default_factory=list)
    examples: list[EncodedExample] = field(default_factory=list)
    _children: dict[tuple[int, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, example: EncodedExample) -> None:
        """Add an example and its target tokens to the tree.

        The weights of the n tokens of a target add up to √n. With equal weights for all tokens, a worked
        answer would count forty times as much as a one-word judgement. With equal weights for all examples,
        both would count the same. If a target ends in an answer, the answer gets half of the weight. Most of
        the reasoning is copied text, beside which a "yes" would otherwise have no influence. An example
        with weights of its own keeps these.
        """
        index, weights = -1, _token_weights(example)
        for position, token_id in enumerate(example.ids):
            weight = (
                weights[position - example.num_prompt_tokens] if position >= example.num_prompt_tokens else 0
            )
            if weight:
                self.targets.append(TargetToken(index, token_id, weight))
            index = self._child(index, token_id, position)
        self.examples.append(example)

    def num_new_tokens(self, example: EncodedExample) -> int:
        """Return the number of tokens that an example would add to the row."""
        index = -1
        for position, token_id in enumerate(example.ids):
            index = self._children.get((index, token_id), -2)
            if index == -2:
                return len(example.ids) - position
        return 0

    @property
    def target_weight(self) -> float:
        """The total weight of the row's target tokens."""
        return sum(target.weight for target in self.targets)

    def targets_of(self, example: EncodedExample) -> slice:
        """Return the slice of `targets` that belongs to one of the row's examples."""
        earlier = self.examples[: self.examples.index(example)]
        start = sum(example.num_learned_tokens for example in earlier)
        return slice(start, start + example.num_learned_tokens)

    def attention_mask(self) -> NDArray[np.bool_]:
        """Return whether each token (row) attends to each token (column): shape [tokens, tokens]."""
        mask = np.eye(len(self.ids), dtype=np.bool_)
        for index, parent in enumerate(self.parents):
            if parent >= 0:
                mask[index] |= mask[parent]
        return mask

    def close(self) -> None:
        """Free the data that only `add` needs, which takes up most of a row's memory."""
        self._children.clear()

    def _child(self, index: int, token_id: int, position: int) -> int:
        child = self._children.get((index, token_id))
        if child is None:
            child = self._children[index, token_id] = len(self.ids)
            self.ids.append(token_id)
            self.parents.append(index)
            self.positions.append(position)
        return child


def _token_weights(example: EncodedExample) -> Sequence[float]:
    """Return the weight of each token of the target in the loss."""
    if example.target_weights:
        return example.target_weights
    total, num_answer = example.num_target_tokens**0.5, example.num_answer_tokens
    num_reasoning = example.num_target_tokens - num_answer
    if not num_reasoning or not num_answer:
        return [total / example.num_target_tokens] * example.num_target_tokens
    return [total / 2 / num_reasoning] * num_reasoning + [total / 2 / num_answer] * num_answer


def pack_rows(examples: Sequence[EncodedExample], row_tokens: int, rng: random.Random) -> list[PackedRow]:
    """Pack all examples into rows of at most `row_tokens` tokens, in random order.

    An example longer than a row gets a row to itself. Examples with a common prefix stay together. Such a
    group may fill a whole row if its examples share most of their tokens, or else half a row. This limit
    ensures that each row, and so each optimizer step, mixes examples of several kinds.
    """
    groups = list(_prefix_groups(sorted(examples, key=lambda example: example.ids), row_tokens))
    rng.shuffle(groups)
    open_rows: list[PackedRow] = []
    full: list[PackedRow] = []
    for group, num_tokens in groups:
        row = next((row for row in open_rows if len(row) + num_tokens <= row_tokens), None)
        if row is None:
            row = PackedRow()
            open_rows.append(row)
        for example in group:
            row.add(example)
        if len(open_rows) > _MAX_OPEN_ROWS:
            full.append(open_rows.pop(max(range(len(open_rows)), key=lambda index: len(open_rows[index]))))
    rows = full + open_rows
    for row in rows:
        row.close()
    rng.shuffle(rows)
    return rows


def single_example_rows(examples: Sequence[EncodedExample]) -> list[PackedRow]:
    """Return a row for each example, for models that can't be trained on packed rows."""
    rows = [PackedRow() for _ in examples]
    for row, example in zip(rows, examples, strict=True):
        row.add(example)
        row.close()
    return rows


def _prefix_groups(
    ordered: Sequence[EncodedExample], row_tokens: int
) -> Iterator[tuple[list[EncodedExample], int]]:
    """Yield groups of examples that stay together, each with the number of tokens that it adds to a row."""
    group: list[EncodedExample] = []
    row = PackedRow()
    for example in ordered:
        num_common = num_shared(group[-1].ids, example.ids) if group else 0
        max_tokens = row_tokens if num_common > MOSTLY_SHARED * len(example.ids) else row_tokens // 2
        is_too_long = len(row) + row.num_new_tokens(example) > max_tokens
        if group and (num_common < MIN_SHARED_TOKENS or is_too_long):
            yield group, len(row)
            group, row = [], PackedRow()
        group.append(example)
        row.add(example)
    if group:
        yield group, len(row)
