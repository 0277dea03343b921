"""The prefix cache: the longest prefix is found, the least recently used is evicted, limits hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.inference.prefix_cache import PrefixCache


def keep(cache, ids):
    """Cache the tokens themselves as the block."""
    cache.add(tuple(ids), tuple(ids))


def known(cache, ids):
    """Return the number of cached tokens, after a check that the block has them."""
    kept, count = cache.find(ids)
    assert (kept or ())[:count] == tuple(ids[:count])
    return count


def cache_of(max_tokens, *texts):
    cache = PrefixCache(max_tokens)
    for text in texts:
        keep(cache, text)
    return cache


def kept(cache):
    return [*cache._blocks]


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 127, 128, 129, 200])
def test_common_prefixes_have_any_length(length):
    first = tuple(range(200))
    for other in ((*first[:length], -1, -1), [*first[:length], *[-1] * 100], first[:length]):
        assert known(cache_of(1000, first), other) == length


def test_the_longest_prefix_is_found():
    cache = cache_of(100, (1, 2, 3), (1, 2, 4, 5), (9,))
    assert cache.find([1, 2, 4, 6]) == ((1, 2, 4, 5), 3)
    assert cache.find((7,)) == (None, 0)
    assert cache.find(()) == (None, 0)
    assert PrefixCache().find((1,)) == (None, 0)


@pytest.mark.parametrize(
    ("max_tokens", "texts", "found", "added", "expected"),
    [
        (100, [(1, 2), (1, 3), (1, 2, 3)], (), (1, 2), [(1, 3), (1, 2, 3)]),
        (6, [(1, 1), (2, 2), (3, 3)], (1, 1), (4, 4), [(3, 3), (1, 1), (4, 4)]),
        (4, [(1, 1), (2, 2)], (), (1, 1, 3, 3, 3), [(1, 1), (2, 2)]),
    ],
    ids=[
        "a longer text replaces its prefix, and a shorter one is not cached again",
        "the least recently used is evicted first",
        "what has no room at all evicts nothing",
    ],
)
def test_what_is_kept_when_another_text_is_added(max_tokens, texts, found, added, expected):
    cache = cache_of(max_tokens, *texts)
    cache.find(found)
    keep(cache, added)
    assert kept(cache) == expected
    assert cache.num_tokens == sum(map(len, expected))


def test_less_room_is_kept_to_at_once_and_one_can_be_dropped():
    cache = cache_of(6, (1, 1), (2, 2), (3, 3))
    cache.drop((1, 1))
    cache.drop((1, 1))
    assert (kept(cache), known(cache, (1, 1))) == ([(2, 2), (3, 3)], 0)
    cache.limit(3)
    assert kept(cache) == [(3, 3)]
    cache.clear()
    assert (kept(cache), cache.num_tokens, cache.max_tokens) == ([], 0, 3)


def shared(one, other):
    pairs = zip(one, other, strict=False)
    return next(
        (at for at, (first, second) in enumerate(pairs) if first != second), min(len(one), len(other))
    )


# Few different tokens, and often the same beginnings.
TEXTS = st.builds(
    lambda start, own: (*range(start), *own), st.integers(0, 40), st.lists(st.integers(0, 2), max_size=20)
)


@given(texts=st.lists(TEXTS, max_size=12), asked=TEXTS)
def test_with_room_for_all_as_much_is_found_as_any_text_shares(texts, asked):
    assert known(cache_of(10_000, *texts), asked) == max((shared(ids, asked) for ids in texts), default=0)


@given(texts=st.lists(TEXTS, max_size=12), rooms=st.lists(st.integers(0, 90), min_size=12, max_size=12))
def test_there_are_never_more_tokens_than_there_may_be(texts, rooms):
    cache = PrefixCache()
    for ids, room in zip(texts, rooms, strict=False):
        cache.limit(room)
        keep(cache, ids)
        assert cache.num_tokens == sum(map(len, kept(cache))) <= room
        assert known(cache, ids) == (len(ids) if len(ids) <= room else known(cache, ids))
