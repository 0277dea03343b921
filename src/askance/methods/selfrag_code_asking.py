"""What both forms of the Self-RAG authors' code do: write behind the question's prompt, and say so."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from askance.core.ports import Run
from askance.core.trace import Decided
from askance.core.types import GenerateRequest, Generation, Hit, Key, Part, Question, Raw, Sampling, Span
from askance.methods.reflection_tokens import NO_SEARCH, SEARCH, Distribution
from askance.methods.reflection_vocabulary import WANT, Vocabulary
from askance.methods.selfrag_code_output import END
from askance.methods.selfrag_code_reading import Judgements
from askance.methods.selfrag_deciding import decided, found_for, note_disarmed
from askance.methods.selfrag_native import passage_parts
from askance.methods.selfrag_segments import Action, fitting
from askance.methods.selfrag_tasks import before_answer, instruction_spans, num_broken

if TYPE_CHECKING:
    from askance.methods.selfrag import Selfrag


class Asked:
    """One question, and what is written behind its prompt. Nothing stops it but its length."""

    def __init__(self, selfrag: "Selfrag", question: Question, run: Run) -> None:
        self.selfrag, self.question, self.run = selfrag, question, run
        self.vocabulary = Vocabulary.of(run.model)
        note_disarmed(run, "question", num_broken(selfrag, question))
        self._before = before_answer(instruction_spans(selfrag, question))

    async def write(self, *behind: Part, key: Key, max_tokens: int = 0) -> Generation:
        """All that follows `behind`, as long as an answer may be where no other length is given."""
        sampling = Sampling(max_tokens or self.selfrag.max_tokens)
        (written,) = await self.run.model.generate(
            GenerateRequest(Raw(self._before, behind), sampling, WANT, key=key)
        )
        return written

    async def write_with(self, hit: Hit, *, behind: tuple[Part, ...] = (), key: Key) -> Generation:
        """All that follows a passage, which follows `behind`."""
        run, max_tokens = self.run, self.selfrag.max_tokens

        def prompt_with(shown: Hit) -> Raw:
            return Raw(self._before, (*behind, Span(SEARCH), *passage_parts(shown)))

        prompt = fitting(run, run.model, prompt_with, hit, max_tokens)
        (written,) = await run.model.generate(GenerateRequest(prompt, Sampling(max_tokens), WANT, key=key))
        return written

    async def write_alone(self) -> str:
        """The answer without passages."""
        return self.text(await self.write(Span(NO_SEARCH), key=("none",)))

    def text(self, written: Generation) -> str:
        """A generation as text, with the end token where the model's text shows it."""
        return written.text.removesuffix(END) + END if self.shows_end(written) else written.text

    def shows_end(self, written: Generation) -> bool:
        """Whether the model ended, and decodes the token by which it did as some text."""
        ends = tuple(token.id for token in written.dropped) if written.finish == "end" else ()
        return bool(ends and self.run.model.decode(ends))

    async def found(self, decision: Decided) -> tuple[Hit, ...]:
        """The passages for the question, where the decision is to search for them."""
        if decision.outcome != "search":
            return ()
        return await found_for(self.run, decision, self.selfrag.passages)

    def decided_by_mode(self) -> Decided:
        """The decision where there is none to make."""
        action: Action = "retrieve" if self.selfrag.mode == "always" else "none"
        return decided(self.selfrag, self.run, {}, action, self.question.text)

    def decided_by_share(self, share: float, threshold: float, kind: str, probs: Distribution) -> Decided:
        """The decision by a share of [Retrieval], of whichever kind."""
        above = "above" if share > threshold else "not above"
        why = f"the {kind} is {share:.2f}, {above} {threshold:g}"
        return self.decided(share > threshold, why, signal=kind, numbers={**probs, "share": share})

    def decided(
        self, searches: bool, why: str, signal: str = "", numbers: Mapping[str, float] | None = None
    ) -> Decided:
        """A decision in the trace."""
        return self.run.trace.decide(
            "retrieve",
            "search" if searches else "keep",
            why,
            signal=signal,
            threshold=self.selfrag.threshold,
            query=self.question.text if searches else "",
            numbers=dict(numbers or {}),
        )

    def show(self, node: str, text: str, hit: Hit, numbers: Mapping[str, float], judged: Judgements) -> None:
        """A candidate in the trace: its text, passage, scores and what they were read from."""
        found = {name: dict(probs) for name, probs in judged.items() if probs}
        self.run.trace.expand(node, "retrieve", text, passage=hit, numbers=dict(numbers), distributions=found)
