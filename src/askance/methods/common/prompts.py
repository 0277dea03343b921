"""The prompt that DRAGIN, FLARE and their baselines share: examples, passages, question, answer so far.

The prompt has two layouts. `raw` is the layout of the papers: plain text that the model continues. `chat`
puts the same parts into the model's chat format, for models that accept nothing else. A `PromptTemplate`
holds the fixed text; each method that uses this prompt takes one as a parameter.
"""

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from askance.core.ports import Model
from askance.core.types import (
    Capability,
    Chat,
    Demo,
    Hit,
    Passage,
    Prompt,
    Question,
    Raw,
    Span,
    Turn,
    untrusted,
)

EXAMPLES = tomllib.loads(Path(__file__).with_name("examples.toml").read_text(encoding="utf-8"))
DEMOS = tuple(Demo(**demo) for demo in EXAMPLES["demos"])


@dataclass(frozen=True, slots=True, repr=False)
class PromptTemplate:
    """The fixed text of a prompt. Traces and cache keys use its repr, which contains a checksum of the text.

    Attributes:
        demos: The worked examples for questions that have no examples of their own.
        heading: The line above the passages.
        instruction: The line below the passages; empty for none.
        before_question: The text directly before the final question, white space included.
        system: The system turn of the chat layout; empty for none.
        elicitation: The beginning of a sentence that the model completes if its text states no answer. The
            short answer follows "the answer is".
        name: The prefix of the repr. The name is ignored in comparisons and in the checksum.
        places: The place in a file of each key that the file changes, also ignored.
    """

    demos: tuple[Demo, ...] = DEMOS
    heading: str = "Context:"
    instruction: str = ""
    before_question: str = ""
    system: str = (
        "Answer the question. Reason in short sentences, one fact in each, "
        'and finish with one sentence of the form "So the answer is ...".'
    )
    elicitation: str = " So the answer is"
    name: str = field(default="prompts", compare=False, kw_only=True)
    places: Mapping[str, str] = field(default_factory=dict, compare=False, kw_only=True)

    def __repr__(self) -> str:
        return content_name(self)

    def __str__(self) -> str:
        return next((known.name for known in (OWN, PLAIN) if self == known), repr(self))


def content_name(words: Any) -> str:
    """Return the name of a template, followed by a checksum of all fields that count in comparisons."""
    content = repr(tuple(getattr(words, each.name) for each in fields(words) if each.compare))
    return f"{words.name}-{blake2b(content.encode(), digest_size=4).hexdigest()}"


OWN = PromptTemplate(name="own")
PLAIN = PromptTemplate(demos=(), name="plain")
"""A template without examples, for models that don't need them to answer in the right form."""


Layout = Literal["auto", "raw", "chat"]

STOPS = ("\n\n", "\nQuestion:", "\nContext:")
"""Stop strings: a blank line, and the beginnings of a question or passage block that a model invents."""


def stops_of(prompt: Prompt) -> tuple[str, ...]:
    """Return the stop strings of an answer to a prompt. In a chat, the model itself ends its turn."""
    return () if isinstance(prompt, Chat) else STOPS


def layout_needs(layout: Layout, *, continues: bool) -> tuple[frozenset[Capability], ...]:
    """Return the capabilities that `answer_prompt` needs, as alternative sets of which one is enough.

    Args:
        continues: Whether the model must be able to continue its own text.
    """
    raw = frozenset[Capability]({"raw"})
    chat = frozenset[Capability]({"chat", "continuation"} if continues else {"chat"})
    either = (raw, chat) if continues else ()  # every model takes raw text or a chat
    return {"raw": (raw,), "chat": (chat,), "auto": either}[layout]


