"""The tree of blocks: what is found again, what goes first, and that it never holds more than it may."""

from hypothesis import given
from hypothesis import strategies as st

from askance.runtime.kvcache import BLOCK_TOKENS, PrefixTree


def keep(tree, ids):
    """Keeps blocks that are the tokens themselves."""
    tree.add(ids, lambda start, stop: tuple(ids[start:stop]))


def known(tree, ids):
    """How many tokens are found; that the blocks hold them is checked."""
    found = tree.find(ids)
    tokens = [id for block, count in found for id in block[:count]]
    assert tokens == ids[: len(tokens)]
    assert all(count == len(block) == BLOCK_TOKENS for block, count in found[:-1])
    return len(tokens)


def text(first, count=40):
    return [*range(first, first + count)]


def test_what_was_kept_is_found_as_far_as_it_is_shared():
    tree = PrefixTree(max_blocks=10)
    keep(tree, text(0))
    assert tree.num_blocks == 3
    assert known(tree, text(0)) == 40
    assert known(tree, [*text(0), 7]) == 40
    assert known(tree, text(0, 20)) == 20
    assert known(tree, [*text(0, 35), 99]) == 35
    assert known(tree, [1]) == 0
    assert known(tree, []) == 0


def test_what_is_kept_again_takes_no_more_room():
    tree = PrefixTree(max_blocks=10)
    for count in (40, 20, 40):
        keep(tree, text(0, count))
    assert tree.num_blocks == 3


def test_a_last_block_that_grows_is_held_once():
    tree = PrefixTree(max_blocks=10)
    for count in (18, 25, 40):
        keep(tree, text(0, count))
    assert tree.num_blocks == 3
    assert known(tree, text(0)) == 40


def test_texts_that_part_within_a_block_have_one_each():
    tree = PrefixTree(max_blocks=10)
    one, other = [*text(0, 20), 7, 8], [*text(0, 20), 9]
    keep(tree, one)
    keep(tree, other)
    assert tree.num_blocks == 3
    assert (known(tree, one), known(tree, other)) == (22, 21)


def test_what_was_used_least_recently_goes_first_and_its_end_before_its_beginning():
    tree = PrefixTree(max_blocks=6)
    keep(tree, text(0))
    keep(tree, text(100))
    known(tree, text(0))
    keep(tree, text(200, 20))
    assert [known(tree, text(first)) for first in (0, 100, 200)] == [40, 16, 20]


def test_of_a_text_too_long_for_the_room_the_beginning_is_kept():
    tree = PrefixTree(max_blocks=2)
    keep(tree, text(100))
    keep(tree, text(0))
    assert [known(tree, text(first)) for first in (0, 100)] == [32, 0]


def test_less_room():
    tree = PrefixTree(max_blocks=6)
    keep(tree, text(0))
    keep(tree, text(100))
    tree.max_blocks = 2
    tree.shrink()
    assert tree.num_blocks == 2
    assert [known(tree, text(first)) for first in (0, 100)] == [0, 32]
    tree.clear()
    assert (tree.num_blocks, known(tree, text(100))) == (0, 0)


def shared(one, other):
    pairs = zip(one, other, strict=False)
    return next(
        (at for at, (first, second) in enumerate(pairs) if first != second), min(len(one), len(other))
    )


# Few different tokens, and often the same beginnings, so that texts part at every place of a block.
TEXTS = st.builds(
    lambda start, own: [*range(start), *own], st.integers(0, 40), st.lists(st.integers(0, 2), max_size=20)
)


@given(kept=st.lists(TEXTS, max_size=12), asked=TEXTS)
def test_with_room_for_all_as_much_is_found_as_any_text_shares(kept, asked):
    tree = PrefixTree(max_blocks=1000)
    for ids in kept:
        keep(tree, ids)
    assert known(tree, asked) == max((shared(ids, asked) for ids in kept), default=0)


@given(kept=st.lists(TEXTS, max_size=12), max_blocks=st.lists(st.integers(0, 6), min_size=12, max_size=12))
def test_there_are_never_more_blocks_than_there_may_be(kept, max_blocks):
    tree, saved = PrefixTree(), []
    for ids, tree.max_blocks in zip(kept, max_blocks, strict=False):
        tree.shrink()
        assert tree.num_blocks <= tree.max_blocks
        tree.add(ids, lambda start, stop, ids=ids: saved.append(1) or tuple(ids[start:stop]))
        assert tree.num_blocks <= tree.max_blocks
        least = min(len(ids), BLOCK_TOKENS * tree.max_blocks)
        assert known(tree, ids) >= least
    tree.max_blocks = 0
    tree.shrink()
    assert tree.num_blocks == 0
