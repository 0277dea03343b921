"""The adapter of the `Model` port for chat models of LangChain.

The adapter itself imports nothing of LangChain: the module that the specification names does.
"""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from askance.core.concurrency import gather_or_cancel
from askance.core.errors import MissingAbility, ModelSpecError, PromptTooLong
from askance.core.extensions import load_langchain_object
from askance.core.types import (
    Attention,
    Capability,
    Chat,
    GenerateRequest,
    Generation,
    Prompt,
    Sampling,
    Scored,
    Signal,
    TokenIds,
)
from askance.inference.decoding import check_sampling
from askance.inference.stopping import MAX_THOUGHTS, StopTracker, Thoughts
from askance.models.openai import tokenization
from askance.models.openai.requests import max_prompt_tokens

DEFAULT_CONTEXT = 32_768
"""The context window in tokens of a model that does not state its own."""


class LangchainModel(tokenization.TextTokens):
    """A chat model of LangChain, which answers chats and returns no signals.

    The adapter cuts texts at stop strings and after `max_tokens` tokens itself, because LangChain's models
    differ in the options that they take. It counts pieces of text about as long as tokens. `temperature` and
    `max_tokens` are also set on a copy of the model if its class has fields with these names. The random
    choices of the model do not depend on the key of a call, so sampled texts can't be reproduced.

    Args:
        model: The chat model, or another runnable that takes messages and returns a message.
        context: The context window in tokens; 0 for the one that the model states.
    """

    precision = fingerprint = ""
    signals = frozenset[Signal]()
    capabilities = frozenset[Capability]({"chat"})
    counts_exactly = False

    def __init__(self, model: Any, *, name: str = "langchain", context: int = 0) -> None:
        self.name, self._model = name, model
        stated = (getattr(model, "profile", None) or {}).get("max_input_tokens", 0)
        self.context_tokens: int = context or stated or DEFAULT_CONTEXT

    async def generate(self, request: GenerateRequest) -> tuple[Generation, ...]:
        """Generate texts (see `Model.generate`). Each sample is a separate call.

        Raises:
            ParameterError: A sampling parameter is out of range.
            MissingAbility: The prompt is raw text or has a continuation, or a signal is requested.
            PromptTooLong: The new tokens alone exceed the context window.
        """
        check_sampling(request.sampling, request.n)
        if not isinstance(request.prompt, Chat) or request.prompt.continuation:
            raise self._lacks("raw prompts and continuations")
        want = request.want
        if any((want.logprob, want.top_logprobs, want.entropy, want.token_probs, want.attention)):
            raise self._lacks("signals of tokens")
        num_new = request.sampling.max_tokens
        if num_new >= self.context_tokens:
            reason = f"{num_new} tokens are to be written, and the window has {self.context_tokens}"
            raise PromptTooLong(self.name, reason)
        others = [replace(request, on_text=None)] * (request.n - 1)
        return tuple(await gather_or_cancel(map(self._generate_one, (request, *others))))

    async def score(self, prompt: Prompt, options: Sequence[str]) -> tuple[Scored, ...]:
        """Raise MissingAbility, since LangChain's models return no scores."""
        raise self._lacks("scores of options")

    async def attend(self, text: str | TokenIds, *, bos: bool) -> Attention:
        """Raise MissingAbility, since LangChain's models return no attention."""
        raise self._lacks("attention")

    async def count(self, prompt: Prompt) -> int:
        """Return an upper bound of the number of tokens of a prompt."""
        return max_prompt_tokens(prompt)

    async def _generate_one(self, request: GenerateRequest) -> Generation:
        tracker = StopTracker(request, Thoughts(MAX_THOUGHTS))
        assert isinstance(request.prompt, Chat)
        messages = [(turn.role, tokenization.neutralize_control(turn.parts)) for turn in request.prompt.turns]
        num_read, finish = 0, "end"
        async with aclosing(self._sampling(request.sampling).astream(messages)) as chunks:
            async for chunk in chunks:
                usage = getattr(chunk, "usage_metadata", None) or {}
                num_read = max(num_read, usage.get("input_tokens", 0))
                details = getattr(chunk, "response_metadata", None) or {}
                finish = "length" if details.get("finish_reason") == "length" else finish
                for block in getattr(chunk, "content_blocks", ()):
                    if block.get("type") == "reasoning":
                        tracker.think(str(block.get("reasoning", "")))
                for id in tokenization.tokenize(str(chunk.text)):
                    if not tracker.is_finished:
                        tracker.add(tracker.token(id, tokenization.decode((id,))))
                if tracker.is_finished:
                    break
        if not tracker.is_finished:
            tracker.end(finish=finish)
        if num_read:
            return tracker.generation((), num_read)
        return tracker.generation((), await self.count(request.prompt), is_upper_bound=True)

    def _sampling(self, sampling: Sampling) -> Any:
        """Return the model with those sampling parameters that are fields of its class."""
        fields = getattr(type(self._model), "model_fields", {})
        values = {"temperature": sampling.temperature, "max_tokens": sampling.max_tokens}
        known = {name: value for name, value in values.items() if name in fields}
        return self._model.model_copy(update=known) if known else self._model

    def _lacks(self, ability: str) -> MissingAbility:
        return MissingAbility(
            f"model {self.name!r} does not give {ability}: LangChain's chat models answer chats only. Use "
            "another method, or a model of another kind (see `askance models`)."
        )


def load_model(name: str, *, context: str = "") -> LangchainModel:
    """Load the chat model ``module:object``. A class or function is called without arguments.

    Args:
        context: The context window in tokens; by default the one that the model states.

    Raises:
        MissingExtra: LangChain is not installed.
        InputError: There is no such object, or it is no chat model.
        ModelSpecError: The context window is no number.
    """
    model = load_langchain_object("models", name, "astream", "chat model")
    if context and not (context.isdecimal() and int(context) > 1):
        raise ModelSpecError(f"model 'langchain:{name}': context={context!r} is no number of tokens above 1.")
    return LangchainModel(model, name=f"langchain:{name}", context=int(context or 0))
