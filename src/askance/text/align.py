"""Where the tokens of one text stand in another writing of it, by character offsets.

Two models cut the same text differently, and some rewrite it: they add a begin token or a space in front,
join spaces, fold letter case or take a ligature apart.
"""

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise

Offsets = tuple[int, int]


def token_offsets(texts: Sequence[str], target: str) -> tuple[Offsets, ...]:
    """The offsets in `target` of each of `texts`, which join to `target` or nearly so.

    They never decrease and stay inside `target`. A text that has no counterpart gets an empty place, or its
    share of the place of what it replaces.
    """
    joined = "".join(texts)
    places = _places(joined, target)
    ends = list(accumulate(map(len, texts), initial=0))
    return tuple((places[start], places[end]) for start, end in pairwise(ends))


def _places(source: str, target: str) -> list[int]:
    """Of each offset in `source`, the end included, the offset in `target`."""
    shift = source.rfind(target) if target else -1
    if shift >= 0:
        num_behind = len(source) - shift - len(target)
        return [*(0,) * shift, *range(len(target) + 1), *(len(target),) * num_behind]
    places = [0]
    for at, other, size in SequenceMatcher(None, source, target, autojunk=False).get_matching_blocks():
        begin, length = places[-1], at - len(places) + 1
        # What differs takes its even share of what stands there instead.
        places += [begin + (other - begin) * step // length for step in range(1, length + 1)]
        places += range(other + 1, other + size + 1)
    return places
