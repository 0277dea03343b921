"""Prompts in the prefix cache: which is found, which goes first, and that there is never too much."""

import pytest

from askance.models.llama_cpp.prefix_cache import PrefixCache, Saved, num_shared


def saved(*ids):
    return Saved(ids, state=None)


def kept(cache):
    return [tuple(each.ids) for each in cache._saved]


def cache_of(max_tokens, *prompts):
    cache = PrefixCache()
    cache.limit(max_tokens)
    for prompt in prompts:
        cache.add(saved(*prompt))
    return cache


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127, 128, 129, 200])
def test_common_beginnings_have_any_length(length):
    first = tuple(range(200))
    for other in ((*first[:length], -1, -1), (*first[:length], *[-1] * 100), first[:length]):
        assert num_shared(first, other) == num_shared(list(other), first) == length


def test_the_longest_beginning_is_found():
    cache = cache_of(100, (1, 2, 3), (1, 2, 4, 5), (9,))
    found, count = cache.find((1, 2, 4, 6))
    assert (found.ids, count) == ((1, 2, 4, 5), 3)
    assert cache.find((7,))[1] == 0
    assert PrefixCache().find((1,)) == (None, 0)


def test_a_longer_prompt_takes_the_place_of_its_beginning():
    assert kept(cache_of(100, (1, 2), (1, 3), (1, 2, 3))) == [(1, 3), (1, 2, 3)]


def test_the_least_recently_used_goes_first():
    cache = cache_of(6, (1, 1), (2, 2), (3, 3))
    cache.use(cache.find((1, 1))[0])
    cache.add(saved(4, 4))
    assert kept(cache) == [(3, 3), (1, 1), (4, 4)]
    cache.use(saved(5, 5))
    assert kept(cache) == [(3, 3), (1, 1), (4, 4)], "what is not kept is not kept by use"


def test_what_has_no_room_at_all_drives_nothing_out():
    cache = cache_of(4, (1, 1), (2, 2))
    assert (cache.takes(4), cache.takes(5)) == (True, False)
    cache.add(saved(1, 1, 3, 3, 3))
    assert kept(cache) == [(1, 1), (2, 2)]


def test_less_room_is_kept_to_at_once():
    cache = cache_of(6, (1, 1), (2, 2), (3, 3))
    cache.limit(3)
    assert kept(cache) == [(3, 3)]
    cache.limit(0)
    assert kept(cache) == []


def test_one_can_be_dropped():
    cache = cache_of(6, (1, 1), (2, 2))
    cache.drop(cache.find((1, 1))[0])
    cache.drop(saved(1, 1))
    assert kept(cache) == [(2, 2)]
    cache.clear()
    assert kept(cache) == []