def answer_prompt(
    model: Model,
    question: Question,
    hits: Sequence[Hit] = (),
    text: str = "",
    layout: Layout = "auto",
    template: PromptTemplate = OWN,
) -> Prompt:
    """Return the prompt that makes `model` answer `question`, or continue its answer after `text`.

    Args:
        hits: The passages, which the prompt shows directly before the question.
        text: The answer so far, which the model continues exactly.
        layout: "auto" means raw text if the model accepts it.
        template: The fixed text. The packaged ones have no `instruction` and no `before_question`, because
            these made answers worse in measurements.
    """
    before: tuple[Span, ...] = ()
    if hits:
        before = (Span(f"{template.heading}\n"), *numbered_passages(hits), Span("\n"))
    instruction = template.instruction and f"{template.instruction}\n"
    if instruction or template.before_question:
        before = (*before, Span(f"{instruction}{template.before_question}"))
    asked, demos = question_spans(question), template.demos if question.demos is None else question.demos
    examples = (*demos, *question.history)
    parts = (*example_spans(examples, "\n\n"), *before, Span("Question: "), *asked, Span("\nAnswer:"))
    worked = [((untrusted(demo.question),), demo.answer) for demo in examples]
    return in_layout(layout, model, parts, chat_turns(template.system, worked, (*before, *asked)), text)


def in_layout(
    layout: Layout, model: Model, parts: Sequence[Span], turns: Sequence[Turn], text: str
) -> Prompt:
    """Return a prompt made of raw text (`parts`) or of a chat (`turns`), to be continued after `text`."""
    continuation = (untrusted(text),) if text else ()
    if layout == "raw" or (layout == "auto" and "raw" in model.capabilities):
        return Raw(tuple(parts), continuation)
    return Chat(tuple(turns), continuation)


def chat_turns(
    system: str, examples: Iterable[tuple[tuple[Span, ...], str]], request: tuple[Span, ...]
) -> list[Turn]:
    """Return the turns of a chat: a system turn, example requests with their answers, and the request."""
    turns = [Turn("system", (Span(system),))] if system else []
    for question, answer in examples:
        turns += [Turn("user", question), Turn("assistant", (untrusted(answer),))]
    return [*turns, Turn("user", request)]


def numbered_passages(hits: Sequence[Hit]) -> tuple[Span, ...]:
    """Return passages, one per line, numbered from 1."""
    return numbered([passage_text(hit.passage) for hit in hits])


def numbered(texts: Sequence[str]) -> tuple[Span, ...]:
    """Return texts, one per line, numbered from 1."""
    spans = list[Span]()
    for number, text in enumerate(texts, start=1):
        spans += [Span(f"[{number}] "), untrusted(text), Span("\n")]
    return tuple(spans)


def example_spans(demos: Sequence[Demo], gap: str) -> tuple[Span, ...]:
    """Return worked examples, each followed by `gap`."""
    spans = list[Span]()
    for demo in demos:
        spans += [Span("Question: "), untrusted(demo.question)]
        spans += [Span("\nAnswer: "), untrusted(demo.answer), Span(gap)]
    return tuple(spans)


def passage_text(passage: Passage) -> str:
    """Return the title and text of a passage on one line."""
    title = f"{passage.title}: " if passage.title else ""
    return " ".join(f"{title}{passage.text}".split())


def question_spans(question: Question) -> tuple[Span, ...]:
    """Return the question on one line and its options on the next."""
    asked = [untrusted(" ".join(question.text.split()))]
    if question.options:
        asked += [Span("\nOptions: "), untrusted("; ".join(question.options))]
    return tuple(asked)


async def label_probabilities(model: Model, prompt: Prompt, labels: Iterable[str]) -> list[float]:
    """Return the probabilities of labels after a prompt, normalised to sum to 1.

    If every label is impossible, all results are 0.
    """
    logprobs = [option.logprob for option in await model.score(prompt, label_options(prompt, labels))]
    best = max(logprobs)
    if not math.isfinite(best):
        return [0.0] * len(logprobs)
    weights = [math.exp(logprob - best) for logprob in logprobs]
    return [weight / sum(weights) for weight in weights]


def label_options(prompt: Prompt, labels: Iterable[str]) -> tuple[str, ...]:
    """Return labels as options for `Model.score`.

    If the prompt is raw text, each option begins with a space.
    """
    return tuple(labels if isinstance(prompt, Chat) else (f" {label}" for label in labels))
