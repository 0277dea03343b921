"""Continuous batching by llama.cpp: the `Backend` of a `Batch`.

Each text has a stream of the KV cache to itself; in a stream that all texts shared, every token would look
through the cells of all of them. A free stream still holds its last text, and the next text with the same
prefix continues from it. When another text takes the stream, its prompt goes into a prefix cache.

Llama.cpp adds the numbers of one token up in another order than those of several, and it computes in 8 bits,
which makes much of the least difference. A text has to get the same numbers in any company and with any part
of it cached: so prompts are always read by at least two tokens at a time, and tokens that were decoded one by
one are not shared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

import numpy as np
from numpy.typing import NDArray

from askance.core.types import TokenIds
from askance.inference.backend import StepInput, StepOutput
from askance.inference.prefix_cache import PrefixCache, num_shared
from askance.models.llama_cpp.context import PADDING, PASS_TOKENS, Context, SavedState
from askance.models.llama_cpp.signals import LlamaLogits
from askance.models.llama_cpp.weights import Weights

MOST_RUNNING = 8
"""Texts that are computed at a time: with more of them, a few cores hardly compute more tokens a second."""
KEPT_TOKENS = 4096
"""The room in the prefix cache, as long as the texts that run need no more."""
_STEP = 2 * PADDING
"""Streams grow by a multiple of so many tokens, so that not every slightly longer text moves them."""
_WORTH_SAVING = 16
"""Shorter parts of prompts are neither saved nor restored: they are read in about the same time."""
_TOGETHER = 4
"""Parts of texts are computed in one pass if they have no more tokens each."""
_READ_TOKENS = 128
"""The tokens of a prompt that are read in one pass, where attention keeps its weights: those of a longer one
do not fit into the processor's cache."""


