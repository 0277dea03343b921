"""Rows for keys and values: none is lost, none is shared, and what is reserved is what is said."""

import pytest
import torch

from askance.models.hf.slots import KeyShape, Slots, rounded

SHAPES = (KeyShape(2, 3, 4), KeyShape(1, 5, 5))


@pytest.fixture
def slots():
    return Slots(SHAPES, torch.device("cpu"), torch.float32)


def fill(slot, number):
    for layer in (*slot.slab.keys, *slot.slab.values):
        layer[slot.row] = number


def numbers(slot):
    return {
        value for layer in (*slot.slab.keys, *slot.slab.values) for value in layer[slot.row].unique().tolist()
    }


def test_sizes():
    assert [rounded(count) for count in (1, 128, 129, 192, 193, 256, 257, 1000)] == [
        128, 128, 192, 192, 256, 256, 384, 1024,
    ]  # fmt: skip


def test_bytes_of_a_token(slots):
    assert slots.bytes_per_token == (2 * (3 + 4) + 1 * (5 + 5)) * 4


def test_what_is_reserved_is_foretold(slots):
    opened = []
    for num_tokens in (100, 100, 300, 100, 100, 100, 300, 5):
        foretold = slots.reserved_with(num_tokens)
        opened.append(slots.open(num_tokens))
        assert slots.num_reserved == foretold
        held = {id(slot.slab): slot.slab for slot in opened}.values()
        assert slots.num_reserved == sum(slab.keys[0].shape[0] * slab.keys[0].shape[2] for slab in held)
    for slot in opened[1:]:
        slot.slab.close(slot)
    assert slots.num_reserved == foretold, "rows are kept for the next"
    assert slots.reserved_with(300) == foretold
    slots.give_back()
    assert slots.num_reserved == opened[0].slab.num_rows * opened[0].slab.num_tokens
    opened[0].slab.close(opened[0])
    slots.give_back()
    assert slots.num_reserved == 0


def test_each_has_its_own_row_whoever_leaves(slots):
    opened = [slots.open(100) for _ in range(5)]
    for number, slot in enumerate(opened, start=1):
        fill(slot, number)
    for gone in (1, 2, 4):
        opened[gone].slab.close(opened[gone])
    fill(slots.open(100), 9)
    assert [numbers(opened[left]) for left in (0, 3)] == [{1}, {4}]


@pytest.mark.parametrize("gone", [0, 1])
def test_nothing_is_left_for_the_next(slots, gone):
    """What overflowed once would be multiplied by zero, and be no number still."""
    opened = [slots.open(100) for _ in range(2)]
    for slot in opened:
        fill(slot, 1)
    fill(opened[gone], torch.nan)
    opened[gone].slab.close(opened[gone])
    assert numbers(slots.open(100)) == {0}
    assert numbers(opened[1 - gone]) == {1}


def test_a_block_is_a_copy(slots):
    slot = slots.open(100)
    fill(slot, 1)
    block = slot.slab.save(slot, 10, 26)
    fill(slot, 2)
    other = slots.open(300)
    other.slab.restore(other, [(block, 16), (block, 5)])
    keys = other.slab.keys[1][other.row]
    assert keys[:, :21].unique().tolist() == [1]
    assert keys[:, 21:].unique().tolist() == [0]


def test_growing_that_broke_is_made_good(slots, monkeypatch):
    first = slots.open(100)
    fill(first, 1)
    new_zeros, calls = torch.Tensor.new_zeros, []

    def full(self, *given):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return new_zeros(self, *given)

    monkeypatch.setattr(torch.Tensor, "new_zeros", full)
    with pytest.raises(RuntimeError):
        slots.open(100)
    second = slots.open(100)
    fill(second, 2)
    assert (numbers(first), numbers(second)) == ({1}, {2})
    assert {len(layer) for layer in (*second.slab.keys, *second.slab.values)} == {2}


def test_layers_of_one_shape_are_moved_together_and_keep_their_own(slots):
    alike = Slots((SHAPES[0], SHAPES[1], SHAPES[0]), torch.device("cpu"), torch.float32)
    slot, other = alike.open(100), alike.open(100)
    for number, layer in enumerate((*slot.slab.keys, *slot.slab.values)):
        layer[slot.row, :, 3:7] = number
    other.slab.restore(other, [(slot.slab.save(slot, 3, 7), 4)])
    for number, layer in enumerate((*slot.slab.keys, *slot.slab.values)):
        assert layer[other.row, :, :4].unique().tolist() == [number]
