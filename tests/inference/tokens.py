"""A backend and requests of plain numbers: what is written tells what was before."""

from collections.abc import Callable
from dataclasses import dataclass, field

from askance.inference.backend import StepOutput
from askance.inference.prefix_cache import PrefixCache

GUESSING_TOKENS = 16


class Slot(list):
    """As many tokens as there may be, of which the first `num_held` were there from the beginning."""

    num_held = 0


class Tokens:
    """A backend whose keys and values are the tokens themselves, and whose logits are all tokens before."""

    can_share, guessing_tokens = True, GUESSING_TOKENS

    def __init__(self, budget_tokens=1000):
        self.budget_tokens, self.cache = budget_tokens, PrefixCache()
        self.slots, self.passes, self.breaks_on = [], [], set()
        self.opens = True

    @property
    def num_reserved(self):
        return sum(map(len, self.slots))

    def reserved_with(self, num_tokens):
        return self.num_reserved + num_tokens

    def num_known(self, ids):
        return self.cache.find(ids)[1] if self.can_share else 0

    def open(self, num_tokens, ids=(), *, attention=False):
        self.check(self.opens)
        slot = Slot([None] * num_tokens)
        if self.can_share:
            block, slot.num_held = self.cache.find(ids)
            slot[: slot.num_held] = (block or ())[: slot.num_held]
        self.slots.append(slot)
        self.limit()
        return slot

    def keep(self, slot, ids):
        if self.can_share:
            self.cache.add(tuple(ids), tuple(slot[: len(ids)]))

    def close(self, slot):
        self.slots = [each for each in self.slots if each is not slot]
        self.limit()

    def forget(self):
        self.cache.clear()

    def limit(self):
        self.cache.limit(self.budget_tokens - self.num_reserved)

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
            fed.append(StepOutput(logits, logits if feed.wants_attention else ()))
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
