"""The prompt that DRAGIN, FLARE and their baselines share: examples, passages, question, answer so far.

Two layouts of the same parts. `raw` is the papers' own: plain text that the model goes on from. `chat` puts
the parts into the model's chat format, for models that offer nothing else.
"""

from collections.abc import Sequence
from typing import Literal

from askance.core.ports import Model
from askance.core.types import Chat, Demo, Hit, Prompt, Question, Raw, Span, Turn, untrusted

Layout = Literal["auto", "raw", "chat"]

STOPS = ("\n\n", "\nQuestion:", "\nContext:")
"""What would begin after the answer: a blank line, an invented next question, an invented passage block."""


def answer_prompt(
    model: Model, question: Question, hits: Sequence[Hit] = (), text: str = "", layout: Layout = "auto"
) -> Prompt:
    """The prompt that makes `model` go on with the answer to `question` after `text`.

    Args:
        hits: passages, placed directly before the question.
        text: the answer so far, to be gone on from exactly.
        layout: "auto" is raw where the model takes raw prompts.
    """
    demos = DEMOS if question.demos is None else question.demos
    so_far = (untrusted(text),) if text else ()
    if layout == "raw" or (layout == "auto" and "raw" in model.capabilities):
        return Raw(_raw_parts(question, demos, hits), so_far)
    return Chat(_chat_turns(question, demos, hits), so_far)


def _raw_parts(question: Question, demos: Sequence[Demo], hits: Sequence[Hit]) -> tuple[Span, ...]:
    spans = []
    for demo in (*demos, *question.history):
        spans += [Span("Question: "), untrusted(demo.question)]
        spans += [Span("\nAnswer: "), untrusted(demo.answer), Span("\n\n")]
    if hits:
        spans += [*_passage_block(hits), Span("\n")]
    return (*spans, Span("Question: "), *_question_spans(question), Span("\nAnswer:"))


def _chat_turns(question: Question, demos: Sequence[Demo], hits: Sequence[Hit]) -> tuple[Turn, ...]:
    turns = [Turn("system", (Span(SYSTEM_INSTRUCTION),))]
    for demo in (*demos, *question.history):
        turns += [Turn("user", (untrusted(demo.question),)), Turn("assistant", (untrusted(demo.answer),))]
    passages = (*_passage_block(hits), Span("\n")) if hits else ()
    return (*turns, Turn("user", (*passages, *_question_spans(question))))


def _passage_block(hits: Sequence[Hit]) -> tuple[Span, ...]:
    spans = [Span("Context:\n")]
    for number, hit in enumerate(hits, start=1):
        shown = " ".join(f"{hit.passage.title}: {hit.passage.text}".split())
        spans += [Span(f"[{number}] "), untrusted(shown), Span("\n")]
    return tuple(spans)


def _question_spans(question: Question) -> tuple[Span, ...]:
    asked = [untrusted(" ".join(question.text.split()))]
    if question.options:
        asked += [Span("\nOptions: "), untrusted("; ".join(question.options))]
    return tuple(asked)


SYSTEM_INSTRUCTION = (
    "Answer the question. Reason in short sentences, one fact in each, "
    'and finish with one sentence of the form "So the answer is ...".'
)

DEMOS = (
    Demo(
        "In which country was the composer of the opera Carmen born?",
        "The opera Carmen was composed by Georges Bizet. Georges Bizet was born in Paris, which is in "
        "France. So the answer is France.",
    ),
    Demo(
        "Who died first, Marie Curie or Albert Einstein?",
        "Marie Curie died in July 1934. Albert Einstein died in April 1955. July 1934 is before April 1955. "
        "So the answer is Marie Curie.",
    ),
    Demo(
        "Do the rivers Danube and Rhone flow into the same sea?",
        "The Danube flows into the Black Sea. The Rhone flows into the Mediterranean Sea. "
        "These are not the same sea. So the answer is no.",
    ),
    Demo(
        "What is the mother tongue of the author of the novel The Trial?",
        "The novel The Trial was written by Franz Kafka. The mother tongue of Franz Kafka was German. "
        "So the answer is German.",
    ),
)
