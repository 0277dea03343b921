"""Who judges, where the model that answers does not judge while it writes.

A scorer gives distributions over the groups of reflection tokens. `PromptedScorer` asks any model in words;
`NativeScorer` asks a Self-RAG checkpoint about text that another model wrote; `ScriptedScorer` is for tests.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from askance.core.ports import Model, Run
from askance.core.types import (
    GenerateRequest,
    Hit,
    Key,
    Part,
    Passage,
    Prompt,
    Question,
    Raw,
    Sampling,
    Span,
    Want,
    untrusted,
)
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
from askance.methods.selfrag_segments import fitting
from askance.methods.selfrag_tasks import before_answer


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

    def __init__(self, model: Model, question: Question, run: Run) -> None:
        self._model, self._question, self._run = model, question, run

    async def retrieve(self, so_far: str, hits: Sequence[Hit], *, key: Key) -> Distribution:
        def prompt_with(*shown: Hit) -> Prompt:
            return words.retrieval_prompt(self._model, self._question, so_far, shown)

        prompt = self._fitting(prompt_with, hits[-1]) if hits else prompt_with()
        return await self._ask(prompt, words.RETRIEVAL, key)

    async def relevance(self, hit: Hit, *, key: Key) -> Distribution:
        def prompt_with(shown: Hit) -> Prompt:
            return words.relevance_prompt(self._model, self._question, shown.passage)

        return await self._ask(self._fitting(prompt_with, hit), words.RELEVANCE, key)

    async def support(self, so_far: str, sentence: str, hit: Hit, *, key: Key) -> Distribution:
        def prompt_with(shown: Hit) -> Prompt:
            return words.support_prompt(self._model, self._question, so_far, sentence, shown.passage)

        return await self._ask(self._fitting(prompt_with, hit), words.SUPPORT, key)

    async def utility(self, answer: str, *, key: Key) -> Distribution:
        prompt = words.usefulness_prompt(self._model, self._question, answer)
        return await self._ask(prompt, words.USEFULNESS, key)

    def _fitting(self, prompt_with: Callable[[Hit], Prompt], hit: Hit) -> Prompt:
        return fitting(self._run, self._model, prompt_with, hit, _LABEL_TOKENS)

    async def _ask(self, prompt: Prompt, labels: Mapping[str, str], key: Key) -> Distribution:
        if "score" not in self._model.capabilities:
            (written,) = await self._model.generate(GenerateRequest(prompt, Sampling(_LABEL_TOKENS), key=key))
            return _written_label(written.text, labels)
        scores = await self._model.score(prompt, words.options(labels, prompt))
        best = max(score.logprob for score in scores)
        if not math.isfinite(best):
            return dict.fromkeys(labels, 0.0)
        weights = [math.exp(score.logprob - best) for score in scores]
        return {label: weight / sum(weights) for label, weight in zip(labels, weights, strict=True)}


_LABEL_TOKENS = 8
"""Room for a label, scored, or written behind a word or two of politeness."""


def _written_label(text: str, labels: Mapping[str, str]) -> Distribution:
    said = [word.strip(".,:;!?*\"'()[]") for word in text.lower().split()]
    named = next((word for word in said if word in labels.values()), "")
    return {label: float(word == named) for label, word in labels.items()}


class RememberingScorer:
    """A scorer that is asked once whether a passage helps, however many segments are written with it."""

    def __init__(self, scorer: ReflectionScorer) -> None:
        self._scorer = scorer
        self._relevances = dict[Passage, asyncio.Task[Distribution]]()

    async def retrieve(self, so_far: str, hits: Sequence[Hit], *, key: Key) -> Distribution:
        return await self._scorer.retrieve(so_far, hits, key=key)

    async def relevance(self, hit: Hit, *, key: Key) -> Distribution:
        if hit.passage not in self._relevances:
            asking = self._scorer.relevance(hit, key=key)
            self._relevances[hit.passage] = asyncio.ensure_future(asking)
        return await self._relevances[hit.passage]

    async def support(self, so_far: str, sentence: str, hit: Hit, *, key: Key) -> Distribution:
        return await self._scorer.support(so_far, sentence, hit, key=key)

    async def utility(self, answer: str, *, key: Key) -> Distribution:
        return await self._scorer.utility(answer, key=key)


class NativeScorer:
    """A Self-RAG checkpoint that reads what another model wrote: its probabilities where a token would stand.

    For each judgement the text is laid out as the checkpoint would have written it, up to that place.
    """

    def __init__(self, model: Model, instruction: Sequence[Span], run: Run) -> None:
        self._model, self._run = model, run
        self._before = before_answer(instruction)

    async def retrieve(self, so_far: str, hits: Sequence[Hit], *, key: Key) -> Distribution:
        if hits:
            return await self._read((), hits[-1], (Span(RELEVANT), *_text(so_far)), "retrieve", key)
        return await self._read(_unaided(so_far), None, (), "retrieve", key)

    async def relevance(self, hit: Hit, *, key: Key) -> Distribution:
        return await self._read((), hit, (), "relevance", key)

    async def support(self, so_far: str, sentence: str, hit: Hit, *, key: Key) -> Distribution:
        return await self._read(_text(so_far), hit, (Span(RELEVANT), *_text(sentence)), "support", key)

    async def utility(self, answer: str, *, key: Key) -> Distribution:
        return await self._read(_unaided(answer), None, (), "utility", key)

    async def _read(
        self, before: Sequence[Part], hit: Hit | None, behind: Sequence[Part], group: Group, key: Key
    ) -> Distribution:
        """What would follow text, a passage and text."""

        def prompt_with(shown: Hit) -> Raw:
            return Raw(self._before, (*before, *_found(shown), *behind))

        want = Want(token_probs=JUDGED)
        alone = Raw(self._before, (*before, *behind))
        prompt = fitting(self._run, self._model, prompt_with, hit, 1) if hit else alone
        (read,) = await self._model.generate(GenerateRequest(prompt, Sampling(1), want, key=key))
        token = (*read.tokens, *read.dropped)[0]
        probs = dict(zip(JUDGED, token.probs, strict=True))
        return {name: probs[name] for name in GROUPS[group]}


def _found(hit: Hit) -> tuple[Span, ...]:
    title, text = disarmed(hit.passage.title)[0], disarmed(hit.passage.text)[0]
    return (Span(SEARCH + OPENS), untrusted(title), Span("\n"), untrusted(text), Span(CLOSES))


def _unaided(text: str) -> tuple[Span, ...]:
    return (Span(NO_SEARCH), *_text(text)) if text.strip() else ()


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
