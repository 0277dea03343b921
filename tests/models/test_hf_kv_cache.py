"""Cells of the KV pool: none is lost, and sequences without a common prefix never share one."""

import pytest

pytest.importorskip("torch")

import torch

from askance.models.hf.kv_cache import KVPool


@pytest.fixture
def pool():
    return KVPool()


def write(pool, cells, number):
    for layer, heads in enumerate((2, 1)):
        new = torch.full((len(cells.indices), heads, 3), float(number))
        pool.write(layer, torch.tensor(cells.indices), new, new)


def numbers(pool, cells):
    return {
        value
        for layer in pool.layers.values()
        for each in layer
        for value in each[cells.indices].unique().tolist()
    }


def test_each_text_has_its_own_cells(pool):
    taken = {number: pool.allocate(400) for number in (1, 2, 3)}
    for number, cells in taken.items():
        write(pool, cells, number)
    del taken[2], cells
    write(pool, pool.allocate(900), 9)
    assert [numbers(pool, taken[number]) for number in (1, 3)] == [{1}, {3}]


def test_what_texts_share_is_there_until_the_last_has_left(pool):
    first = pool.allocate(40)
    write(pool, first, 1)
    block = first.prefix(16)
    del first
    second = pool.allocate(60).with_prefix(block, 16)
    assert (len(second.indices), second.indices[:16]) == (60, block.indices)
    del block
    write(pool, pool.allocate(2000), 9)
    assert numbers(pool, second.prefix(16)) == {1}


def test_a_part_of_a_block_may_be_shared(pool):
    block = pool.allocate(16)
    assert pool.allocate(20).with_prefix(block, 3).indices[:3] == block.indices[:3]


def test_memory_goes_when_nobody_uses_any(pool):
    cells = pool.allocate(40)
    write(pool, cells, 1)
    pool.free_memory()
    assert numbers(pool, cells) == {1}
    del cells
    pool.free_memory()
    assert pool.layers == {}
    write(pool, again := pool.allocate(5), 2)
    assert numbers(pool, again) == {2}


def test_growing_that_broke_is_made_good(pool, monkeypatch):
    first = pool.allocate(10)
    write(pool, first, 1)
    cat, calls = torch.cat, []

    def full(tensors):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return cat(tensors)

    monkeypatch.setattr(torch, "cat", full)
    with pytest.raises(RuntimeError):
        pool.allocate(5000)
    second = pool.allocate(1500)
    write(pool, second, 2)
    assert (numbers(pool, first), numbers(pool, second)) == ({1}, {2})
