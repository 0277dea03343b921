"""A text on its way, sentence by sentence: what is written, which passages were shown, why it ends."""

from dataclasses import dataclass, field

from askance.core.ports import Run
from askance.core.trace import Decided
from askance.core.types import Generation, Hit, Question
from askance.methods.queries import Asking
from askance.methods.rind import Doubt
from askance.text.answers import has_answer
from askance.text.linguistics import Linguistics


@dataclass(slots=True)
class Progress:
    """One question on its way.

    Attributes:
        num_tokens: of the answer so far.
        hits: the passages in the prompt.
        shown: since which character of the answer which passages are.
    """

    question: Question
    run: Run
    text: str = ""
    num_tokens: int = 0
    num_searches: int = 0
    hits: tuple[Hit, ...] = ()
    shown: list[tuple[int, tuple[Hit, ...]]] = field(default_factory=list)

    async def search(
        self, decision: Decided, passages: int, exclude: frozenset[str] = frozenset()
    ) -> tuple[Hit, ...]:
        """At most so many passages for the query of `decision`."""
        self.num_searches += 1
        with self.run.trace.because(decision):
            return await self.run.retriever.search(decision.query, passages, exclude=exclude)

    def show(self, hits: tuple[Hit, ...]) -> None:
        """Replace the passages in the prompt. One that was found twice stands there once."""
        self.hits = tuple({hit.passage.id: hit for hit in reversed(hits)}.values())[::-1]
        self.shown.append((len(self.text), self.hits))

    @property
    def seen(self) -> frozenset[str]:
        """The ids of all passages that were in the prompt."""
        return frozenset(hit.passage.id for _, hits in self.shown for hit in hits)

    def keep(self, text: str, num_tokens: int) -> None:
        """Take text that will not be taken back."""
        self.run.trace.commit(text)
        self.text += text
        self.num_tokens += num_tokens

    def end_reason(self, written: Generation, room: int) -> str:
        """Why the answer ends with what was just written, or nothing."""
        if written.finish in ("end", "stop") or not written.text.strip():
            return "the model ended its answer"
        if has_answer(self.text + written.text) and written.finish != "length":
            return "the answer is stated"
        return "the answer has all the tokens it may have" if len(written.tokens) >= room else ""

    def asking(self, doubt: Doubt, linguistics: Linguistics, last_tokens: int) -> Asking:
        """What a query is made from."""
        return Asking(self.question.text, self.text.strip(), doubt, linguistics, "", last_tokens)
