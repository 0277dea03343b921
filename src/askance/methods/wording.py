"""The words of a prompt, which any method takes another set of."""

from dataclasses import dataclass, field, fields
from hashlib import blake2b
from typing import Any

from askance.core.types import Demo

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


@dataclass(frozen=True, slots=True, repr=False)
class Wording:
    """The words of a prompt. Its repr, which traces and cache keys show, changes with the content.

    Attributes:
        demos: worked examples, unless the question brings its own.
        heading: the line above the passages.
        instruction: the line below the passages, in the layout of the DRAGIN authors.
        before_question: what stands before the question to be answered, spaces and line breaks included, in
            that layout, too.
        system: the system turn, where the model's chat format is used; empty for none.
        elicitation: begins the sentence that states the answer, where the text has none; the short answer
            is read after "the answer is".
        name: what the repr begins with; no part of the content, so that renaming changes nothing.
    """

    demos: tuple[Demo, ...] = DEMOS
    heading: str = "Context:"
    instruction: str = "Reply in the way of the examples above."
    before_question: str = ""
    system: str = (
        "Answer the question. Reason in short sentences, one fact in each, "
        'and finish with one sentence of the form "So the answer is ...".'
    )
    elicitation: str = " So the answer is"
    name: str = field(default="wording", compare=False, kw_only=True)

    def __repr__(self) -> str:
        return content_name(self)

    def __str__(self) -> str:
        return next((known.name for known in (OWN, PLAIN) if self == known), repr(self))


def content_name(words: Any) -> str:
    """A dataclass's own name and a checksum of all its fields that are compared."""
    content = repr(tuple(getattr(words, each.name) for each in fields(words) if each.compare))
    return f"{words.name}-{blake2b(content.encode(), digest_size=4).hexdigest()}"


OWN = Wording(name="own")
PLAIN = Wording(demos=(), instruction="Answer from these passages.", name="plain")
"""Without examples, for models that know the form of an answer."""
