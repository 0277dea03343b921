"""The calls that a method makes of its model, and the least work that they need on any runtime."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from askance.core.ports import Model, WrappedModel
from askance.core.types import (
    Attention,
    GenerateRequest,
    Generation,
    Prompt,
    Sampling,
    Scored,
    TokenIds,
)
from askance.models.local.model import LocalModel
from benchmarks.setup import ASKED


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a model.

    Attributes:
        question: The id of the question that the call was made for.
        written: The token ids of each text that was generated after the first prompt.
        sampling: The sampling of these texts; None if there are none.
        began, ended: The times of the call, in seconds.
        is_separate: Whether the call is a separate attention pass, which shares no prefix with other texts.
    """

    question: str
    prompts: Sequence[TokenIds]
    written: Sequence[TokenIds]
    sampling: Sampling | None
    began: float
    ended: float
    is_separate: bool = False

    @property
    def num_passes(self) -> int:
        """The number of sequential passes, without the prompt's last pass, which yields the first token."""
        return max((len(ids) - 1 for ids in self.written if ids), default=0)


class TextTree:
    """A tree of texts as token ids, in which common prefixes are stored once."""

    def __init__(self) -> None:
        self._root: dict[int, object] = {}

    def add(self, ids: Sequence[int]) -> int:
        """Add a text, and return how many of its tokens no earlier text has after the same prefix."""
        node, number = self._root, 0
        for id in ids:
            if id not in node:
                node[id] = {}
                number += 1
            node = node[id]  # type: ignore[assignment]
        return number


@dataclass(frozen=True, slots=True)
class Work:
    """The work that calls need.

    Attributes:
        prompt_tokens: The number of prompt tokens to compute. A prefix that an earlier prompt or generated
            text has too does not count, because its keys and values are already computed.
        critical_passes: The number of passes that must run one after another.
        passes: The number of passes if no two texts shared a pass.
        depth: The mean number of tokens before a generated token.
    """

    prompt_tokens: int
    critical_passes: int
    passes: int
    depth: float

    @classmethod
    def of(cls, calls: Sequence[Call]) -> "Work":
        """Return the work that calls need if they start from an empty cache.

        Args:
            calls: The calls, in the order in which they ended.
        """
        tree, prompt_tokens, passes, before = TextTree(), 0, 0, 0.0
        for call in calls:
            prompt_tokens += sum(map(tree.add, call.prompts))
            for ids in filter(None, call.written):
                tree.add((*call.prompts[0], *ids[:-1]))  # the last token is not fed to the model
                passes += len(ids) - 1
                before += (len(ids) - 1) * (len(call.prompts[0]) + len(ids) / 2)
        questions = {call.question for call in calls}
        critical = (_critical([each for each in calls if each.question == one]) for one in questions)
        return cls(prompt_tokens, max(critical, default=0), passes, before / max(1, passes))

    @property
    def num_texts(self) -> float:
        """The mean number of texts that are generated at the same time."""
        return self.passes / max(1, self.critical_passes)


def needed_tokens(calls: Sequence[Call]) -> tuple[int, int]:
    """Return the numbers of tokens that calls need to compute for texts, and for separate attention passes.

    The tokens of a prefix that several texts share count once. The last token of a generated text does not
    count, because it is not fed to the model.
    """
    tree, separate, texts = TextTree(), 0, 0
    for call in calls:
        if call.is_separate:
            separate += sum(map(len, call.prompts))
            continue
        texts += sum(map(tree.add, call.prompts))
        texts += sum(tree.add((*call.prompts[0], *ids[:-1])) for ids in call.written)
    return texts, separate


def _critical(calls: Sequence[Call]) -> int:
    """Return the number of passes in the longest chain of calls for one question that do not overlap in time.

    The real dependencies between calls are unknown, so a chain may contain independent calls by chance.
    """
    until: list[tuple[float, int]] = []
    for call in calls:
        before = max((number for ended, number in until if ended <= call.began), default=0)
        until.append((call.ended, before + call.num_passes))
    return max((number for _, number in until), default=0)


class Calls(WrappedModel):
    """A model that records its calls.

    Attributes:
        made: The calls, in the order in which they ended.
    """

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.made: list[Call] = []

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        began = time.perf_counter()
        written = await self._model.generate(request)
        different = written if request.sampling.temperature else written[:1]
        texts = [tuple(token.id for token in (*each.tokens, *each.dropped)) for each in different]
        self._note([written[0].prompt_ids], began, texts, request.sampling)
        return written

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        began = time.perf_counter()
        scored = await self._model.score(prompt, options)
        assert isinstance(self._model, LocalModel)
        ids = self._model._encoding.encode(prompt)
        self._note([(*ids, *self._model.tokenize(option)[:-1]) for option in options], began)
        return scored

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        began = time.perf_counter()
        attention = await self._model.attend(text, bos=bos)
        self._note([attention.ids], began, is_separate=True)
        return attention

    def _note(
        self,
        prompts: Sequence[TokenIds],
        began: float,
        written: Sequence[TokenIds] = (),
        sampling: Sampling | None = None,
        *,
        is_separate: bool = False,
    ) -> None:
        ended = time.perf_counter()
        self.made.append(Call(ASKED.get(), prompts, written, sampling, began, ended, is_separate))
