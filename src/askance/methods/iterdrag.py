"""IterDRAG: the model asks itself follow-up questions, and answers each from passages found for it.

The three beginnings of a line are the paper's; all other words of the prompt are ours.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from askance.core.parameters import parameter
from askance.core.ports import Model, Needs, Run
from askance.core.token_ledger import NoRoom, has_room
from askance.core.types import (
    Answer,
    GenerateRequest,
    Hit,
    Key,
    Passage,
    Prompt,
    Question,
    Sampling,
    Span,
    untrusted,
)
from askance.methods.common.answer_text import cited, plain_of, settled
from askance.methods.common.prompts import EXAMPLES as WORKED
from askance.methods.common.prompts import (
    Layout,
    chat_turns,
    in_layout,
    layout_needs,
    numbered,
    passage_text,
    question_spans,
)
from askance.methods.common.search import num_in_room, num_shown, search_as_fits, search_for
from askance.methods.common.token_limit import TokenLimited
from askance.text.answers import normalise_answer, short_answer

FOLLOW_UP, INTERMEDIATE, FINAL = "Follow up:", "Intermediate answer:", "So the final answer is:"
_BEGINNINGS = {
    FOLLOW_UP: re.compile(r"follow[ -]?up\s*:\s*", re.IGNORECASE),
    INTERMEDIATE: re.compile(r"intermediate answer\s*:\s*", re.IGNORECASE),
    FINAL: re.compile(r"so the final answer is\s*:\s*", re.IGNORECASE),
}
_BESIDE = re.compile(rf"^(?:{FOLLOW_UP}.*|{INTERMEDIATE})", re.MULTILINE)
"""What of the lines claims nothing."""
_SHARE_OF_PASSAGES = 0.9
"""Of L_max, where the number of passages follows from it."""


INSTRUCTION = (
    "Answer the question from the passages, line by line. Where something is missing, write a line that "
    f'begins with "{FOLLOW_UP}" and asks for it; answer that from the passages in a line that begins with '
    f'"{INTERMEDIATE}". When nothing is missing, end with a line that begins with "{FINAL}" and gives the '
    "correct and concise answer."
)

EXAMPLES = WORKED["iterdrag"]
"""Examples of our own: passages, a question, and the lines that answer it."""


@dataclass(slots=True)
class Lines:
    """One question on its way.

    Attributes:
        num_passages: per search; 0 while that is not known.
        text: the lines so far, without a line break at the end.
        hits: all passages, as they are shown.
        shown: since which character of the text which passages are.
        asked: follow-ups.
        final: what stands in the final line, once there is one.
    """

    question: Question
    run: Run
    num_passages: int
    text: str = ""
    hits: tuple[Hit, ...] = ()
    shown: list[tuple[int, tuple[Hit, ...]]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    final: str | None = None

    def keep(self, beginning: str, said: str) -> None:
        """Take a line, which stays."""
        line = f"{beginning} {said}".strip()
        piece = f"\n{line}" if self.text else line
        self.run.trace.commit(piece)
        self.text += piece
        if beginning == FINAL:
            self.final = said

    def finish(self, reason: str) -> Answer:
        """All lines; the short answer is read from the last alone, and follow-ups cite nothing."""
        question, trace = self.question, self.run.trace
        num_repeats = len(self.asked) - len(set(map(normalise_answer, self.asked)))
        numbers = {"follow-ups": float(len(self.asked)), "repeated follow-ups": float(num_repeats)}
        trace.decide("end", "stop", reason, numbers=numbers)
        written = settled(trace)
        final = plain_of(f"{FINAL} {self.final}", question, trace).text
        short = short_answer(final, question) if self.final else ""
        asked, due = list[tuple[int, str]](), question.text
        for line in re.finditer(r"^.*$", written.text, re.MULTILINE):
            if line[0].startswith(FOLLOW_UP):
                due = line[0].removeprefix(FOLLOW_UP)
            asked.append((line.start(), question.text if line[0].startswith(FINAL) else due))
        stated = _BESIDE.sub(lambda line: " " * len(line[0]), written.text)
        citations = cited(trace, written, self.shown, short, asked, stated)
        return Answer(written.text, short, citations)


@dataclass(frozen=True, slots=True)
class Iterdrag(TokenLimited):
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

    passages: int = parameter(
        3, "passages per search; 0: as follows from l_max or the window, up to most_passages", at_least=0
    )
    most_passages: int | None = parameter(None, "the most of them; none: no other limit", at_least=1)
    max_iters: int = parameter(5, "most lines before the final answer is forced; 0: no follow-up", at_least=0)
    examples: int = parameter(0, "worked examples in the prompt", at_least=0, at_most=len(EXAMPLES))
    line_tokens: int = parameter(64, "most new tokens of a follow-up or an intermediate answer", at_least=1)
    answer_tokens: int = parameter(64, "most new tokens of the final answer", at_least=1)
    layout: Layout = parameter(
        "auto", "raw text or the model's chat format; auto is raw where the model takes it"
    )

    paper: ClassVar[str] = "Yue et al. 2024 (IterDRAG)"
    searches: ClassVar[str] = "with each follow-up question"

    @property
    def needs(self) -> Needs:
        return Needs(one_of=layout_needs(self.layout, goes_on=True), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        lines = Lines(question, run, self.passages)
        await self._search(lines, question.text, "the first search is made with the question itself")
        try:
            reason = await self._ask_and_answer(lines)
        except NoRoom:
            reason = "there is no room for another line"
        if lines.final is None:
            await self._conclude(lines)
        return lines.finish(reason)

    async def _ask_and_answer(self, lines: Lines) -> str:
        """Write lines until one is final or none may follow; the reason."""
        for step in range(self.max_iters):
            beginning, said = await self._line(lines, "", ("line", step))
            if not beginning or not said:
                return "the model wrote neither a follow-up nor an intermediate or final answer"
            lines.keep(beginning, said)
            if beginning == FINAL:
                return "the model gave its final answer"
            if beginning == FOLLOW_UP:
                lines.asked.append(said)
                await self._search(lines, said, "the model asks a follow-up")
                lines.keep(*await self._line(lines, INTERMEDIATE, ("intermediate", step)))
        return f"there were {self.max_iters} lines of the model's own"

    async def _search(self, lines: Lines, query: str, why: str) -> None:
        """Add what is found for a query to the passages, the best of it last."""
        query = plain_of(query, lines.question, lines.run.trace).text
        search, affordable = partial(search_for, query, lines.run, why=why), partial(self._affordable, lines)
        found = await search_as_fits(search, affordable, lines.num_passages, self.most_passages)
        lines.num_passages = lines.num_passages or min(affordable(found), len(found))
        known = {hit.passage.id for hit in lines.hits}
        fresh = [hit for hit in found[: lines.num_passages] if hit.passage.id not in known]
        lines.hits = (*lines.hits, *reversed(fresh))
        lines.shown.append((len(lines.text), lines.hits))

    async def _line(self, lines: Lines, begun: str, key: Key) -> tuple[str, str]:
        """The next line, which begins with `begun`: its beginning, and what stands behind.

        Raises:
            NoRoom: there is none for it and for the final line behind it.
        """
        model, prompt, closing = lines.run.model, self._prompt(lines, lines.hits, begun), 0
        if self.l_max is not None:
            bare = self._prompt(lines, (), f"{begun}\n{FOLLOW_UP}\n{INTERMEDIATE}\n{FINAL}")
            closing = model.count(bare) + self.line_tokens
        if not has_room(model, prompt, self.line_tokens, keep=closing):
            raise NoRoom
        beginning, said = await _written(lines, prompt, self.line_tokens, key)
        if not begun or beginning == begun:
            return beginning, said
        return begun, f"{beginning} {said}".strip()

    async def _conclude(self, lines: Lines) -> None:
        """Write the final line with as many passages as there is room for; the lowest ranks go first."""
        most, run = len(lines.hits), lines.run
        by_rank = sorted(range(most), key=lambda at: (lines.hits[at].rank, -at))

        def prompt_with(num_hits: int) -> Prompt:
            return self._prompt(lines, [lines.hits[at] for at in sorted(by_rank[:num_hits])], FINAL)

        num_hits = num_shown(run, most, prompt_with, self.answer_tokens)
        _, said = await _written(lines, prompt_with(num_hits), self.answer_tokens, ("final",))
        lines.keep(FINAL, said)

    def prompt(self, model: Model, question: Question, hits: Sequence[Hit], so_far: str) -> Prompt:
        """The prompt that makes `model` go on with the lines `so_far`, which may end within one.

        Args:
            hits: in the order in which they are to be shown.
        """
        asked = _asked([hit.passage for hit in hits], question_spans(question))
        worked = []
        for each in EXAMPLES[: self.examples]:
            passages = [Passage("", **told) for told in each["passages"]]
            worked.append((_asked(passages, (untrusted(each["question"]),)), each["lines"]))
        parts = [Span(f"{INSTRUCTION}\n\n")]
        for spans, answer in worked:
            parts += [*spans, Span("\n"), untrusted(answer), Span("\n\n")]
        turns = chat_turns(INSTRUCTION, worked, asked)
        return in_layout(self.layout, model, [*parts, *asked, Span("\n")], turns, so_far)

    def _prompt(self, lines: Lines, hits: Sequence[Hit], begun: str) -> Prompt:
        so_far = f"{lines.text}\n{begun}" if lines.text else begun
        return self.prompt(lines.run.model, lines.question, hits, so_far)

    def _affordable(self, lines: Lines, found: Sequence[Hit]) -> int:
        """Passages per search that leave a tenth of L_max, or of the window, after the last of all rounds.

        With an L_max that is larger than the window, those of two searches fit into the window.
        """
        model, num_searches = lines.run.model, self.max_iters + 1
        window = model.context_tokens
        most = min((self.l_max or window) / num_searches, window / min(2, num_searches))
        room = _SHARE_OF_PASSAGES * most
        return num_in_room(found, room, lambda hits: model.count(self._prompt(lines, hits, "")))


async def _written(lines: Lines, prompt: Prompt, max_tokens: int, key: Key) -> tuple[str, str]:
    sampling = Sampling(max_tokens, stop=("\n",))
    (written,) = await lines.run.model.generate(
        GenerateRequest(prompt, sampling, key=key, watch=lines.run.trace.draft)
    )
    return read_line(written.text)


def read_line(text: str) -> tuple[str, str]:
    """Which of the three beginnings a line has, or nothing, and what stands behind it."""
    plain = " ".join(text.split())
    for beginning, pattern in _BEGINNINGS.items():
        found = pattern.match(plain)
        if found:
            return beginning, plain[found.end() :]
    return "", plain


def _asked(passages: Sequence[Passage], question: Sequence[Span]) -> tuple[Span, ...]:
    shown = (*numbered([passage_text(each) for each in passages]), Span("\n")) if passages else ()
    return (*shown, Span("Question: "), *question)
