"""Who judges what Self-RAG writes, where the model that answers does not judge while it writes.

A scorer gives distributions over the groups of reflection tokens: `PromptedScorer` asks any model in words;
`NativeScorer` asks a Self-RAG checkpoint about text that another model wrote.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from askance.core.ports import Model, Run
from askance.core.token_ledger import most_that_fit
from askance.core.types import (
    GenerateRequest,
    Hit,
    Key,
    Prompt,
    Question,
    Raw,
    Sampling,
    Span,
    Want,
    untrusted,
)
from askance.methods.labels import label_shares
from askance.methods.selfrag.prompts import LABELS, judgement_prompt
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
)


class ReflectionScorer(Protocol):
    """Judges one question's answer."""

    async def judge(self, group: Group, hit: Hit | None, so_far: str, said: str, *, key: Key) -> Distribution:
        """One of the four judgements; all zeros where nothing could be told.

        - retrieve: whether to search before the answer goes on after `so_far`, written with `hit` if any;
        - relevance: whether `hit` helps;
        - support: how far `hit` backs `said`, which follows `so_far`;
        - utility: how useful `said` is, the whole answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class PromptedScorer:
    """Any model, asked in words: one `score` of the label words for a judgement.

    A model that can't score options writes its label; the first label word in what it writes counts whole,
    and none at all is a distribution of zeros.
    """

    model: Model
    question: Question
    run: Run

    async def judge(self, group: Group, hit: Hit | None, so_far: str, said: str, *, key: Key) -> Distribution:
        def prompt_with(*shown: Hit) -> Prompt:
            passages = [each.passage for each in shown]
            return judgement_prompt(self.model, self.question, group, passages, so_far, said)

        labels = LABELS[group]
        prompt = fitting(self.run, self.model, prompt_with, hit, _LABEL_TOKENS)
        if "score" in self.model.capabilities:
            shares = await label_shares(self.model, prompt, labels.values())
            return dict(zip(labels, shares, strict=True))
        (written,) = await self.model.generate(GenerateRequest(prompt, Sampling(_LABEL_TOKENS), key=key))
        words = [word.strip(".,:;!?*\"'()[]") for word in written.text.lower().split()]
        named = next((word for word in words if word in labels.values()), "")
        return {label: float(word == named) for label, word in labels.items()}


_LABEL_TOKENS = 8
"""Room for a label, scored, or written behind a word or two of politeness."""


@dataclass(frozen=True, slots=True)
class NativeScorer:
    """A Self-RAG checkpoint that reads what another model wrote: its probabilities where a token would stand.

    For each judgement the text is laid out as the checkpoint would have written it, up to that place.
    """

    model: Model
    head: tuple[Span, ...]
    run: Run

    async def judge(self, group: Group, hit: Hit | None, so_far: str, said: str, *, key: Key) -> Distribution:
        text = _text(said or so_far)
        unaided = (Span(NO_SEARCH), *text) if text else ()
        before = _text(so_far) if said else ()
        behind = () if group == "relevance" else (Span(RELEVANT), *text)

        def prompt_with(*shown: Hit) -> Raw:
            passages = [(*before, Span(SEARCH), *passage_parts(each), *behind) for each in shown]
            return Raw(self.head, *(passages or [unaided]))

        prompt = fitting(self.run, self.model, prompt_with, hit, 1)
        (read,) = await self.model.generate(
            GenerateRequest(prompt, Sampling(1), Want(token_probs=JUDGED), key=key)
        )
        return first_distribution(read, group)


def passage_parts(hit: Hit) -> tuple[Span, ...]:
    """A passage between its two tokens; what it says was disarmed when it was found (`found_for`)."""
    title, text = untrusted(hit.passage.title), untrusted(hit.passage.text)
    return (Span(OPENS), title, Span("\n"), text, Span(CLOSES))


def _text(text: str) -> tuple[Span, ...]:
    line = " ".join(disarmed(text)[0].split())
    return (untrusted(line),) if line else ()


P = TypeVar("P", bound=Prompt)


def fitting(run: Run, model: Model, prompt_with: Callable[..., P], hit: Hit | None, max_tokens: int) -> P:
    """The prompt with a passage, if any, cut at its end where the window has no room for all of it."""
    prompt, room = prompt_with(*([hit] if hit else [])), model.context_tokens - max_tokens
    if hit is None or model.count(prompt) <= room:
        return prompt
    passage, words = hit.passage, hit.passage.text.split()

    def cut(num_words: int) -> P:
        return prompt_with(replace(hit, passage=replace(passage, text=" ".join(words[:num_words]))))

    kept = most_that_fit(max(len(words) - 1, 0), lambda number: model.count(cut(number)) <= room) or 0
    why = (
        f"the window of {model.context_tokens} tokens has room for {kept} of {len(words)} words of a passage"
    )
    run.trace.decide("passage", "cut", why, numbers={"words": kept})
    return cut(kept)
