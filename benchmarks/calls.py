"""What a method's calls ask of a model at the least, whatever computes them."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.types import (
    Attention,
    Generation,
    Key,
    Prompt,
    Sampling,
    Scored,
    TokenIds,
    Until,
    Want,
    Watch,
)
from askance.core.wrapped import WrappedModel
from askance.models.local.model import LocalModel


@dataclass(frozen=True, slots=True)
class Call:
    """One call.

    Attributes:
        prompts: the token ids that were read.
        sampling: how texts were written after the first of them; none if nothing was written.
        lengths: tokens of each text that was written.
        began, ended: seconds.
    """

    prompts: Sequence[TokenIds]
    sampling: Sampling | None
    lengths: Sequence[int]
    began: float
    ended: float

    @property
    def num_passes(self) -> int:
        """One after the other: the first token comes from the pass that reads the end of the prompt."""
        return max((length - 1 for length in self.lengths), default=0)


class Calls(WrappedModel):
    """A model whose calls are noted."""

    def __init__(self, model: LocalModel) -> None:
        super().__init__(model)
        self._local = model
        self.made: list[Call] = []

    @property
    def num_prompt_tokens(self) -> int:
        """That differ: of prompts that begin alike, what they have in common counts once."""
        root: dict[int, object] = {}
        number = 0
        for call in self.made:
            for ids in call.prompts:
                node = root
                for id in ids:
                    if id not in node:
                        node[id] = {}
                        number += 1
                    node = node[id]  # type: ignore[assignment]
        return number

    @property
    def num_critical_passes(self) -> int:
        """That have to be made one after the other: a call waits for those that ended before it began."""
        until: list[tuple[float, int]] = []
        for call in sorted(self.made, key=lambda call: call.ended):
            before = max((number for ended, number in until if ended <= call.began), default=0)
            until.append((call.ended, before + call.num_passes))
        return max((number for _, number in until), default=0)

    @property
    def num_passes(self) -> int:
        """Of all texts, if none were computed together."""
        return sum(length - 1 for call in self.made for length in call.lengths if length)

    async def generate(
        self,
        prompt: Prompt,
        sampling: Sampling,
        want: Want = Want(),
        until: Until | None = None,
        *,
        n: int = 1,
        key: Key,
        watch: Watch | None = None,
    ) -> tuple[Generation, ...]:
        began = time.perf_counter()
        written = await self._model.generate(prompt, sampling, want, until, n=n, key=key, watch=watch)
        different = written if sampling.temperature else written[:1]
        lengths = [len(each.tokens) + len(each.dropped) for each in different]
        self.made.append(Call([written[0].prompt_ids], sampling, lengths, began, time.perf_counter()))
        return written

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        began = time.perf_counter()
        scored = await self._model.score(prompt, options)
        ids = self._local._encoding.prompt_ids(prompt)
        read = [(*ids, *self._local.tokenize(option)[:-1]) for option in options]
        self.made.append(Call(read, None, (), began, time.perf_counter()))
        return scored

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        began = time.perf_counter()
        attention = await self._model.attend(text, bos=bos)
        self.made.append(Call([attention.ids], None, (), began, time.perf_counter()))
        return attention