@dataclass(slots=True, eq=False)
class Stream:
    """One stream.

    Attributes:
        number: the number that llama.cpp knows it by.
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


Saved = tuple[TokenIds, SavedState]
"""A prompt with its keys and values."""


class Streams:
    """All streams of a model: as many and as long as texts have needed.

    They are made when the first text comes. Where more or longer ones are needed, new ones are made and take
    over the texts that run; for that moment both are in memory. Keys and values that llama.cpp does not save
    whole (`Weights.can_be_saved`) can't be taken over: there a new text waits for those that run, and nothing
    goes into the prefix cache.

    Args:
        budget_tokens: room in all streams and in the prefix cache.
        longest: tokens of the longest text.
        flash: whether attention is computed in the way that keeps no weights.
    """

    # Llama.cpp computes several tokens a little otherwise than one: numbers would depend on guesses.
    guessing_tokens = 0

    def __init__(self, weights: Weights, budget_tokens: int, longest: int, *, flash: bool = False) -> None:
        self._weights, self.budget_tokens, self._flash = weights, budget_tokens, flash
        self._longest, self._watches = _padded(longest), False
        # Where nothing can be taken back, a pass that broke can't be tried again text by text.
        self.can_share = weights.can_go_back
        self._size, self._streams, self._clock = 0, list[Stream](), count(1)
        self._context: Context | None = None
        self._can_save = self._can_move = weights.can_be_saved
        self._has_kept_waiting = False
        self._cache: PrefixCache[Saved] = PrefixCache()

    def reserved_with(self, num_tokens: int) -> int:
        num_open = sum(stream.is_open for stream in self._streams)
        return (num_open + 1) * self._size_for(num_tokens)

    def num_known(self, ids: Sequence[int]) -> int:
        held, _, num_saved = self._known(ids)
        return max((num_saved, *held))

    def open(self, num_tokens: int, ids: Sequence[int] = (), *, attention: bool = False) -> Stream:
        self._watches |= attention
        size, num_open = self._size_for(num_tokens), sum(stream.is_open for stream in self._streams)
        # Where nothing can be moved, the time to make streams for all is while no text runs.
        num_needed = MOST_RUNNING if self._has_kept_waiting and not num_open else num_open + 1
        if size > self._size or num_needed > len(self._streams) or self._watches > self._made.watches:
            self._make(size, num_needed)
        stream = self._placed(ids)
        stream.is_open, stream.num_held, stream.num_beginning = True, len(stream.ids), len(ids)
        return stream

    def keep(self, slot: Stream, ids: Sequence[int]) -> None:
        """Do nothing: a stream holds its text until another one takes it."""

    def close(self, slot: Stream) -> None:
        slot.is_open, slot.used_at = False, next(self._clock)

    def forget(self) -> None:
        self._cache.clear()
        for stream in self._streams:
            if not stream.is_open:
                self._cut(stream, 0)

    def forward(self, feeds: Sequence[StepInput[Stream]]) -> list[StepOutput]:
        if self.can_share:
            feeds = [_of_several(feed) if _is_reading(feed) else feed for feed in feeds]
        found = dict[int, StepOutput]()
        for group in _groups(feeds):
            for feed, fed in zip(group, self._together(group), strict=True):
                found[feed.slot.number] = fed
        return [found[feed.slot.number] for feed in feeds]

    def _together(self, feeds: Sequence[StepInput[Stream]]) -> list[StepOutput]:
        """One pass over feeds of the same length in neighbouring streams; one long feed takes several."""
        if len(feeds) > 1:
            return self._pass(feeds)
        (feed,) = feeds
        rows, fed = list[LlamaLogits](), StepOutput(())
        for first, stop in pairwise(self._cuts(len(feed.ids))):
            ids, num_behind = feed.ids[first:stop], len(feed.ids) - stop
            num_logits = min(len(ids), max(0, feed.num_logits - num_behind))
            (fed,) = self._pass(
                [StepInput(feed.slot, feed.start + first, ids, num_logits, feed.wants_attention)]
            )
            rows += fed.logits
        return [StepOutput(rows, fed.attention)]

    def _cuts(self, num_tokens: int) -> Sequence[int]:
        """Where a feed is divided into passes; none has a single token, unless the feed has only one."""
        most = PASS_TOKENS if self._flash else _READ_TOKENS
        cuts = [*range(0, num_tokens, most), num_tokens]
        if len(cuts) > 2 and cuts[-1] - cuts[-2] == 1:
            cuts[-2] -= 1
        return cuts

    def _pass(self, feeds: Sequence[StepInput[Stream]]) -> list[StepOutput]:
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
        for feed in feeds:
            feed.slot.ids += feed.ids
            if _is_reading(feed):
                feed.slot.num_read = len(feed.slot.ids)
        return [
            StepOutput(
                [LlamaLogits(each) for each in rows],
                _attention(feed, None if weights is None else weights[number]),
            )
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
        most = min(self._longest, self.budget_tokens // PADDING * PADDING)
        return max(_padded(num_tokens), min(-(-num_tokens // _STEP) * _STEP, most))

    def _make(self, size: int, num_needed: int) -> None:
        """Make streams of a size that hold what runs; what has ended goes into the prefix cache.

        The old streams are freed once there are new ones, so that nothing is lost where memory runs out.

        Raises:
            RuntimeError: there is no memory, or what runs can't be moved.
        """
        at_work = [stream for stream in self._streams if stream.is_open]
        if not self._can_move and any(stream.ids for stream in at_work):
            self._has_kept_waiting = self.can_share  # others are computed one after the other in any case
            raise RuntimeError("texts that run can't be moved: the new one waits for them to end")
        num_streams = num_needed
        if num_needed > len(self._streams) > 0:
            num_streams = max(num_needed, min(2 * len(self._streams), MOST_RUNNING))
        num_streams = min(num_streams, self.budget_tokens // size)
        made = Context(self._weights, num_streams, size, watches=self._watches, flash=self._flash)
        self._move(at_work, made)
        self._cache.limit(min(KEPT_TOKENS, self.budget_tokens - made.num_streams * size))
        for stream in sorted(self._streams, key=lambda each: each.used_at):
            if not stream.is_open:
                self._save(stream, 0)
        # The streams that run stay in their order, so that neighbours stay neighbours.
        for number, stream in enumerate(at_work):
            stream.number = number
        new = [Stream(number) for number in range(len(at_work), made.num_streams)]
        self._context, self._streams, self._size = made, [*at_work, *new], size
        self._has_kept_waiting = False

    def _move(self, streams: Sequence[Stream], target: Context) -> None:
        """Let the first streams of a new context hold what `streams` hold."""
        try:
            for number, stream in enumerate(streams):
                if stream.ids:
                    target.restore(number, self._made.save(stream.number))
        except RuntimeError:
            self._can_move = False
            self._cache.clear()
            raise

    def _placed(self, ids: Sequence[int]) -> Stream:
        """Place a text in a free stream, and let that hold as much of `ids` as is held anywhere.

        Texts are computed in one pass if their streams are neighbours: it is one beside those that run. Of
        those, it is the stream that holds most of the prefix, then the one that was used least recently.
        """
        at_work = [stream.number for stream in self._streams if stream.is_open]

        def distance(stream: Stream) -> int:
            return min((abs(stream.number - number) for number in at_work), default=0)

        free = [stream for stream in self._streams if not stream.is_open]
        nearest = min(map(distance, free))
        near = [stream for stream in free if distance(stream) == nearest]
        held, saved, num_saved = self._known(ids)
        target = max(near, key=lambda each: (held[each.number], -each.used_at))
        source = max(self._streams, key=lambda each: held[each.number])
        num_held = held[target.number]
        least = num_held + _WORTH_SAVING
        if held[source.number] > num_saved:
            num_saved = held[source.number]
            saved = self._saved(source) if num_saved >= least else None
        if saved is None or num_saved < least:
            self._save(target, num_held)
        else:
            self._save(target, 0)
            num_held = num_saved if self._is_restored(*saved, target) else 0
        self._cut(target, num_held)
        return target

    def _known(self, ids: Sequence[int]) -> tuple[list[int], Saved | None, int]:
        """How much of a prefix each stream holds, what the prefix cache has of it, and how much that is.

        One token is left to be read together with the last. Only what was read as a prompt is shared.
        """
        if not self.can_share:
            return [0] * len(self._streams), None, 0
        prefix = ids[: max(0, len(ids) - 1)]
        held = [num_shared(stream.ids[: stream.num_read], prefix) for stream in self._streams]
        return held, *self._cache.find(prefix)

    def _save(self, stream: Stream, num_staying: int) -> None:
        """Put the prompt of a text that has ended into the prefix cache.

        It is not worth it where hardly more of the prompt would be lost than what stays in the stream or is
        in the cache.
        """
        num_read = stream.num_read
        if not (self._can_save and num_staying + _WORTH_SAVING <= num_read <= self._cache.max_tokens):
            return
        if num_read >= self._cache.find(stream.ids[:num_read])[1] + _WORTH_SAVING:
            self._cut(stream, num_read)
            saved = self._saved(stream)
            if saved is not None:
                self._cache.add(saved[0], saved)

    def _saved(self, stream: Stream) -> Saved | None:
        """What a stream holds; None where that can't be copied, which is slower and no more than that."""
        if not self._can_save:
            return None
        try:
            return (*stream.ids,), self._made.save(stream.number)
        except (RuntimeError, MemoryError):
            return None

    def _is_restored(self, ids: TokenIds, state: SavedState, target: Stream) -> bool:
        """Let a stream hold what was saved; False, and nothing in it, where that can't be done."""
        self._cut(target, 0)
        try:
            self._made.restore(target.number, state)
        except (RuntimeError, MemoryError):  # it was saved with another number of streams, and can't be moved
            self._cache.drop(ids)
            self._made.cut(target.number, 0)
            return False
        target.ids, target.num_read = [*ids], len(ids)
        return True


