"""An answer of DRAGIN on its way: what is written, which passages were shown, why it ends."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from askance.core.ports import Run
from askance.core.trace import Decided
from askance.core.types import GenerateRequest, Generation, Hit, Question, Sampling, Until, Want
from askance.methods.looking import Look
from askance.methods.plain_trace import judgeable, plain_of, without_markers
from askance.methods.prompts import STOPS, answer_prompt
from askance.methods.queries import Asking
from askance.methods.rind import Doubt
from askance.methods.rind_paper import SentenceFollowed
from askance.text.answers import AnswerEnd, has_answer
from askance.text.linguistics import Linguistics
from askance.text.sentences import SentenceEnd

if TYPE_CHECKING:
    from askance.methods.dragin import Dragin


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

    async def write(self, dragin: "Dragin", want: Want, room: int, step: int) -> Generation:
        """The next sentence, or the next `every_tokens` tokens.

        With attention it goes one token further: a token's row exists once it has been fed.
        """
        run = self.run
        prompt = answer_prompt(run.model, self.question, self.hits, self.text, dragin.layout, dragin.wording)
        until: Until = SentenceFollowed() if want.attention else SentenceEnd()
        if dragin.trigger == "every_tokens":
            until, room = AnswerEnd(self.text), min(room, dragin.every_tokens)
        (written,) = await run.model.generate(
            GenerateRequest(
                prompt, Sampling(room, stop=STOPS), want, until, key=("sentence", step), watch=run.trace.draft
            )
        )
        return written

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

    def judgeable(self, written: Generation) -> Generation:
        """What of `written`, which goes on from the text, can be in doubt."""
        return judgeable(written, self.text, self.question, self.run.trace)

    def readable(self, look: Look, written: Generation) -> Look:
        """`look` with blanks for the markers in the answer."""
        return look.with_answer(plain_of(self.text + written.text, self.question, self.run.trace).blanked)

    def end_reason(self, written: Generation, room: int) -> str:
        """Why the answer ends with what was just written, or nothing."""
        if written.finish in ("end", "stop") or not written.text.strip():
            return "the model ended its answer"
        if has_answer(self.text + written.text) and written.finish != "length":
            return "the answer is stated"
        return "the answer has all the tokens it may have" if len(written.tokens) >= room else ""

    def asking(self, doubt: Doubt, linguistics: Linguistics, last_tokens: int) -> Asking:
        """What a query is made from."""
        text, kept = (
            without_markers(part, self.question, self.run.trace).strip() for part in (self.text, doubt.kept)
        )
        doubt = replace(doubt, kept=kept)
        return Asking(self.question.text, text, doubt, linguistics, "", last_tokens)
