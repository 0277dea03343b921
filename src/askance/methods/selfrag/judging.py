"""Who judges what Self-RAG writes, where the model that answers does not judge while it writes.

A scorer gives distributions over the groups of reflection tokens: `judged_in_words` asks any model in words;
`judged_by_tokens` asks a Self-RAG checkpoint about text that another model wrote.

A model that was not trained on reflection tokens (Asai et al. 2024) is asked in words, and the label words
are scored. What each question must ask is the paper's; the words are ours, and short. Question and passage
come first, then what is asked about them, so that several judgements of one passage have their beginning in
common. The packaged adapter was trained on the same words with the instruction in front (docs/reader.md).
"""

import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from askance.core.ports import Model, Run
from askance.core.token_ledger import most_that_fit
from askance.core.types import (
    Chat,
    GenerateRequest,
    Hit,
    Key,
    Passage,
    Prompt,
    Question,
    Raw,
    Sampling,
    Span,
    Turn,
    Want,
    untrusted,
)
from askance.methods.common.label_probabilities import label_probabilities
from askance.methods.common.prompts import numbered, passage_text, question_spans
from askance.methods.selfrag import tokens
from askance.methods.selfrag.tokens import Distribution, Group

_WORDING: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("judgements.toml").read_text(encoding="utf-8")
)
SYSTEM: str = _WORDING["system"]
INSTRUCTIONS: Mapping[Group, str] = {group: _WORDING[group]["instruction"] for group in tokens.GROUPS}
LABELS: Mapping[Group, Mapping[str, str]] = {
    group: dict(zip(names, _WORDING[group]["words"], strict=True)) for group, names in tokens.GROUPS.items()
}
"""The paper's tokens and our words for them."""

Scorer = Callable[..., Awaitable[Distribution]]
"""One of the four judgements of `(group, hit, so_far, said, *, key)`; all zeros where nothing could be told.

- retrieve: whether to search before the answer goes on after `so_far`, written with `hit` if any;
- relevance: whether `hit` helps;
- support: how far `hit` backs `said`, which follows `so_far`;
- utility: how useful `said` is, the whole answer.
"""
_LABEL_TOKENS = 8
"""Room for a label, scored, or written behind a word or two of politeness."""


def judged_in_words(model: Model, question: Question, run: Run) -> Scorer:
    """Any model, asked in words: one `score` of the label words for a judgement.

    A model that can't score options writes its label; the first label word in what it writes counts whole,
    and none at all is a distribution of zeros.
    """

    async def judge(group: Group, hit: Hit | None, so_far: str, said: str, *, key: Key) -> Distribution:
        def prompt_with(*shown: Hit) -> Prompt:
            passages = [each.passage for each in shown]
            return judgement_prompt(model, question, group, passages, so_far, said)

        labels = LABELS[group]
        prompt = fitting(run, model, prompt_with, hit, _LABEL_TOKENS)
        if "score" in model.capabilities:
            shares = await label_probabilities(model, prompt, labels.values())
            return dict(zip(labels, shares, strict=True))
        (written,) = await model.generate(GenerateRequest(prompt, Sampling(_LABEL_TOKENS), key=key))
        words = [word.strip(".,:;!?*\"'()[]") for word in written.text.lower().split()]
        named = next((word for word in words if word in labels.values()), "")
        return {label: float(word == named) for label, word in labels.items()}

    return judge


def judged_by_tokens(model: Model, head: tuple[Span, ...], run: Run) -> Scorer:
    """A Self-RAG checkpoint that reads what another model wrote: its probabilities where a token would stand.

    For each judgement the text is laid out as the checkpoint would have written it, up to that place.
    """

    async def judge(group: Group, hit: Hit | None, so_far: str, said: str, *, key: Key) -> Distribution:
        text = _text(said or so_far)
        unaided = (Span(tokens.NO_SEARCH), *text) if text else ()
        before = _text(so_far) if said else ()
        behind = () if group == "relevance" else (Span(tokens.RELEVANT), *text)

        def prompt_with(*shown: Hit) -> Raw:
            passages = [(*before, Span(tokens.SEARCH), *passage_parts(each), *behind) for each in shown]
            return Raw(head, *(passages or [unaided]))

        prompt = fitting(run, model, prompt_with, hit, 1)
        (read,) = await model.generate(
            GenerateRequest(prompt, Sampling(1), Want(token_probs=tokens.JUDGED), key=key)
        )
        return tokens.first_distribution(read, group)

    return judge


def passage_parts(hit: Hit) -> tuple[Span, ...]:
    """A passage between its two tokens; what it says was disarmed when it was found (`found_for`)."""
    title, text = untrusted(hit.passage.title), untrusted(hit.passage.text)
    return (Span(tokens.OPENS), title, Span("\n"), text, Span(tokens.CLOSES))


def _text(text: str) -> tuple[Span, ...]:
    line = " ".join(tokens.disarmed(text)[0].split())
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


def judgement_prompt(
    model: Model,
    question: Question,
    group: Group,
    passages: Sequence[Passage] = (),
    so_far: str = "",
    said: str = "",
) -> Prompt:
    """What a model is asked for a judgement; see `Scorer`."""
    asked = (Span("Question: "), *question_spans(question), Span("\n"))
    judged = list[Span]()
    if group == "retrieve":
        at_hand = (*numbered(list(map(passage_text, passages))), *asked)
        judged += _line("Answer so far", so_far)
    else:
        shown = [(Span("Passage: "), untrusted(passage_text(each)), Span("\n")) for each in passages]
        at_hand = (*asked, *chain.from_iterable(shown))
        judged += _line("Answer so far", so_far) if so_far.strip() else ()
        judged += _line("Answer" if group == "utility" else "Sentence", said) if said else ()
    ending = (Span("\n\n"), *judged) if judged else (Span("\n"),)
    # The last part is a line break, which a chat turn does without.
    spans = (*at_hand, Span(f"\n{INSTRUCTIONS[group]}"), *ending)
    if "chat" in model.capabilities:
        return Chat((Turn("system", (Span(SYSTEM),)), Turn("user", spans[:-1])))
    return Raw((*spans, Span("Judgement:")))


def _line(label: str, text: str) -> tuple[Span, ...]:
    words = " ".join(text.split())
    return (Span(f"{label}:"), *((Span(" "), untrusted(words)) if words else ()), Span("\n"))
