"""Score the segments of Self-RAG in separate calls, for models that do not score while they write.

A scorer returns distributions over the groups of reflection tokens. `prompted_scorer` prompts any model in
plain words; `reflection_token_scorer` has a Self-RAG checkpoint judge text that another model wrote;
`pair_scorer` has a cross-encoder judge relevance and support.

For a model that was not trained on reflection tokens (Asai et al. 2024), a label word stands for each token.
The paper defines what each prompt must ask. The text of the short prompts is our own. The question and the
passage come first, so that several judgements of one passage share a prompt prefix. The packaged adapter was
trained on the same prompts, except that the instruction came first (docs/reader.md).
"""

import json
import math
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from askance.core.ports import Model, PairScorer, RoleModel, Run, language_model
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
    Role,
    Sampling,
    Span,
    Turn,
    Want,
    relevance,
    untrusted,
)
from askance.methods.common.prompts import label_probabilities, numbered, passage_text, question_spans
from askance.methods.selfrag import tokens
from askance.methods.selfrag.tokens import Distribution, Group
from askance.text.words import PIECE

_FILE = Path(__file__).with_name("judgements.toml")
_PROMPTS: dict[str, Any] = tomllib.loads(_FILE.read_text(encoding="utf-8"))
SYSTEM: str = _PROMPTS["system"]
INSTRUCTIONS: Mapping[Group, str] = {group: _PROMPTS[group]["instruction"] for group in tokens.GROUPS}
LABELS: Mapping[Group, Mapping[str, str]] = {
    group: dict(zip(names, _PROMPTS[group]["words"], strict=True)) for group, names in tokens.GROUPS.items()
}
"""The label word for each reflection token."""
_CHECKED: str = _PROMPTS["checked"]["instruction"]

Scorer = Callable[..., Awaitable[Distribution]]
"""A function of `(group, hit, so_far, text, *, key)` that returns a distribution, which may be all zeros.

Each group asks one question:

- retrieve: whether to search before continuing the answer `so_far`. `hit` is the passage in use, if any. If
  the next sentence is known, it is `text`.
- relevance: whether `hit` is relevant to the question.
- support: how far `hit` supports `text`, which follows `so_far`.
- utility: how useful `text`, the whole answer, is.
"""
MAX_LABEL_TOKENS = 8
"""The number of tokens reserved for a label, which a model may write after a few polite words."""


def prompts_digest() -> str:
    """Return a digest of the texts of the prompts: 8 hexadecimal digits."""
    return blake2b(json.dumps(_PROMPTS).encode(), digest_size=4).hexdigest()


def prompted_scorer(model: Model, question: Question, run: Run) -> Scorer:
    """Return a scorer that prompts any model.

    Each judgement is one `score` call on the label words. A model that can't score options writes a reply
    instead. The first label word in the reply gets probability 1. If the reply has no label word, all
    probabilities are 0.
    """

    async def judge(group: Group, hit: Hit | None, so_far: str, text: str, *, key: Key) -> Distribution:
        def prompt_with(*shown: Hit) -> Prompt:
            passages = [each.passage for each in shown]
            return judgement_prompt(model, question, group, passages, so_far, text)

        labels = LABELS[group]
        prompt = await fit_passage(run, model, prompt_with, hit, MAX_LABEL_TOKENS)
        if "score" in model.capabilities:
            shares = await label_probabilities(model, prompt, labels.values())
            return dict(zip(labels, shares, strict=True))
        (written,) = await model.generate(GenerateRequest(prompt, Sampling(MAX_LABEL_TOKENS), key=key))
        words = [word.strip(".,:;!?*\"'()[]") for word in written.text.lower().split()]
        label_word = next((word for word in words if word in labels.values()), "")
        return {label: float(word == label_word) for label, word in labels.items()}

    return judge


def reflection_token_scorer(model: Model, head: tuple[Span, ...], run: Run) -> Scorer:
    """Return a scorer that has a Self-RAG checkpoint judge text that another model wrote.

    For each judgement, the text is laid out as the checkpoint would have written it, up to the position of
    the reflection token whose probabilities are needed.
    """

    async def judge(group: Group, hit: Hit | None, so_far: str, text: str, *, key: Key) -> Distribution:
        text = "" if group == "retrieve" else text  # the checkpoint decides before it writes the sentence
        spans = _one_line(text or so_far)
        without_passage = (Span(tokens.NO_RETRIEVAL), *spans) if spans else ()
        before = _one_line(so_far) if text else ()
        after = () if group == "relevance" else (Span(tokens.RELEVANT), *spans)

        def prompt_with(*shown: Hit) -> Raw:
            passages = [(*before, Span(tokens.RETRIEVAL), *passage_spans(each), *after) for each in shown]
            return Raw(head, *(passages or [without_passage]))

        prompt = await fit_passage(run, model, prompt_with, hit, 1)
        (generation,) = await model.generate(
            GenerateRequest(prompt, Sampling(1), Want(token_probs=tokens.SCORED_TOKENS), key=key)
        )
        return tokens.first_distribution(generation, group)

    return judge


