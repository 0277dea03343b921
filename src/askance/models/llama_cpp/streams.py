"""Continuous batching by llama.cpp: the `Backend` of a `Batch`.

Each text has a stream of the KV cache to itself; in a stream that all texts shared, every token would look
through the cells of all of them. A free stream still holds its last text: the next text with the same prefix
is put there and continues from it, or has the prefix copied into another stream. Nothing else is cached.

Llama.cpp adds the numbers of one token up in another order than those of several, and it computes in 8 bits,
which makes much of the least difference. A text has to get the same numbers in any company and with any part
of it cached: so prompts are always read by at least two tokens at a time, and tokens that were decoded one by
one are not shared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from numpy.typing import NDArray

from askance.models.llama_cpp.context import PADDING, PASS_TOKENS, Context
from askance.models.llama_cpp.signals import Row
from askance.models.llama_cpp.weights import Weights
from askance.runtime.backend import Fed, Feed
from askance.runtime.guessing import MOST_TOKENS

MOST_RUNNING = 8
"""Texts that are computed at a time: with more of them, a few cores hardly compute more tokens a second."""
MOST_STREAMS = 16
"""There may be more streams than texts that run: they hold ended texts, whose prefixes may return."""
_KEPT_TOKENS = 6144
"""The room in all streams together, as long as the texts that run need no more."""
_STEP = 2 * PADDING
"""Streams grow by a multiple of so many tokens, so that not every slightly longer text moves them."""
_WORTH_COPYING = 64
"""Shorter prefixes are not copied: to copy a stream as a whole takes as long as a few dozen tokens."""
_CHUNK = 64


@dataclass(slots=True, eq=False)
class Stream:
    """One stream.

    Attributes:
        ids: the tokens that it holds.
        num_read: how many of them were read as a prompt.
        num_beginning: the number of tokens of its text that are prompt for sure; decoding begins behind them.
        is_open: whether a text runs in it.
        num_held: the number of tokens of that text that it held when it was opened.
        used_at: when it was closed; a number that grows with time.
    """

    number: int
    ids: list[int] = field(default_factory=list)
    num_read: int = 0
    num_beginning: int = 0
    is_open: bool = False
    num_held: int = 0
    used_at: int = 0


class Streams:
    """All streams of a model: as many and as long as texts have needed, a few more for what has ended.

    They are made when the first text comes. Where more or longer ones are needed, new ones are made and take
    over what the old ones hold; for that moment both are in memory.

    Args:
        budget_tokens: room in all streams.
        longest: tokens of the longest text.
        flash: whether attention is computed in the way that keeps no weights.

    Attributes:
        watches: whether attention will be read of texts that are opened from now on.
    """

    can_restore = False
    guessing_tokens = MOST_TOKENS + 1

    def __init__(self, weights: Weights, budget_tokens: int, longest: int, *, flash: bool = False) -> None:
        self._weights, self._budget_tokens, self._flash = weights, budget_tokens, flash
        self._longest, self.watches = _padded(longest), False
        self.bytes_per_token, self.can_share = weights.bytes_per_token, weights.can_go_back
        self.can_go_back = weights.can_go_back
        # Where nothing can be taken back, a pass that broke can't be tried again text by text.
        self.max_feeds = MOST_RUNNING if weights.can_go_back else 1
        self._size, self._streams, self._clock = 0, list[Stream](), count(1)
        self._context: Context | None = None
        self._can_move = weights.can_go_back
        self._copied = list[Stream]()  # llama.cpp copies what belongs into them with the next pass

    @property
    def num_reserved(self) -> int:
        return self._size * sum(stream.is_open for stream in self._streams)

    def reserved_with(self, num_tokens: int) -> int:
        num_open = sum(stream.is_open for stream in self._streams)
        return (num_open + 1) * self._size_for(num_tokens)

    def num_known(self, ids: Sequence[int]) -> int:
        return max((self._num_shared(stream, ids) for stream in self._streams), default=0)

    def open(self, num_tokens: int, ids: Sequence[int] = ()) -> Stream:
        size, num_open = self._size_for(num_tokens), sum(stream.is_open for stream in self._streams)
        if size > self._size or num_open == len(self._streams) or self.watches > self._made.watches:
            self._make(size, num_open + 1)
        stream = self._placed(ids)
        stream.is_open, stream.num_held, stream.num_beginning = True, len(stream.ids), len(ids)
        return stream

    def num_held(self, slot: Stream) -> int:
        return slot.num_held

    def close(self, slot: Stream) -> None:
        slot.is_open, slot.used_at = False, next(self._clock)

    def give_back(self) -> None:
        """Do nothing: the context keeps its size for the sake of the prefixes that its streams hold."""

    def restore(self, slot: Stream, blocks: Sequence[tuple[None, int]]) -> None:
        assert not blocks

    def save(self, slot: Stream, start: int, stop: int) -> None:
        raise AssertionError("nothing is saved of what can't be restored (can_restore)")

    def forget(self) -> None:
        """Hold nothing of texts that have ended."""
        for stream in self._streams:
            if not stream.is_open:
                self._cut(stream, 0)

    def forward(self, feeds: Sequence[Feed[Stream]]) -> list[Fed]:
        if self.can_go_back:
            feeds = [_of_several(feed) if _is_reading(feed) else feed for feed in feeds]
        found = dict[int, Fed]()
        for group in _groups(feeds):
            for number, fed in zip(group, self._together([feeds[number] for number in group]), strict=True):
                found[number] = fed
        return [found[number] for number in range(len(feeds))]

    def _together(self, feeds: Sequence[Feed[Stream]]) -> list[Fed]:
        """One pass over feeds of the same length in neighbouring streams; one long feed takes several."""
        *_, last = self._passes(feeds) if len(feeds) == 1 else (self._pass(feeds),)
        return last

    def _passes(self, feeds: Sequence[Feed[Stream]]) -> Iterator[list[Fed]]:
        (feed,) = feeds
        rows, first = list[Row](), 0
        while first < len(feed.ids):
            left = len(feed.ids) - first
            ids = feed.ids[first : first + (PASS_TOKENS if left != PASS_TOKENS + 1 else PASS_TOKENS - 1)]
            num_logits = min(len(ids), max(0, feed.num_logits - left + len(ids)))
            (fed,) = self._pass([Feed(feed.slot, feed.start + first, ids, num_logits, feed.wants_attention)])
            rows += fed.logits
            first += len(ids)
            yield [Fed(rows, fed.attention)]

    def _pass(self, feeds: Sequence[Feed[Stream]]) -> list[Fed]:
        for feed in feeds:
            self._cut(feed.slot, feed.start)
        streams, starts = [feed.slot.number for feed in feeds], [feed.start for feed in feeds]
        ids, num_logits = [feed.ids for feed in feeds], [feed.num_logits for feed in feeds]
        weights: NDArray[np.float32] | None = None
        try:
            if any(feed.wants_attention for feed in feeds):
                logits, weights = self._made.run_watched(streams, starts, ids, num_logits)
            else:
                logits = self._made.run(streams, starts, ids, num_logits)
        except BaseException:
            for feed in feeds:  # what llama.cpp has of this pass would be in the way of a second one
                self._made.cut(feed.slot.number, feed.start)
            raise
        self._copied.clear()
        for feed in feeds:
            feed.slot.ids += feed.ids
            if _is_reading(feed):
                feed.slot.num_read = len(feed.slot.ids)
        return [
            Fed([Row(each) for each in rows], _attention(feed, None if weights is None else weights[number]))
            for number, (feed, rows) in enumerate(zip(feeds, logits, strict=True))
        ]

    def _cut(self, stream: Stream, start: int) -> None:
        assert start <= len(stream.ids), "a gap"
        if start < len(stream.ids) or not start:
            self._made.cut(stream.number, start)
            del stream.ids[start:]
            stream.num_read = min(stream.num_read, start)

    @property
    def _made(self) -> Context:
        assert self._context is not None
        return self._context

    def _size_for(self, num_tokens: int) -> int:
        """The room that each stream needs if a text of so many tokens is to have one."""
        if num_tokens <= self._size:
            return self._size
        most = min(self._longest, self._budget_tokens // PADDING * PADDING)
        return max(_padded(num_tokens), min(-(-num_tokens // _STEP) * _STEP, most))

    def _make(self, size: int, num_needed: int) -> None:
        """Make streams of a size that hold what runs and, as far as there is room, what has ended.

        The old streams are freed once there are new ones, so that nothing is lost where memory runs out.

        Raises:
            RuntimeError: there is no memory, or what runs can't be moved, or not before the next pass.
        """
        at_work = [stream for stream in self._streams if stream.is_open]
        if not self._can_move and any(stream.ids for stream in at_work):
            raise RuntimeError("texts that run can't be moved: the new one waits for them to end")
        if any(stream.is_open for stream in self._copied):
            raise RuntimeError("a text that was just copied can't be moved: the new one waits for a pass")
        num_kept = _KEPT_TOKENS // size if self.can_share else 0
        if num_needed > len(self._streams) > 0:
            num_kept = max(num_kept, min(2 * len(self._streams), MOST_RUNNING))
        num_streams = min(max(num_needed, num_kept), MOST_STREAMS, self._budget_tokens // size)
        made = Context(self._weights, num_streams, size, watches=self.watches, flash=self._flash)
        ended = [each for each in self._streams if each.ids and not each.is_open and each not in self._copied]
        ended.sort(key=lambda stream: -stream.used_at)
        # The streams that run stay in their order, so that neighbours stay neighbours.
        kept = [*at_work, *(ended if self._can_move else [])][:num_streams]
        if not self._are_moved(kept, made):
            del made  # there may be no room for a third
            self._make(size, num_needed)
            return
        for number, stream in enumerate(kept):
            stream.number = number
        new = [Stream(number) for number in range(len(kept), num_streams)]
        self._context, self._streams, self._size, self._copied = made, [*kept, *new], size, []

    def _are_moved(self, streams: Sequence[Stream], target: Context) -> bool:
        """Let the first streams of a new context hold what `streams` hold; False if nothing can be moved."""
        try:
            for number, stream in enumerate(streams):
                if stream.ids:
                    target.take(number, self._made, stream.number)
        except RuntimeError:
            self._can_move = False
            return False
        return True

    def _num_shared(self, stream: Stream, ids: Sequence[int]) -> int:
        """How many tokens of a prefix a stream can share; one is left to be read together with the last."""
        if not self.can_share:
            return 0
        return _num_shared(stream.ids[: stream.num_read], ids[: max(0, len(ids) - 1)])

    def _placed(self, ids: Sequence[int]) -> Stream:
        """Place a text in a free stream that holds, or gets a copy of, as much of `ids` as is worth it.

        Texts are computed in one pass if their streams are neighbours: it is one beside those that run.
        """
        shared = {stream.number: self._num_shared(stream, ids) for stream in self._streams}
        at_work = [stream.number for stream in self._streams if stream.is_open]

        def distance(stream: Stream) -> int:
            return min((abs(stream.number - number) for number in at_work), default=0)

        free = [stream for stream in self._streams if not stream.is_open]
        nearest = min(map(distance, free))
        near = [stream for stream in free if distance(stream) == nearest]
        # The best is a stream most of which the text shares; then the one that was used least recently.
        target = max(near, key=lambda each: (2 * shared[each.number] > len(each.ids), -each.used_at))
        source = max(self._streams, key=lambda each: shared[each.number])
        num_held = shared[target.number]
        if shared[source.number] >= num_held + _WORTH_COPYING:
            self._made.copy(source.number, target.number)
            self._copied.append(target)
            target.ids, num_held = [*source.ids], shared[source.number]
            target.num_read = source.num_read
        self._cut(target, num_held)
        return target


def _groups(feeds: Sequence[Feed[Stream]]) -> Iterator[list[int]]:
    """Group the numbers of feeds that are computed in one pass: equally long, in neighbouring streams."""
    group = list[int]()
    for number in sorted(range(len(feeds)), key=lambda each: (len(feeds[each].ids), feeds[each].slot.number)):
        if group and not _go_together(feeds, group, number):
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def _go_together(feeds: Sequence[Feed[Stream]], group: Sequence[int], number: int) -> bool:
    last, this = feeds[group[-1]], feeds[number]
    return (
        len(this.ids) == len(last.ids) <= MOST_TOKENS + 1
        and this.slot.number == last.slot.number + 1
        and (len(group) + 1) * len(this.ids) <= PASS_TOKENS
    )


def _is_reading(feed: Feed[Stream]) -> bool:
    """Whether a feed is a part of a prompt: its last part begins where logits are first wanted, or before."""
    return feed.start <= feed.slot.num_beginning


def _of_several(feed: Feed[Stream]) -> Feed[Stream]:
    """Put the token before it in front of a feed that has only one."""
    if len(feed.ids) > 1 or not feed.start:
        return feed
    ids = (feed.slot.ids[feed.start - 1], *feed.ids)
    return Feed(feed.slot, feed.start - 1, ids, feed.num_logits, feed.wants_attention)


def _attention(feed: Feed[Stream], weights: NDArray[np.float32] | None) -> list[NDArray[np.float32]]:
    """The weights of each token of a feed, shape [heads, tokens]; in a stream, tokens lie in their order."""
    if weights is None or not feed.wants_attention:
        return []
    return [weights[:, place, : feed.start + place + 1] for place in range(len(feed.ids))]


def _padded(num_tokens: int) -> int:
    return -(-num_tokens // PADDING) * PADDING


def _num_shared(first: Sequence[int], second: Sequence[int]) -> int:
    """The length of the common prefix; compared in chunks, since this is asked often."""
    most, at = min(len(first), len(second)), 0
    while at < most and list(first[at : at + _CHUNK]) == list(second[at : at + _CHUNK]):
        at += _CHUNK
    while at < most and first[at] == second[at]:
        at += 1
    return min(at, most)
