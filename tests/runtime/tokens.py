"""A backend and requests of plain numbers: what is written tells what was before."""

from collections.abc import Callable
from dataclasses import dataclass, field

from askance.runtime.backend import Fed

GUESSING_TOKENS = 16


class Tokens:
    """A backend whose keys and values are the tokens themselves, and whose logits are all tokens before."""

    bytes_per_token, can_restore, can_go_back, max_feeds = 10, True, True, 100
    can_share, guessing_tokens = False, GUESSING_TOKENS

    def __init__(self):
        self.slots, self.passes, self.breaks_on = [], [], set()
        self.opens = self.restores = self.saves = True

    @property
    def num_reserved(self):
        return sum(map(len, self.slots))

    def reserved_with(self, num_tokens):
        return self.num_reserved + num_tokens

    def num_known(self, ids):
        return 0

    def num_held(self, slot):
        return 0

    def open(self, num_tokens, ids=(), *, attention=False):
        self.check(self.opens)
        slot = [None] * num_tokens
        self.slots.append(slot)
        return slot

    def close(self, slot):
        self.slots = [each for each in self.slots if each is not slot]

    def give_back(self):
        pass

    def restore(self, slot, blocks):
        self.check(self.restores)
        slot[: sum(count for _, count in blocks)] = [id for block, count in blocks for id in block[:count]]

    def save(self, slot, start, stop):
        self.check(self.saves)
        return tuple(slot[start:stop])

    def check(self, works):
        if not works:
            raise RuntimeError("out of memory")

    def forward(self, feeds):
        if any(id in self.breaks_on for feed in feeds for id in feed.ids):
            raise RuntimeError("out of order")
        self.passes.append([len(feed.ids) for feed in feeds])
        fed = []
        for feed in feeds:
            stop = feed.start + len(feed.ids)
            feed.slot[feed.start : stop] = feed.ids
            logits = [tuple(feed.slot[: stop - back]) for back in reversed(range(feed.num_logits))]
            fed.append(Fed(logits, logits if feed.wants_attention else ()))
        return fed


def next_id(before):
    return (sum(before) * 31 + len(before)) % 97 + 3


def next_in_circles(before):
    """One of few, by the last two: soon it begins anew."""
    return (sum(before[-2:]) * 31) % 5 + 3


@dataclass(eq=False)
class Asked:
    """Writes `num_new` tokens behind its prompt, each by a rule."""

    prompt: tuple
    num_new: int = 3
    num_logits: int = 1
    wants_attention: bool = False
    is_abandoned: bool = False
    written: list = field(default_factory=list)
    ends: list = field(default_factory=list)
    num_reused: int = 0
    rule: Callable = next_id

    def __post_init__(self):
        self.ids, self.max_tokens = list(self.prompt), len(self.prompt) + self.num_new

    @property
    def is_done(self):
        return len(self.written) == self.num_new

    def take(self, fed, num_reused):
        assert fed.logits[-1] == tuple(self.ids), "keys and values of other tokens"
        assert [*fed.attention] == [tuple(self.ids)] * (self.wants_attention and bool(self.written))
        self.num_reused = num_reused
        self.written.append(self.rule(fed.logits[-1]))
        self.ids.append(self.written[-1])
        return not self.is_done
