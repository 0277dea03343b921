"""The prompts of Self-RAG's judgements for a model without reflection tokens (Asai et al. 2024).

A model that was not trained on reflection tokens is asked in words, and the label words are scored. What each
question must ask is the paper's; the words are ours, and short. Question and passage come first, then what is
asked about them, so that several judgements of one passage have their beginning in common. The packaged
adapter was trained on the same words with the instruction in front (docs/reader.md).
"""

import tomllib
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from askance.core.ports import Model
from askance.core.types import Chat, Passage, Prompt, Question, Raw, Span, Turn, untrusted
from askance.methods.prompts import numbered, passage_text, question_spans
from askance.methods.selfrag.tokens import GROUPS, Group

_WORDING: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("judgements.toml").read_text(encoding="utf-8")
)
SYSTEM: str = _WORDING["system"]
INSTRUCTIONS: Mapping[Group, str] = {group: _WORDING[group]["instruction"] for group in GROUPS}
LABELS: Mapping[Group, Mapping[str, str]] = {
    group: dict(zip(tokens, _WORDING[group]["words"], strict=True)) for group, tokens in GROUPS.items()
}
"""The paper's tokens and our words for them."""


def judgement_prompt(
    model: Model,
    question: Question,
    group: Group,
    passages: Sequence[Passage] = (),
    so_far: str = "",
    said: str = "",
) -> Prompt:
    """What a model is asked for a judgement; see `ReflectionScorer`."""
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
