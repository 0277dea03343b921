"""Answers, with their citations and their cost."""

from dataclasses import dataclass, field

from askance.core.types import Passage

UPPER_BOUND = "upper bound"
"""The key in `Decided.numbers` that marks token counts of a budget as upper bounds."""


@dataclass(frozen=True, slots=True)
class Citation:
    """A statement that a passage supports the text `answer.text[start:end]`.

    Attributes:
        number: The number under which the passage is printed, from 1.
        passage: The supporting passage.
        start, end: The offsets of the supported text in the answer.
    """

    number: int
    passage: Passage
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class UnsupportedSentence:
    """A statement that no passage supports the sentence `answer.text[start:end]`, and the reason.

    The sentence cites no passage, or one that does not support it (see `askance.text.support`).
    """

    start: int
    end: int
    why: str


UNSUPPORTED = "[?]"
"""The mark of an unsupported sentence in plain text."""
NOT_IN_DOCUMENTS = "Not in the documents"
"""What a reader is told about an answer that was abstained from."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question.

    Attributes:
        text: All text that the method committed.
        short: The short answer extracted from the text; empty if there is none.
        citations: The passages that support parts of the text. An abstained answer has none.
        reflection: The method's own judgement that the passages are relevant and support the text, from 0 to
            1; None if the method makes no such judgement. Answers that differ only in it are equal, because
            its last digits depend on what is computed in the same batch.
        agreement: The share of the sampled answers that agree with this one; None if there is only one.
        confidence: The estimated probability that the documents answer the question (see
            `askance.confidence`); None if it was not estimated.
        abstained: The reason why the answer must not be relied on: the documents do not answer the question.
            Empty if the answer stands.
        source: Where the answer comes from, such as "from [1]" or "from memory, 0.93" (see
            `text.support.source_of`); empty if it is unknown. Its number depends on the batch, so answers
            that differ only in it are equal.
        unsupported: The sentences of the text that no passage supports, in order. An abstained answer, one
            for which no passage was found, and one that the method itself has taken from memory have none:
            they say as a whole where they come from.
        checked_by: The name of the model that judged the sentences that cite a passage; empty if only their
            names and numbers were compared.
    """

    text: str
    short: str = ""
    citations: tuple[Citation, ...] = field(default=())
    reflection: float | None = field(default=None, compare=False)
    agreement: float | None = None
    confidence: float | None = None
    abstained: str = ""
    source: str = field(default="", compare=False)
    unsupported: tuple[UnsupportedSentence, ...] = ()
    checked_by: str = ""

    @property
    def statement(self) -> str:
        """The text, or the statement that the documents do not answer the question."""
        return f"{NOT_IN_DOCUMENTS}: {self.abstained}." if self.abstained else self.text


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of answering a question.

    Attributes:
        prompt_tokens: The number of prompt tokens of all calls, including those reused from a cache.
        generated_tokens: The number of tokens of all generations, including dropped tokens.
        reused_tokens: The number of prompt tokens that came from a cache.
        searches: The number of searches.
        calls: The number of model calls. Each generation, scored prompt or attention pass counts as one.
        seconds: The time since the question was asked.
        is_upper_bound: True if `prompt_tokens` is only an upper bound, because the exact length of some
            prompt is unknown.
    """

    prompt_tokens: int = 0
    generated_tokens: int = 0
    reused_tokens: int = 0
    searches: int = 0
    calls: int = 0
    seconds: float = 0.0
    is_upper_bound: bool = False

    @property
    def tokens(self) -> int:
        """The number of prompt tokens, reused or not, and generated tokens."""
        return self.prompt_tokens + self.generated_tokens
