"""How many tokens the calls of methods need: what no runtime can do without."""

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
    """A tree of all texts that calls were about: a token counts once behind the same tokens.

    What a generation needs ends with the token at which its own rule stops it, which is not fed any more. A
    pass that is asked for by itself needs all of its tokens.
    """

    def __init__(self) -> None:
        self._tree = TextTree()
        self.num_unique = self.num_generated = self.num_attended = 0

    @property
    def num_tokens(self) -> int:
        """All that have to go through the layers."""
        return self.num_unique + self.num_attended

    def generate(self, generation: Generation) -> None:
        """A prompt and what was written after it."""
        written = [token.id for token in (*generation.tokens, *generation.dropped)]
        self.num_generated += len(written)
        self._add((*generation.prompt_ids, *written[:-1]))

    def score(self, prompt_ids: Sequence[int], options: Sequence[Sequence[int]]) -> None:
        """Options after a prompt; their last tokens are not fed."""
        for option in options:
            self._add((*prompt_ids, *option[:-1]))

    def attend(self, ids: Sequence[int]) -> None:
        """A pass of its own."""
        self.num_attended += len(ids)

    def _add(self, ids: Sequence[int]) -> None:
        self.num_unique += self._tree.add(ids)


class Noted(WrappedModel):
    """A model whose calls' needs are added up."""

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
