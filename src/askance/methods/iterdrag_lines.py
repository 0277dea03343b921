"""An answer of IterDRAG on its way: its lines, the passages behind them, and what there is room for."""

import re
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from askance.core.ports import Run
from askance.core.types import Answer, GenerateRequest, Hit, Key, Prompt, Question, Sampling
from askance.methods.budget import NoRoom, has_room, most_that_fit
from askance.methods.citing import cited
from askance.methods.iterdrag_prompts import EXAMPLES, FINAL, FOLLOW_UP, INTERMEDIATE, line_prompt, read_line
from askance.methods.plain_trace import settled, without_markers
from askance.methods.searching import num_in_room, search_as_fits, search_for
from askance.text.answers import normalise_answer, short_answer

if TYPE_CHECKING:
    from askance.methods.iterdrag import Iterdrag

_BESIDE = re.compile(rf"^(?:{FOLLOW_UP}.*|{INTERMEDIATE})", re.MULTILINE)
"""What of the lines claims nothing."""
_SHARE_OF_PASSAGES = 0.9
"""Of L_max, where the number of passages follows from it."""


@dataclass(slots=True)
class Lines:
    """One question on its way.

    Attributes:
        text: the lines so far, without a line break at the end.
        hits: all passages, as they are shown.
        shown: since which character of the text which passages are.
        asked: follow-ups.
        num_passages: per search.
        final: what stands in the final line, once there is one.
    """

    iterdrag: "Iterdrag"
    question: Question
    run: Run
    text: str = ""
    hits: tuple[Hit, ...] = ()
    shown: list[tuple[int, tuple[Hit, ...]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    num_passages: int = 0
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

        self.num_passages = self.num_passages or self.iterdrag.passages
        if self.num_passages:
            found = await search(self.num_passages)
        else:
            most = self.iterdrag.most_passages
            found = await search_as_fits(search, self._affordable, most)
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
        max_tokens = self.iterdrag.line_tokens
        prompt = self._prompt(self.hits, begun)
        if not has_room(self.run.model, prompt, max_tokens, keep=self._closing(begun)):
            raise NoRoom
        beginning, said = read_line(await self._written(prompt, max_tokens, key))
        if not begun or beginning == begun:
            return beginning, said
        return begun, f"{beginning} {said}".strip()

    async def conclude(self) -> None:
        """Write the final line with as many passages as there is room for; the lowest ranks go first."""
        most, max_tokens = len(self.hits), self.iterdrag.answer_tokens
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
        examples = EXAMPLES[: self.iterdrag.examples]
        return line_prompt(self.run.model, self.question, hits, so_far, examples, self.iterdrag.layout)

    def _closing(self, begun: str) -> int:
        """Input tokens of the final call without passages, once a line has been written."""
        if self.iterdrag.l_max is None:
            return 0
        bare = self._prompt((), f"{begun}\n{FOLLOW_UP}\n{INTERMEDIATE}\n{FINAL}")
        return self.run.model.count(bare) + self.iterdrag.line_tokens

    def _affordable(self, found: Sequence[Hit]) -> int:
        """Passages per search that leave a tenth of L_max, or of the window, after the last of all rounds.

        With an L_max that is larger than the window, those of two searches fit into the window.
        """
        model, iterdrag = self.run.model, self.iterdrag
        window = model.context_tokens
        most = min(
            (iterdrag.l_max or window) / (iterdrag.max_iters + 1), window / min(2, iterdrag.max_iters + 1)
        )
        room = _SHARE_OF_PASSAGES * most
        return num_in_room(found, room, lambda hits: model.count(self._prompt(tuple(hits), "")))
