"""Who judges, where the model that answers does not judge while it writes.

A scorer gives distributions over the groups of reflection tokens. `PromptedScorer` asks any model in words;
`NativeScorer` asks a Self-RAG checkpoint about text that another model wrote; `ScriptedScorer` is for tests.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from askance.core.ports import Model
from askance.core.types import Hit, Key, Part, Prompt, Question, Raw, Sampling, Span, Want, untrusted
from askance.methods import selfrag_prompts as words
from askance.methods.reflection_tokens import (
    CLOSES,
    GROUPS,
    JUDGED,
    NO_SEARCH,
    OPENS,
    RELEVANT,
    SEARCH,
    Distribution,
    Group,
    disarmed,
)


class ReflectionScorer(Protocol):
    """Judges one question's answer. Every distribution may be all zeros: nothing could be told."""

    async def retrieve(self, so_far: str, hits: Sequence[Hit], *, key: Key) -> Distribution:
        """Whether to search before the answer goes on after `so_far`, with the passages in use."""
        ...

    async def relevance(self, hit: Hit, *, key: Key) -> Distribution:
        """Whether a passage helps."""
        ...

    async def support(self, so_far: str, sentence: str, hit: Hit, *, key: Key) -> Distribution:
        """How far a passage backs `sentence`, which follows `so_far`."""
        ...

    async def utility(self, answer: str, *, key: Key) -> Distribution:
        """How useful the whole answer is."""
        ...


class PromptedScorer:
    """Any model, asked in words: one `score` of the label words for a judgement.

    A model that can't score options writes its label; the first label word in what it writes counts whole,
    and none at all is a distribution of zeros.
    """

    def __init__(self, model: Model, question: Question) -> None:
        self._model, self._question = model, question

    async def retrieve(self, so_far: str, hits: Sequence[Hit], *, key: Key) -> Distribution:
        prompt = words.retrieval_prompt(self._model, self._question, so_far, hits)
        return await self._ask(prompt, words.RETRIEVAL, key)

    async def relevance(self, hit: Hit, *, key: Key) -> Distribution:
        prompt = words.relevance_prompt(self._model, self._question, hit.passage)
        return await self._ask(prompt, words.RELEVANCE, key)

    async def support(self, so_far: str, sentence: str, hit: Hit, *, key: Key) -> Distribution:
        prompt = words.support_prompt(self._model, self._question, so_far, sentence, hit.passage)
        return await self._ask(prompt, words.SUPPORT, key)

    async def utility(self, answer: str, *, key: Key) -> Distribution:
        prompt = words.usefulness_prompt(self._model, self._question, answer)
        return await self._ask(prompt, words.USEFULNESS, key)

    async def _ask(self, prompt: Prompt, labels: Mapping[str, str], key: Key) -> Distribution:
        if "score" not in self._model.capabilities:
            (written,) = await self._model.generate(prompt, Sampling(_LABEL_TOKENS), key=key)
            return _written_label(written.text, labels)
        scores = await self._model.score(prompt, words.options(labels, prompt))
        best = max(score.logprob for score in scores)
        if not math.isfinite(best):
            return dict.fromkeys(labels, 0.0)
        weights = [math.exp(score.logprob - best) for score in scores]
        return {label: weight / sum(weights) for label, weight in zip(labels, weights, strict=True)}


_LABEL_TOKENS = 8
"""Room for a label behind a word or two of politeness."""


def _written_label(text: str, labels: Mapping[str, str]) -> Distribution:
    said = [word.strip(".,:;!?*\"'()[]") for word in text.lower().split()]
    named = next((word for word in said if word in labels.values()), "")
    return {label: float(word == named) for label, word in labels.items()}


class NativeScorer:
    """A Self-RAG checkpoint that reads what another model wrote: its probabilities where a token would stand.

    For each judgement the text is laid out as the checkpoint would have written it, up to that place.
    """

    def __init__(self, model: Model, instruction: Sequence[Span]) -> None:
        self._model = model
        self._before = (Span("### Instruction:\n"), *instruction, Span("\n\n### Response:\n"))

    async def retrieve(self, so_far: str, hits: Sequence[Hit], *, key: Key) -> Distribution:
        used = _found(hits[-1]) if hits else (Span(NO_SEARCH),) if so_far.strip() else ()
        return await self._read((*used, *_text(so_far)), "retrieve", key)

    async def relevance(self, hit: Hit, *, key: Key) -> Distribution:
        return await self._read(_found(hit), "relevance", key)

    async def support(self, so_far: str, sentence: str, hit: Hit, *, key: Key) -> Distribution:
        written = (*_text(so_far), *_found(hit), Span(RELEVANT), *_text(sentence))
        return await self._read(written, "support", key)

    async def utility(self, answer: str, *, key: Key) -> Distribution:
        return await self._read((Span(NO_SEARCH), *_text(answer)), "utility", key)

    async def _read(self, written: Sequence[Part], group: Group, key: Key) -> Distribution:
        want = Want(token_probs=JUDGED)
        prompt = Raw(self._before, tuple(written))
        (read,) = await self._model.generate(prompt, Sampling(1), want, key=key)
        token = (*read.tokens, *read.dropped)[0]
        probs = dict(zip(JUDGED, token.probs, strict=True))
        return {name: probs[name] for name in GROUPS[group]}


def _found(hit: Hit) -> tuple[Span, ...]:
    title, text = disarmed(hit.passage.title)[0], disarmed(hit.passage.text)[0]
    return (Span(SEARCH + OPENS), untrusted(title), Span("\n"), untrusted(text), Span(CLOSES))


def _text(text: str) -> tuple[Span, ...]:
    line = " ".join(disarmed(text)[0].split())
    return (untrusted(line),) if line else ()


@dataclass(frozen=True, slots=True)
class ScriptedScorer:
    """Judgements by rule: each function takes what its judgement is about; passages by their text."""

    retrieves: Callable[[str], Distribution] = lambda so_far: {}
    relevances: Callable[[str], Distribution] = lambda passage: {}
    supports: Callable[[str, str], Distribution] = lambda sentence, passage: {}
    utilities: Callable[[str], Distribution] = lambda answer: {}

    async def retrieve(self, so_far: str, hits: Sequence[Hit], *, key: Key) -> Distribution:
        return self.retrieves(so_far)

    async def relevance(self, hit: Hit, *, key: Key) -> Distribution:
        return self.relevances(hit.passage.text)

    async def support(self, so_far: str, sentence: str, hit: Hit, *, key: Key) -> Distribution:
        return self.supports(sentence, hit.passage.text)

    async def utility(self, answer: str, *, key: Key) -> Distribution:
        return self.utilities(answer)
