"""Count the tokens that the model calls of methods need, which is a lower bound for every runtime."""

from collections.abc import Sequence

from askance.core.ports import Model, WrappedModel
from askance.core.types import (
    Attention,
    GenerateRequest,
    Generation,
    Prompt,
    Scored,
    TokenIds,
)
from askance.models.hf import HfModel
from benchmarks.work import TextTree


class Needed:
    """A counter of the tokens that model calls need.

    The tokens of a prefix that several texts share count once. The last token of a generation does not count,
    because it is not fed to the model. All tokens of a separate attention pass count.
    """

    def __init__(self) -> None:
        self._tree = TextTree()
        self.num_unique = self.num_attended = 0

    @property
    def num_tokens(self) -> int:
        """The number of tokens for which the model's layers have to be computed."""
        return self.num_unique + self.num_attended

    def generate(self, generation: Generation) -> None:
        """Count the tokens of a prompt and of the text generated after it."""
        written = [token.id for token in (*generation.tokens, *generation.dropped)]
        self._add((*generation.prompt_ids, *written[:-1]))

    def score(self, prompt_ids: Sequence[int], options: Sequence[Sequence[int]]) -> None:
        """Count the tokens of a prompt and of the options scored after it.

        The last token of each option does not count, because it is not fed to the model.
        """
        for option in options:
            self._add((*prompt_ids, *option[:-1]))

    def attend(self, ids: Sequence[int]) -> None:
        """Count the tokens of a separate attention pass."""
        self.num_attended += len(ids)

    def _add(self, ids: Sequence[int]) -> None:
        self.num_unique += self._tree.add(ids)


class Noted(WrappedModel):
    """A model wrapper that counts the tokens that the calls need."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.needed = Needed()

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        generations = await self._model.generate(request)
        for generation in generations:
            self.needed.generate(generation)
        return generations

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        scores = await self._model.score(prompt, options)
        assert isinstance(self._model, HfModel)
        prompt_ids = self._model._encoding.encode(prompt)
        self.needed.score(prompt_ids, [self._model.tokenize(option) for option in options])
        return scores

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        attention = await self._model.attend(text, bos=bos)
        self.needed.attend(attention.ids)
        return attention
