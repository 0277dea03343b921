"""IterDRAG: the model asks itself follow-up questions, and answers each from passages found for it."""

import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from askance.core.knobs import knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, GenerateRequest, Hit, Key, Prompt, Question, Sampling
from askance.methods.bounded import Bounded
from askance.methods.budget import NoRoom, has_room, most_that_fit
from askance.methods.finishing import cited
from askance.methods.iterdrag_prompts import (
    EXAMPLES,
    FINAL,
    FOLLOW_UP,
    INTERMEDIATE,
    Worked,
    line_prompt,
    read_line,
)
from askance.methods.plain_trace import settled, without_markers
from askance.methods.prompts import Layout, layout_needs
from askance.methods.searching import num_in_room, search_as_fits, search_for
from askance.text.answers import normalise_answer, short_answer

_BESIDE = re.compile(rf"^(?:{FOLLOW_UP}.*|{INTERMEDIATE})", re.MULTILINE)
"""What of the lines claims nothing."""
_SHARE_OF_PASSAGES = 0.9
"""Of L_max, where the number of passages follows from it."""


@dataclass(slots=True)
class Lines:
    """One question on its way.

    Attributes:
        num_passages: per search; 0 where that follows from what is found first, up to `most_passages`.
        text: the lines so far, without a line break at the end.
        hits: all passages, as they are shown.
        shown: since which character of the text which passages are.
        asked: follow-ups.
        final: what stands in the final line, once there is one.
    """

    question: Question
    run: Run
    num_passages: int
    most_passages: int | None
    l_max: int | None
    max_iters: int
    line_tokens: int
    answer_tokens: int
    examples: Sequence[Worked]
    layout: Layout
    text: str = ""
    hits: tuple[Hit, ...] = ()
    shown: list[tuple[int, tuple[Hit, ...]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    final: str | None = None

    @property
    def num_repeats(self) -> int:
        """Follow-ups that had been asked before."""
        return len(self.asked) - len(set(map(normalise_answer, self.asked)))

    async def search(self, query: str, why: str) -> None:
        """Add what is found for a query to the passages, the best of it last."""
        query = without_markers(query, self.question, self.run.trace)

        def search(k: int) -> Awaitable[tuple[Hit, ...]]:
            return search_for(query, self.run, k, why)

        if self.num_passages:
            found = await search(self.num_passages)
        else:
            found = await search_as_fits(search, self._affordable, self.most_passages)
            self.num_passages = min(self._affordable(found), len(found))
        known = {hit.passage.id for hit in self.hits}
        fresh = [hit for hit in found[: self.num_passages] if hit.passage.id not in known]
        self.hits = (*self.hits, *reversed(fresh))
        self.shown.append((len(self.text), self.hits))

    async def write(self, begun: str, key: Key) -> tuple[str, str]:
        """The next line, which begins with `begun`: its beginning, and what stands behind.

        Raises:
            NoRoom: there is none for it and for the final line behind it.
        """
        max_tokens = self.line_tokens
        prompt = self._prompt(self.hits, begun)
        if not has_room(self.run.model, prompt, max_tokens, keep=self._closing(begun)):
            raise NoRoom
        beginning, said = read_line(await self._written(prompt, max_tokens, key))
        if not begun or beginning == begun:
            return beginning, said
        return begun, f"{beginning} {said}".strip()

    async def conclude(self) -> None:
        """Write the final line with as many passages as there is room for; the lowest ranks go first."""
        most, max_tokens = len(self.hits), self.answer_tokens
        by_rank = sorted(range(most), key=lambda at: (self.hits[at].rank, -at))

        def prompt_with(num_hits: int) -> Prompt:
            return self._prompt(tuple(self.hits[at] for at in sorted(by_rank[:num_hits])), FINAL)

        num_hits = most_that_fit(
            most, lambda number: has_room(self.run.model, prompt_with(number), max_tokens)
        )
        if num_hits != most:
            why = f"the final answer has room for {num_hits or 0} of {most}"
            self.run.trace.decide("passages", "fewer", why, numbers={"passages": float(num_hits or 0)})
        written = await self._written(prompt_with(num_hits or 0), max_tokens, ("final",))
        self.keep(FINAL, read_line(written)[1])

    def keep(self, beginning: str, said: str) -> None:
        """Take a line, which stays."""
        line = f"{beginning} {said}".strip()
        piece = f"\n{line}" if self.text else line
        self.run.trace.commit(piece)
        self.text += piece
        if beginning == FINAL:
            self.final = said

    def answer(self) -> Answer:
        """All lines; the short answer is read from the last alone, and follow-ups cite nothing."""
        written = settled(self.run.trace)
        final = without_markers(f"{FINAL} {self.final}", self.question, self.run.trace)
        short = short_answer(final, self.question) if self.final else ""
        asked, due = list[tuple[int, str]](), self.question.text
        for line in re.finditer(r"^.*$", written.text, re.MULTILINE):
            if line[0].startswith(FOLLOW_UP):
                due = line[0].removeprefix(FOLLOW_UP)
            asked.append((line.start(), self.question.text if line[0].startswith(FINAL) else due))
        stated = _BESIDE.sub(lambda line: " " * len(line[0]), written.text)
        citations = cited(self.question, self.run.trace, written, self.shown, short, asked, stated)
        return Answer(written.text, short, citations)

    async def _written(self, prompt: Prompt, max_tokens: int, key: Key) -> str:
        sampling = Sampling(max_tokens, stop=("\n",))
        (written,) = await self.run.model.generate(
            GenerateRequest(prompt, sampling, key=key, watch=self.run.trace.draft)
        )
        return written.text

    def _prompt(self, hits: tuple[Hit, ...], begun: str) -> Prompt:
        so_far = f"{self.text}\n{begun}" if self.text else begun
        return line_prompt(self.run.model, self.question, hits, so_far, self.examples, self.layout)

    def _closing(self, begun: str) -> int:
        """Input tokens of the final call without passages, once a line has been written."""
        if self.l_max is None:
            return 0
        bare = self._prompt((), f"{begun}\n{FOLLOW_UP}\n{INTERMEDIATE}\n{FINAL}")
        return self.run.model.count(bare) + self.line_tokens

    def _affordable(self, found: Sequence[Hit]) -> int:
        """Passages per search that leave a tenth of L_max, or of the window, after the last of all rounds.

        With an L_max that is larger than the window, those of two searches fit into the window.
        """
        model, window = self.run.model, self.run.model.context_tokens
        most = min((self.l_max or window) / (self.max_iters + 1), window / min(2, self.max_iters + 1))
        room = _SHARE_OF_PASSAGES * most
        return num_in_room(found, room, lambda hits: model.count(self._prompt(tuple(hits), "")))


@dataclass(frozen=True, slots=True)
class Iterdrag(Bounded):
    """IterDRAG (Yue et al. 2024, arXiv 2410.04343), a baseline of AirRAG (Feng et al. 2025).

    (The paper is "Inference Scaling for Long-Context Retrieval Augmented Generation".) Behind the passages
    for the question, the model writes one line at a time, which begins in one of three ways. `Follow up:` is
    a query: what it finds joins the passages, and the next line must be an `Intermediate answer:`. `So the
    final answer is:` ends it, and is forced after `max_iters` lines of the model's own choice. Nothing keeps
    it from asking the same again; the trace counts that. `max_iters=0` is the paper's DRAG.

    Deviations: a beginning is forced where there is but one; where there are several, the line is read, and
    one with none of the three, or with nothing behind it, forces the end. The examples are our own, with two
    passages at most; passages are shown as they are in the index, those of a later search behind those of
    an earlier one, each search's best last. The paper tries numbers of passages and examples out for each
    L_max; `passages=0` takes what leaves a tenth of it, if each of all rounds finds as many. A line is
    written only if what is left of `l_max` has room for the last one behind it, which drops the passages of
    the lowest ranks as far as it must.
    """

    passages: int = knob(
        3, "passages per search; 0: as follows from l_max or the window, up to most_passages", at_least=0
    )
    most_passages: int | None = knob(None, "the most of them; none: no other limit", at_least=1)
    max_iters: int = knob(5, "most lines before the final answer is forced; 0: no follow-up", at_least=0)
    examples: int = knob(0, "worked examples in the prompt", at_least=0, at_most=len(EXAMPLES))
    line_tokens: int = knob(64, "most new tokens of a follow-up or an intermediate answer", at_least=1)
    answer_tokens: int = knob(64, "most new tokens of the final answer", at_least=1)
    layout: Layout = knob("auto", "raw text or the model's chat format; auto is raw where the model takes it")

    paper: ClassVar[str] = "Yue et al. 2024 (IterDRAG)"
    searches: ClassVar[str] = "with each follow-up question"

    @property
    def needs(self) -> Needs:
        return Needs(one_of=layout_needs(self.layout, goes_on=True), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        lines = Lines(
            question,
            run,
            self.passages,
            self.most_passages,
            self.l_max,
            self.max_iters,
            self.line_tokens,
            self.answer_tokens,
            EXAMPLES[: self.examples],
            self.layout,
        )
        await lines.search(question.text, "the first search is made with the question itself")
        try:
            reason = await self._ask_and_answer(lines)
        except NoRoom:
            reason = "there is no room for another line"
        if lines.final is None:
            await lines.conclude()
        numbers = {"follow-ups": len(lines.asked), "repeated follow-ups": lines.num_repeats}
        run.trace.decide("end", "stop", reason, numbers={name: float(n) for name, n in numbers.items()})
        return lines.answer()

    async def _ask_and_answer(self, lines: Lines) -> str:
        """Write lines until one is final or none may follow; the reason."""
        for step in range(self.max_iters):
            beginning, said = await lines.write("", ("line", step))
            if not beginning or not said:
                return "the model wrote neither a follow-up nor an intermediate or final answer"
            lines.keep(beginning, said)
            if beginning == FINAL:
                return "the model gave its final answer"
            if beginning == FOLLOW_UP:
                lines.asked.append(said)
                await lines.search(said, "the model asks a follow-up")
                _, answer = await lines.write(INTERMEDIATE, ("intermediate", step))
                lines.keep(INTERMEDIATE, answer)
        return f"there were {self.max_iters} lines of the model's own"
