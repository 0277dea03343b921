"""Prompts in the prefix cache: which is found, which goes first, and that there is never too much."""

import pytest

from askance.models.llama_cpp.streams import PrefixCache


def cache_of(max_tokens, *prompts):
    cache = PrefixCache(max_tokens)
    for prompt in prompts:
        cache.add(prompt, state=None)
    return cache


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127, 128, 129, 200])
def test_common_beginnings_have_any_length(length):
    first = tuple(range(200))
    for other in ((*first[:length], -1, -1), [*first[:length], *[-1] * 100], first[:length]):
        assert cache_of(1000, first).find(other) == (first, length)


def test_the_longest_beginning_is_found():
    cache = cache_of(100, (1, 2, 3), (1, 2, 4, 5), (9,))
    assert cache.find((1, 2, 4, 6)) == ((1, 2, 4, 5), 3)
    assert cache.find((7,))[1] == 0
    assert PrefixCache().find((1,)) == ((), 0)


def test_a_longer_prompt_takes_the_place_of_its_beginning():
    assert [*cache_of(100, (1, 2), (1, 3), (1, 2, 3)).states] == [(1, 3), (1, 2, 3)]


def test_the_oldest_goes_first():
    assert [*cache_of(6, (1, 1), (2, 2), (3, 3), (4, 4)).states] == [(2, 2), (3, 3), (4, 4)]


def test_what_has_no_room_at_all_drives_nothing_out():
    cache = cache_of(4, (1, 1), (2, 2))
    cache.add((1, 1, 3, 3, 3), state=None)
    assert [*cache.states] == [(1, 1), (2, 2)]


def test_less_room_is_kept_to_at_once():
    cache = cache_of(6, (1, 1), (2, 2), (3, 3))
    cache.limit(3)
    assert [*cache.states] == [(3, 3)]
    cache.limit(0)
    assert not cache.states