def _groups(feeds: Sequence[StepInput[Stream]]) -> Iterator[list[StepInput[Stream]]]:
    """Group feeds that are computed in one pass: few tokens each, equally many, in neighbouring streams."""
    group = list[StepInput[Stream]]()
    for feed in sorted(feeds, key=lambda each: (len(each.ids), each.slot.number)):
        if group and not _go_together(group[-1], feed):
            yield group
            group = []
        group.append(feed)
    yield group


def _go_together(last: StepInput[Stream], this: StepInput[Stream]) -> bool:
    is_next = this.slot.number == last.slot.number + 1
    return is_next and len(this.ids) == len(last.ids) <= _TOGETHER


def _is_reading(feed: StepInput[Stream]) -> bool:
    """Whether a feed is a part of a prompt: its last part begins where logits are first wanted, or before."""
    return feed.start <= feed.slot.num_beginning


def _of_several(feed: StepInput[Stream]) -> StepInput[Stream]:
    """Put the token before it in front of a feed that has only one."""
    if len(feed.ids) > 1 or not feed.start:
        return feed
    ids = (feed.slot.ids[feed.start - 1], *feed.ids)
    return StepInput(feed.slot, feed.start - 1, ids, feed.num_logits, feed.wants_attention)


def _attention(feed: StepInput[Stream], weights: NDArray[np.float32] | None) -> list[NDArray[np.float32]]:
    """The weights of each token of a feed, shape [heads, tokens]; in a stream, tokens lie in their order."""
    if weights is None or not feed.wants_attention:
        return []
    return [weights[:, place, : feed.start + place + 1] for place in range(len(feed.ids))]


def _padded(num_tokens: int) -> int:
    return -(-num_tokens // PADDING) * PADDING
