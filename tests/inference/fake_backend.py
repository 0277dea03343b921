"""A fake backend and fake requests over plain numbers: each token depends on all tokens before it."""

from dataclasses import dataclass, field

from askance.inference.backend import StepOutput
from askance.inference.prefix_cache import PrefixCache


class FakeSlot(list):
    """A slot whose keys and values are the tokens; the first `num_cached_tokens` come from the cache."""

    num_cached_tokens = 0


class FakeBackend:
    """A backend whose keys and values are the tokens themselves, and whose logits are all tokens before."""

    can_batch = True

    def __init__(self, budget_tokens=1000):
        self.budget_tokens, self.cache = budget_tokens, PrefixCache()
        self.slots, self.passes, self.breaks_on = [], [], set()
        self.opens = True

    @property
    def num_reserved(self):
        return sum(map(len, self.slots))

    def reserved_tokens_with(self, num_tokens):
        return self.num_reserved + num_tokens

    def num_cached_tokens(self, ids):
        return self.cache.find(ids)[1] if self.can_batch else 0

    def open(self, num_tokens, ids=(), *, attention=False):
        self.check(self.opens)
        slot = FakeSlot([None] * num_tokens)
        if self.can_batch:
            block, slot.num_cached_tokens = self.cache.find(ids)
            slot[: slot.num_cached_tokens] = (block or ())[: slot.num_cached_tokens]
        self.slots.append(slot)
        self.limit()
        return slot

    def cache_prefix(self, slot, ids):
        if self.can_batch:
            self.cache.add(tuple(ids), tuple(slot[: len(ids)]))

    def close(self, slot):
        self.slots = [each for each in self.slots if each is not slot]
        self.limit()

    def clear_cache(self):
        self.cache.clear()

    def limit(self):
        self.cache.limit(self.budget_tokens - self.num_reserved)

    def check(self, works):
        if not works:
            raise RuntimeError("out of memory")

    def forward(self, inputs):
        if any(id in self.breaks_on for step_input in inputs for id in step_input.ids):
            raise RuntimeError("out of order")
        self.passes.append([len(step_input.ids) for step_input in inputs])
        output = []
        for step_input in inputs:
            stop = step_input.start + len(step_input.ids)
            step_input.slot[step_input.start : stop] = step_input.ids
            logits = [
                tuple(step_input.slot[: stop - back]) for back in reversed(range(step_input.num_logits))
            ]
            output.append(StepOutput(logits, logits[-1] if step_input.wants_attention else None))
        return output


def next_id(before):
    return (sum(before) * 31 + len(before)) % 97 + 3


@dataclass(eq=False)
class FakeRequest:
    """A request that appends `num_new` tokens to its prompt."""

    prompt: tuple
    num_new: int = 3
    num_logits: int = 1
    wants_attention: bool = False
    is_abandoned: bool = False
    written: list = field(default_factory=list)
    ends: list = field(default_factory=list)
    num_cached: int = 0

    def __post_init__(self):
        self.ids, self.max_tokens = list(self.prompt), len(self.prompt) + self.num_new

    @property
    def is_done(self):
        return len(self.written) == self.num_new

    def take(self, output, num_cached):
        assert output.logits[-1] == tuple(self.ids), "keys and values of other tokens"
        assert output.attention == (tuple(self.ids) if self.wants_attention and self.written else None)
        self.num_cached = num_cached
        self.written.append(next_id(output.logits[-1]))
        self.ids.append(self.written[-1])
        return not self.is_done
