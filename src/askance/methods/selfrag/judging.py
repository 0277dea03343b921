"""Who judges what Self-RAG writes, where the model that answers does not judge while it writes.

A scorer gives distributions over the groups of reflection tokens: `PromptedScorer` asks any model in words;
`NativeScorer` asks a Self-RAG checkpoint about text that another model wrote. `Judge` asks a scorer for what
is read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

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
from askance.methods.budget import NoRoom, most_that_fit
from askance.methods.selfrag import prompts as words
from askance.methods.selfrag.segments import Path, Segment
from askance.methods.selfrag.tokens import (
    CLOSES,
    JUDGED,
    NO_SEARCH,
    OPENS,
    RELEVANT,
    SEARCH,
    Distribution,
    Group,
    disarmed,
    first_distribution,
    likeliest,
    softmax,
)
from askance.tree.abreast import both


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

        return await self._ask(words.RETRIEVAL, key, prompt_with, *hits[-1:])

    async def relevance(self, hit: Hit, *, key: Key) -> Distribution:
        def prompt_with(shown: Hit) -> Prompt:
            return words.relevance_prompt(self._model, self._question, shown.passage)

        return await self._ask(words.RELEVANCE, key, prompt_with, hit)

    async def support(self, so_far: str, sentence: str, hit: Hit, *, key: Key) -> Distribution:
        def prompt_with(shown: Hit) -> Prompt:
            return words.support_prompt(self._model, self._question, so_far, sentence, shown.passage)

        return await self._ask(words.SUPPORT, key, prompt_with, hit)

    async def utility(self, answer: str, *, key: Key) -> Distribution:
        return await self._ask(
            words.USEFULNESS, key, lambda: words.usefulness_prompt(self._model, self._question, answer)
        )

    async def _ask(
        self, labels: Mapping[str, str], key: Key, prompt_with: Callable[..., Prompt], *hits: Hit
    ) -> Distribution:
        fits = fitting(self._run, self._model, prompt_with, hits[0], _LABEL_TOKENS) if hits else None
        prompt = fits or prompt_with()
        if "score" not in self._model.capabilities:
            (written,) = await self._model.generate(GenerateRequest(prompt, Sampling(_LABEL_TOKENS), key=key))
            return _written_label(written.text, labels)
        scores = await self._model.score(prompt, words.options(labels, prompt))
        return dict(zip(labels, softmax([score.logprob for score in scores]), strict=True))


_LABEL_TOKENS = 8
"""Room for a label, scored, or written behind a word or two of politeness."""


def _written_label(text: str, labels: Mapping[str, str]) -> Distribution:
    said = [word.strip(".,:;!?*\"'()[]") for word in text.lower().split()]
    named = next((word for word in said if word in labels.values()), "")
    return {label: float(word == named) for label, word in labels.items()}


class NativeScorer:
    """A Self-RAG checkpoint that reads what another model wrote: its probabilities where a token would stand.

    For each judgement the text is laid out as the checkpoint would have written it, up to that place.
    """

    def __init__(self, model: Model, head: tuple[Span, ...], run: Run) -> None:
        self._model, self._head, self._run = model, head, run

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
            return Raw(self._head, (*before, Span(SEARCH), *passage_parts(shown), *behind))

        alone = Raw(self._head, (*before, *behind))
        prompt = fitting(self._run, self._model, prompt_with, hit, 1) if hit else alone
        (read,) = await self._model.generate(
            GenerateRequest(prompt, Sampling(1), Want(token_probs=JUDGED), key=key)
        )
        return first_distribution(read, group)


class Judge:
    """A scorer as a writer asks it: what nobody reads is not asked for, and what has no room tells nothing.

    Whether a passage helps is asked once for the whole question; but not within L_max (`is_bounded`), where
    what one segment spends must not depend on the others.
    """

    def __init__(self, scorer: ReflectionScorer, read: frozenset[Group], *, is_bounded: bool = False) -> None:
        self._scorer, self._read, self._is_bounded = scorer, read, is_bounded
        self._relevances = dict[Passage, asyncio.Task[Distribution]]()

    async def onward(self, path: Path, key: Key) -> Distribution:
        """Whether to search before `path` goes on."""
        if not path.segments:
            return await told(self._scorer.retrieve("", (), key=key))
        *before, last = path.segments
        if "retrieve" not in self._read or last.is_last or not last.text:
            return {}
        so_far = one_line(f"{''.join(each.written for each in before)} {last.text}")
        hits = () if path.in_use is None else (path.in_use,)
        return await told(self._scorer.retrieve(so_far, hits, key=(*key, "onward")))

    async def relevance(self, hit: Hit | None, key: Key) -> Distribution:
        """Whether a passage helps, for the segment with this key; it does not depend on what is written."""
        if hit is None or "relevance" not in self._read:
            return {}
        key = (*key, "relevance")
        if self._is_bounded:
            return await told(self._scorer.relevance(hit, key=key))
        if hit.passage not in self._relevances:
            self._relevances[hit.passage] = asyncio.ensure_future(self._scorer.relevance(hit, key=key))
        return await self._relevances[hit.passage]

    async def utility(self, answer: str, key: Key) -> Distribution:
        """How useful the whole answer is."""
        return await told(self._scorer.utility(one_line(answer), key=key))

    async def judged(
        self, path: Path, segment: Segment, relevance: Distribution, key: Key, *, whole: bool
    ) -> Segment:
        """`segment`, which follows `path`, with the distributions; the likeliest tokens are its labels.

        Args:
            relevance: of its passage, which was judged while it was written.
            whole: it is a whole answer, whose support and utility count; those of a segment that may yet
                fall out of a beam are left to `with_support` and `onward`.
        """
        if not segment.text:
            return segment
        is_backed = segment.action == "retrieve" and segment.hit is not None and "support" in self._read
        segment = replace(
            segment, relevance=relevance, labels=_labels(relevance), is_judged=whole or not is_backed
        )
        if not whole:
            return segment
        is_graded = "utility" in self._read
        support, utility = await both(
            self._support(path, segment, key) if is_backed else _nothing(),
            self.utility(f"{path.written} {segment.text}", (*key, "utility")) if is_graded else _nothing(),
        )
        labels = segment.labels | _labels(support) | _labels(utility)
        return replace(segment, support=support, utility=utility, labels=labels)

    async def with_support(self, path: Path, segment: Segment, key: Key) -> Segment:
        """`segment`, which follows `path`, with how far its passage backs it, if that was not judged."""
        if segment.is_judged:
            return segment
        support = await self._support(path, segment, key)
        return replace(segment, support=support, labels=segment.labels | _labels(support), is_judged=True)

    async def _support(self, path: Path, segment: Segment, key: Key) -> Distribution:
        if segment.hit is None:
            return {}
        so_far, key = one_line(path.written), (*key, "support")
        return await told(self._scorer.support(so_far, segment.text, segment.hit, key=key))


async def _nothing() -> Distribution:
    return {}


async def told(judgement: Awaitable[Distribution]) -> Distribution:
    """A judgement; nothing where there is no room for it."""
    try:
        return await judgement
    except NoRoom:
        return {}


def _labels(distribution: Distribution) -> frozenset[str]:
    return frozenset(filter(None, (likeliest(distribution),)))


def passage_parts(hit: Hit) -> tuple[Span, ...]:
    """A passage between its two tokens; strings of reflection tokens in it are broken."""
    title, text = disarmed(hit.passage.title)[0], disarmed(hit.passage.text)[0]
    return (Span(OPENS), untrusted(title), Span("\n"), untrusted(text), Span(CLOSES))


def _unaided(text: str) -> tuple[Span, ...]:
    return (Span(NO_SEARCH), *_text(text)) if text.strip() else ()


def _text(text: str) -> tuple[Span, ...]:
    line = one_line(disarmed(text)[0])
    return (untrusted(line),) if line else ()


def one_line(text: str) -> str:
    """`text` with single blanks in place of all white space."""
    return " ".join(text.split())


P = TypeVar("P", bound=Prompt)


def fitting(run: Run, model: Model, prompt_with: Callable[[Hit], P], hit: Hit, max_tokens: int) -> P:
    """The prompt, its passage cut at its end where the model's window has no room for all of it."""
    prompt = prompt_with(hit)
    room = model.context_tokens - max_tokens
    if model.count(prompt) <= room:
        return prompt
    words = hit.passage.text.split()

    def cut(num_words: int) -> P:
        return prompt_with(replace(hit, passage=replace(hit.passage, text=" ".join(words[:num_words]))))

    kept = most_that_fit(max(len(words) - 1, 0), lambda number: model.count(cut(number)) <= room) or 0
    why = (
        f"the window of {model.context_tokens} tokens has room for {kept} of {len(words)} words of a passage"
    )
    run.trace.decide("passage", "cut", why, numbers={"words": kept})
    return cut(kept)