def critics(models: Mapping[Role, RoleModel]) -> tuple[PairScorer | None, Model]:
    """Return the cross-encoder that judges relevance and support, if there is one, and the model that judges
    everything else.

    Raises:
        MissingAbility: A model can judge neither.
    """
    model = language_model(models["answer"])
    critic = models.get("critic", model)
    return (critic, model) if isinstance(critic, PairScorer) else (None, language_model(critic, "critic"))


def pair_scorer(critic: PairScorer, question: Question, others: Scorer) -> Scorer:
    """Return a scorer that has a cross-encoder judge relevance and support.

    Support is the relevance of the passage to the question followed by the text, as `askance train relevance`
    teaches it. A cross-encoder does not distinguish partial from full support.
    """

    async def judge(group: Group, hit: Hit | None, so_far: str, text: str, *, key: Key) -> Distribution:
        if hit is None or group not in _PAIR_TOKENS:
            return await others(group, hit, so_far, text, key=key)
        spans = (question.text, text) if group == "support" else (question.text,)
        (logit,) = await critic.score_pairs([(" ".join(spans), hit.passage.titled_text)])
        probs = dict(zip(_PAIR_TOKENS[group], map(math.exp, relevance(logit)), strict=True))
        return {token: probs.get(token, 0.0) for token in tokens.GROUPS[group]}

    return judge


_PAIR_TOKENS: Mapping[Group, tuple[str, str]] = {
    "relevance": (tokens.RELEVANT, tokens.IRRELEVANT),
    "support": (tokens.FULLY_SUPPORTED, tokens.NO_SUPPORT),
}
"""The reflection tokens that stand for a relevant text and for an irrelevant one."""


def passage_spans(hit: Hit) -> tuple[Span, ...]:
    """Return a passage wrapped in its start and end tokens.

    The passage must come from `search_passages`, which escapes the reflection tokens in its text.
    """
    title, text = untrusted(hit.passage.title), untrusted(hit.passage.text)
    return (Span(tokens.PARAGRAPH_START), title, Span("\n"), text, Span(tokens.PARAGRAPH_END))


def _one_line(text: str) -> tuple[Span, ...]:
    line = " ".join(tokens.escape_tokens(text)[0].split())
    return (untrusted(line),) if line else ()


P = TypeVar("P", bound=Prompt)


async def fit_passage(
    run: Run, model: Model, prompt_with: Callable[..., P], hit: Hit | None, max_tokens: int
) -> P:
    """Return the prompt with the passage `hit`, if there is one.

    The passage is truncated if the context window has no room for the prompt and `max_tokens` new tokens.
    """
    prompt, room = prompt_with(*([hit] if hit else [])), model.context_tokens - max_tokens
    if hit is None or await model.count(prompt) <= room:
        return prompt
    passage, words = hit.passage, list(PIECE.finditer(hit.passage.text))

    def cut(num_words: int) -> P:
        text = passage.text[: words[num_words - 1].end()] if num_words else ""
        return prompt_with(replace(hit, passage=replace(passage, text=" ".join(text.split()))))

    async def fits(num_words: int) -> bool:
        return await model.count(cut(num_words)) <= room

    num_kept = await most_that_fit(max(len(words) - 1, 0), fits) or 0
    room_for = f"room for {num_kept} of {len(words)} words of a passage"
    why = f"the window of {model.context_tokens} tokens has {room_for}"
    run.trace.decide("passage", "cut", why, numbers={"words": num_kept})
    return cut(num_kept)


def judgement_prompt(
    model: Model,
    question: Question,
    group: Group,
    passages: Sequence[Passage] = (),
    so_far: str = "",
    text: str = "",
) -> Prompt:
    """Return the prompt that asks a model for a judgement (see `Scorer`)."""
    question_part = (Span("Question: "), *question_spans(question), Span("\n"))
    judged, instruction = list[Span](), INSTRUCTIONS[group]
    if group == "retrieve":
        context = (*numbered(list(map(passage_text, passages))), *question_part)
        judged += _line("Answer so far", so_far)
        if text:
            judged, instruction = [*judged, *_line("Sentence", text)], _CHECKED
    else:
        shown = [(Span("Passage: "), untrusted(passage_text(each)), Span("\n")) for each in passages]
        context = (*question_part, *chain.from_iterable(shown))
        judged += _line("Answer so far", so_far) if so_far.strip() else ()
        judged += _line("Answer" if group == "utility" else "Sentence", text) if text else ()
    ending = (Span("\n\n"), *judged) if judged else (Span("\n"),)
    # The last part is a line break, which a chat turn does not need.
    spans = (*context, Span(f"\n{instruction}"), *ending)
    if "chat" in model.capabilities:
        return Chat((Turn("system", (Span(SYSTEM),)), Turn("user", spans[:-1])))
    return Raw((*spans, Span("Judgement:")))


def _line(label: str, text: str) -> tuple[Span, ...]:
    words = " ".join(text.split())
    return (Span(f"{label}:"), *((Span(" "), untrusted(words)) if words else ()), Span("\n"))
