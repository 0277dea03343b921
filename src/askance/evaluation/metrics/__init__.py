"""Metrics, each of which gives a number for a question.

A metric returns a number for each question, or None if the metric does not apply to the question. Means are
taken over the questions that the metric applies to. Whether a metric applies depends only on the question and
the gold answers, so every method is measured on the same questions. The module `prices` computes the cost of
answers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from askance.core.answers import Answer
from askance.evaluation.datasets import Example

if TYPE_CHECKING:
    from askance.core.trace import AnyEvent

Reads = Literal["short answer", "text", "citations", "trace"]
UNICODE = ":unicode"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        function: The function that computes the metric or, in the catalogue, its ``module:name``. Its
            arguments are the input that `reads` names, and then the gold answers or the whole example.
        reads: The input that is scored: a part of the answer, or the trace.
        takes_example: Whether the function takes the example instead of its gold answers.
        counts_passages: Whether "@K" may follow the name. The function then takes the number of passages to
            consider as the keyword argument `first`.
        has_ascii_signs: Whether typographic dashes and quotation marks count as the ASCII ones, which
            `UNICODE` after the name of a metric requests.
        package: The import name of a package that the metric needs; empty if it needs none.
        extra: The extra of askance that installs the package.
    """

    function: Callable[..., float | None] | str
    reads: Reads
    takes_example: bool = False
    counts_passages: bool = False
    has_ascii_signs: bool = False
    package: str = ""
    extra: str = ""

    @property
    def parameter(self) -> str:
        """The parameter that may follow the name in a listing, such as ``[@K]``."""
        return "[@K]" if self.counts_passages else f"[{UNICODE}]" if self.compares_texts else ""

    @property
    def compares_texts(self) -> bool:
        """True if the metric only compares a text with the gold answers."""
        return self.reads in ("short answer", "text") and not self.takes_example

    def score(self, example: Example, answer: Answer, events: "Sequence[AnyEvent]") -> float | None:
        """Return the score of an answer, or None if the metric does not apply to the question."""
        if not self.takes_example and not example.golds:
            return None
        inputs: dict[Reads, Any] = {
            "short answer": answer.short,
            "text": answer.text,
            "citations": answer.citations,
            "trace": events,
        }
        assert callable(self.function), "the catalogue's metrics are opened before they are used"
        value, golds = inputs[self.reads], example.golds
        if self.has_ascii_signs:
            from askance.text.answers import with_ascii_signs  # slow to import

            value, golds = with_ascii_signs(value), tuple(map(with_ascii_signs, golds))
        return self.function(value, example if self.takes_example else golds)
