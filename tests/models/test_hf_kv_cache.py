"""Test cells of the KV pool: none is lost, and sequences without a common prefix never share one."""

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
    return cells


def numbers(pool, cells):
    tensors = [tensor for layer in pool.layers.values() for tensor in layer]
    return {value for tensor in tensors for value in tensor[cells.indices].unique().tolist()}


def test_each_text_has_its_own_cells(pool):
    cells = {number: write(pool, pool.allocate(400), number) for number in (1, 2, 3)}
    del cells[2]
    write(pool, pool.allocate(900), 9)
    assert [numbers(pool, cells[number]) for number in (1, 3)] == [{1}, {3}]


def test_a_common_prefix_stays_until_the_last_text_has_left(pool):
    first = write(pool, pool.allocate(40), 1)
    block = first.prefix(16)
    del first
    second = pool.allocate(60).with_prefix(block, 16)
    assert (len(second.indices), second.indices[:16]) == (60, block.indices)
    assert pool.allocate(20).with_prefix(block, 3).indices[:3] == block.indices[:3]
    del block
    write(pool, pool.allocate(2000), 9)
    assert numbers(pool, second.prefix(16)) == {1}


def test_memory_is_freed_when_no_text_uses_any(pool):
    cells = write(pool, pool.allocate(40), 1)
    pool.free_memory()
    assert numbers(pool, cells) == {1}
    del cells
    pool.free_memory()
    assert pool.layers == {}
    again = write(pool, pool.allocate(5), 2)
    assert numbers(pool, again) == {2}


def test_memory_that_runs_out_while_the_pool_grows_loses_nothing(pool, monkeypatch):
    first, cat, calls = write(pool, pool.allocate(10), 1), torch.cat, []

    def full(tensors):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return cat(tensors)

    monkeypatch.setattr(torch, "cat", full)
    with pytest.raises(RuntimeError):
        pool.allocate(5000)
    second = write(pool, pool.allocate(1500), 2)
    assert (numbers(pool, first), numbers(pool, second)) == ({1}, {2})
