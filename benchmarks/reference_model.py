"""A model that computes as the DRAGIN authors' code does, as a reference for the runtime.

Every call computes its whole prompt again with the `generate` function of transformers, and generates as many
tokens as are allowed before it inspects any of them. A separate pass computes attention, with the matrices of
all layers. Questions are asked one by one. This module was written from a description of the authors'
procedure, not from their code.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from askance.core.ports import WrappedModel
from askance.core.types import (
    Attention,
    Capability,
    GenerateRequest,
    Generation,
    Prompt,
    Raw,
    Scored,
    Signal,
    Token,
    TokenIds,
    Want,
    untrusted,
)
from askance.inference.stopping import StopTracker
from askance.inference.vocabulary import IncrementalDetokenizer
from askance.models.hf import HfModel

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Written:
    """A generated token with its log-probability and its entropy, in nats."""

    id: int
    logprob: float
    entropy: float

    @classmethod
    def of(cls, token_id: int, logits: torch.Tensor) -> "_Written":
        """Return a token with the signals computed from its logits, which have the shape [1, vocabulary]."""
        logprobs = torch.log_softmax(logits[0].float(), dim=-1)
        entropy = torch.special.entr(logprobs.exp()).sum().item()
        return cls(token_id, logprobs[token_id].item(), entropy)


class ReferenceModel(WrappedModel):
    """A `Model` that decodes greedily with the module of another model.

    Args:
        model: The other model, which supplies the tokenizer and the layout of prompts.
        module: A transformers module with the same weights and with eager attention.

    Attributes:
        num_computed: The number of tokens that went through all layers.
    """

    _model: HfModel
    name, fingerprint, precision = "reference", "", "float32"
    signals: frozenset[Signal] = frozenset({"logprob", "entropy"})
    capabilities: frozenset[Capability] = frozenset({"raw", "continuation", "attend", "chat"})

    def __init__(self, model: HfModel, module: Any) -> None:
        super().__init__(model)
        self._module, self.num_computed = module, 0

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        prompt, sampling = request.prompt, request.sampling
        assert request.n == 1
        assert sampling.temperature == 0
        ids = self._model._encoding.encode(prompt)
        written = await self._alone(lambda: self._written(ids, sampling.max_tokens))
        self.num_computed += len(ids) + len(written) - 1
        writing = StopTracker(request)
        detokeniser = IncrementalDetokenizer(self._model._vocabulary, ids)
        for each in written:
            self._append(writing, detokeniser, each, request.want)
            if writing.is_finished:
                break
        return (writing.generation(ids, len(ids), 0),)

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        raise NotImplementedError("no measured method scores")

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        prompt = Raw((untrusted(text) if isinstance(text, str) else text,))
        ids, texts = self._model._encoding.encode_with_texts(prompt, bos=bos)
        self.num_computed += len(ids)
        weights = await self._alone(lambda: self._attended(ids))
        return Attention(ids, texts, weights)

    async def _alone(self, work: Callable[[], T]) -> T:
        """Run `work` in the other model's thread, and return its result.

        In another thread, OpenMP would start a second team of threads, and the two teams would slow each
        other down. Even the operations on one token's logits are large enough to start a team.
        """
        return await self._model._engine.run_exclusively(work)

    def _attended(self, ids: TokenIds) -> NDArray[np.float32]:
        with torch.inference_mode():
            output = self._module(torch.tensor([ids]), output_attentions=True, use_cache=False)
        weights: NDArray[np.float32] = output.attentions[-1][0].numpy()
        return weights

    def _written(self, ids: TokenIds, max_tokens: int) -> list["_Written"]:
        tensor = torch.tensor([ids])
        with torch.inference_mode():
            output = self._module.generate(
                input_ids=tensor,
                attention_mask=torch.ones_like(tensor),
                max_new_tokens=max_tokens,
                do_sample=False,
                return_dict_in_generate=True,
                output_scores=True,
            )
            written = output.sequences[0, len(ids) :].tolist()
            return [_Written.of(*each) for each in zip(written, output.scores, strict=True)]

    def _append(
        self, writing: StopTracker, detokeniser: IncrementalDetokenizer, written: "_Written", want: Want
    ) -> None:
        is_end = written.id in self._model._vocabulary.end_ids
        text = "" if is_end else detokeniser.add(written.id)
        start = writing.tokens[-1].end if writing.tokens else 0
        logprob = written.logprob if want.logprob else None
        entropy = written.entropy if want.entropy else None
        token = Token(written.id, text, start, start + len(text), logprob, entropy)
        writing.end(token) if is_end else writing.add(token)
