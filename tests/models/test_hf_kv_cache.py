"""Places of tokens in the pool: none is lost, and none is given to two texts that have nothing in common."""

import pytest
import torch

from askance.models.hf.attention import Pool


@pytest.fixture
def pool():
    return Pool()


def write(pool, places, number):
    for layer, heads in enumerate((2, 1)):
        new = torch.full((len(places.numbers), heads, 3), float(number))
        pool.write(layer, torch.tensor(places.numbers), new, new)


def numbers(pool, places):
    return {
        value
        for layer in pool.layers.values()
        for each in layer
        for value in each[places.numbers].unique().tolist()
    }


def test_each_text_has_its_own_places_whoever_leaves(pool):
    taken = {number: pool.take(400) for number in (1, 2, 3)}
    for number, places in taken.items():
        write(pool, places, number)
    del taken[2], places
    write(pool, pool.take(900), 9)
    assert [numbers(pool, taken[number]) for number in (1, 3)] == [{1}, {3}]


def test_what_texts_share_is_there_until_the_last_has_left(pool):
    first = pool.take(40)
    write(pool, first, 1)
    block = first.part(0, 16)
    del first
    second = pool.take(60).behind([(block, 16)])
    assert (len(second.numbers), second.numbers[:16]) == (60, block.numbers)
    del block
    write(pool, pool.take(2000), 9)
    assert numbers(pool, second.part(0, 16)) == {1}


def test_a_part_of_a_block_may_be_shared(pool):
    block = pool.take(16)
    assert pool.take(20).behind([(block, 16), (block, 3)]).numbers[:19] == [
        *block.numbers,
        *block.numbers[:3],
    ]


def test_memory_goes_when_nobody_uses_any(pool):
    places = pool.take(40)
    write(pool, places, 1)
    pool.give_back()
    assert numbers(pool, places) == {1}
    del places
    pool.give_back()
    assert pool.layers == {}
    write(pool, again := pool.take(5), 2)
    assert numbers(pool, again) == {2}


def test_growing_that_broke_is_made_good(pool, monkeypatch):
    first = pool.take(10)
    write(pool, first, 1)
    cat, calls = torch.cat, []

    def full(tensors):
        calls.append(1)
        if len(calls) == 2:
            raise RuntimeError("out of memory")
        return cat(tensors)

    monkeypatch.setattr(torch, "cat", full)
    with pytest.raises(RuntimeError):
        pool.take(5000)
    second = pool.take(1500)
    write(pool, second, 2)
    assert (numbers(pool, first), numbers(pool, second)) == ({1}, {2})
