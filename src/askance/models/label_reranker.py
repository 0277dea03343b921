"""A language model as a reranker: the probability that it answers Yes to whether a passage has the answer."""

import asyncio
from collections.abc import Sequence

from askance.core.errors import MissingAbility
from askance.core.ports import Model
from askance.core.token_ledger import most_that_fit
from askance.core.types import Chat, Passage, Prompt, Raw, Span, Turn, untrusted
from askance.methods.common.prompts import label_options, label_probabilities, passage_text

LABELS = ("Yes", "No")
INSTRUCTION = "Does the passage answer the question? Reply Yes or No."
_PROMPT_VERSION = 1
"""Increase this number with every change of the prompt, so that cached results are not reused."""


class LabelReranker:
    """A `Reranker` that asks a language model about one passage at a time.

    The score of a passage is P(Yes) / (P(Yes) + P(No)), between 0 and 1. A passage for which the context
    window has no room is truncated at the end. The calls count in no budget and no trace.

    Raises:
        MissingAbility: The model can't score options.
    """

    def __init__(self, model: Model) -> None:
        if "score" not in model.capabilities:
            raise MissingAbility(
                f"{model.name} can't rerank passages, because it does not report the probabilities of given "
                "replies: name another model, or rerank with bundled."
            )
        self._model = model
        self.name = f"the probability of Yes by {model.name}"
        version = f"Yes or No {_PROMPT_VERSION}"
        self.fingerprint = f"{version}, {model.fingerprint}" if model.fingerprint else ""

    async def score(self, query: str, passages: Sequence[Passage]) -> list[float]:
        """Return the probability of Yes for each passage.

        Raises:
            ModelFailure: The model failed.
        """
        prompts = [await self._fitting_prompt(query, passage_text(passage)) for passage in passages]
        found = await asyncio.gather(*(label_probabilities(self._model, each, LABELS) for each in prompts))
        return [probability for probability, _ in found]

    async def _fitting_prompt(self, query: str, text: str) -> Prompt:
        """Return the prompt with as much of the passage as the context window has room for."""
        model, labels = self._model, label_options(self._prompt(query, ""), LABELS)
        room = model.context_tokens - max(len(model.tokenize(label)) for label in labels)

        async def fits(num_characters: int) -> bool:
            return await model.count(self._prompt(query, text[:num_characters])) <= room

        return self._prompt(query, text[: await most_that_fit(len(text), fits) or 0])

    def _prompt(self, query: str, text: str) -> Prompt:
        """Return the prompt, whose beginning is the same for all passages of a query."""
        asked = (Span(f"{INSTRUCTION}\n\nQuestion: "), untrusted(" ".join(query.split())))
        spans = (*asked, Span("\nPassage: "), untrusted(text))
        if "chat" in self._model.capabilities:
            return Chat((Turn("user", spans),))
        return Raw((*spans, Span("\nReply:")))
