"""IterDRAG: the model asks itself follow-up questions and answers each from passages found for it.

The three line prefixes come from the paper. The rest of the prompt was written for this project.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Model, Needs, Run
from askance.core.token_ledger import NoRoom, has_room
from askance.core.types import GenerateRequest, Hit, Key, Passage, Prompt, Question, Sampling, Span, untrusted
from askance.methods.common.answer_text import (
    PlainTrace,
    SentenceEvidence,
    cite_sentences,
    full_text,
    parse_markers,
)
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
from askance.methods.common.search import estimate_fitting, num_fitting, search_for, search_to_fit
from askance.methods.common.token_limit import TokenLimited
from askance.text.answers import normalise_answer, short_answer

FOLLOW_UP, INTERMEDIATE, FINAL = "Follow up:", "Intermediate answer:", "So the final answer is:"
_OPENINGS = {
    FOLLOW_UP: re.compile(r"follow[ -]?up\s*:\s*", re.IGNORECASE),
    INTERMEDIATE: re.compile(r"intermediate answer\s*:\s*", re.IGNORECASE),
    FINAL: re.compile(r"so the final answer is\s*:\s*", re.IGNORECASE),
}
_NO_CLAIM = re.compile(rf"^(?:{FOLLOW_UP}.*|{INTERMEDIATE})", re.MULTILINE)
"""The parts of lines that make no claim: whole follow-up lines, and the prefix of intermediate answers."""
_SHARE_OF_PASSAGES = 0.9
"""The fraction of L_max, or of the context window, that passages may fill if `passages` is 0."""


INSTRUCTION = (
    "Answer the question from the passages, line by line. Where something is missing, write a line that "
    f'begins with "{FOLLOW_UP}" and asks for it; answer that from the passages in a line that begins with '
    f'"{INTERMEDIATE}". When nothing is missing, end with a line that begins with "{FINAL}" and gives the '
    "correct and concise answer."
)

EXAMPLES = WORKED["iterdrag"]
"""Worked examples, written for this project: passages, a question, and the lines that answer the question."""


@dataclass(slots=True)
class IterdragState:
    """The state of one question while IterDRAG writes its lines.

    Attributes:
        num_passages: The number of passages per search; 0 until it is known.
        text: The lines so far, without a line break at the end.
        hits: All passages, in the order in which the prompt shows them.
        shown: Pairs (offset in `text`, passages that the prompt shows from that offset on).
        final: The content of the final line; None until it is written.
    """

    question: Question
    run: Run
    num_passages: int
    text: str = ""
    hits: tuple[Hit, ...] = ()
    shown: list[tuple[int, tuple[Hit, ...]]] = field(default_factory=list)
    follow_ups: list[str] = field(default_factory=list)
    final: str | None = None

    def keep_line(self, opening: str, content: str) -> None:
        """Append a line to the text, and commit the line to the trace."""
        line = f"{opening} {content}".strip()
        piece = f"\n{line}" if self.text else line
        self.run.trace.commit(piece)
        self.text += piece
        if opening == FINAL:
            self.final = content

    def finish(self, reason: str) -> Answer:
        """Return the answer, which consists of all lines.

        Follow-up lines have no citations. The short answer is extracted from the final line only.
        """
        question, trace = self.question, self.run.trace
        num_repeats = len(self.follow_ups) - len(set(map(normalise_answer, self.follow_ups)))
        numbers = {"follow-ups": float(len(self.follow_ups)), "repeated follow-ups": float(num_repeats)}
        trace.decide("end", "stop", reason, numbers=numbers)
        written = full_text(trace)
        final = parse_markers(f"{FINAL} {self.final}", question, trace).text
        short = short_answer(final, question) if self.final else ""
        citations = cite_sentences(trace, written, short, *self.evidence(written.text))
        return Answer(written.text, short, citations)

    def evidence(self, text: str) -> SentenceEvidence:
        """Return the passages shown, the questions that lines answer, and a text without its follow-ups."""
        questions, current = list[tuple[int, str]](), self.question.text
        for line in re.finditer(r"^.*$", text, re.MULTILINE):
            if line[0].startswith(FOLLOW_UP):
                current = line[0].removeprefix(FOLLOW_UP)
            questions.append((line.start(), self.question.text if line[0].startswith(FINAL) else current))
        return self.shown, questions, _NO_CLAIM.sub(lambda line: " " * len(line[0]), text)


@checked_dataclass()
class Iterdrag(TokenLimited):
    """IterDRAG (Yue et al. 2024, arXiv 2410.04343), a baseline of AirRAG (Feng et al. 2025).

    (The paper is "Inference Scaling for Long-Context Retrieval Augmented Generation".) After a search for the
    question, the model writes one line at a time. Each line starts with one of three prefixes. `Follow up:`
    introduces a query: the passages found are added to the prompt, and the next line must be an
    `Intermediate answer:`. The line `So the final answer is:` ends the answer. The method forces this line
    after the model has chosen the prefixes of `max_iters` lines. `max_iters=0` is the paper's DRAG.
    """

    passages: int = parameter(
        3, "number of passages per search; 0: as many as l_max or the window allow", at_least=0
    )
    max_iters: int = parameter(5, "maximum number of lines before the final one; 0: no follow-up", at_least=0)
    examples: int = parameter(0, "number of worked examples in the prompt", at_least=0, at_most=len(EXAMPLES))
    line_tokens: int = parameter(64, "maximum number of new tokens of a line before the last", at_least=1)
    answer_tokens: int = parameter(64, "maximum number of new tokens of the final line", at_least=1)
    layout: Layout = parameter("auto", "raw text, or the model's chat format; auto prefers raw text")

    paper: ClassVar[str] = "Yue et al. 2024 (IterDRAG)"
    searches: ClassVar[str] = "with each follow-up question"

    @property
    def needs(self) -> Needs:
        return Needs(one_of=layout_needs(self.layout, continues=True), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        state = IterdragState(question, run, self.passages)
        if isinstance(run.trace, PlainTrace):
            run.trace.evidence = state.evidence
        await self._search(state, question.text, "the first search is made with the question itself")
        try:
            reason = await self._write_lines(state)
        except NoRoom:
            reason = "there is no room for another line"
        if state.final is None:
            await self._write_final_line(state)
        return state.finish(reason)

    async def _write_lines(self, state: IterdragState) -> str:
        """Write lines up to the final line or the limit, and return the reason for stopping."""
        for step in range(self.max_iters):
            opening, content = await self._write_line(state, "", ("line", step))
            if not opening or not content:
                return "the model wrote neither a follow-up nor an intermediate or final answer"
            state.keep_line(opening, content)
            if opening == FINAL:
                return "the model gave its final answer"
            if opening == FOLLOW_UP:
                state.follow_ups.append(content)
                await self._search(state, content, "the model asks a follow-up")
                state.keep_line(*await self._write_line(state, INTERMEDIATE, ("intermediate", step)))
        return f"the model chose {self.max_iters} lines, the most that max_iters allows"

    async def _search(self, state: IterdragState, query: str, why: str) -> None:
        """Search for a query, and append the new passages to those in the prompt, the best passage last."""
        query = parse_markers(query, state.question, state.run.trace).text
        estimate = partial(self._num_affordable, state)
        search = partial(search_for, query, state.run, why=why)
        found = await search_to_fit(search, estimate, state.num_passages)
        state.num_passages = state.num_passages or min(await estimate(found), len(found))
        known = {hit.passage.id for hit in state.hits}
        new = [hit for hit in found[: state.num_passages] if hit.passage.id not in known]
        state.hits = (*state.hits, *reversed(new))
        state.shown.append((len(state.text), state.hits))

    async def _write_line(self, state: IterdragState, forced: str, key: Key) -> tuple[str, str]:
        """Generate the next line, and return its prefix and its content.

        If `forced` is not empty, it is the prefix of the line.

        Raises:
            NoRoom: The budget has no room for this line and the final line after it.
        """
        model, prompt, num_final = state.run.model, self._prompt(state, state.hits, forced), 0
        if self.l_max is not None:
            bare = self._prompt(state, (), f"{forced}\n{FOLLOW_UP}\n{INTERMEDIATE}\n{FINAL}")
            num_final = await model.count(bare) + self.line_tokens
        if not await has_room(model, prompt, self.line_tokens, keep=num_final):
            raise NoRoom
        opening, content = await _generate_line(state, prompt, self.line_tokens, key)
        if not forced or opening == forced:
            return opening, content
        return forced, f"{opening} {content}".strip()

    async def _write_final_line(self, state: IterdragState) -> None:
        """Write the final line, with as many of the best-ranked passages in the prompt as fit."""
        most, run = len(state.hits), state.run
        by_rank = sorted(range(most), key=lambda index: (state.hits[index].rank, -index))

        def prompt_with(num_hits: int) -> Prompt:
            return self._prompt(state, [state.hits[index] for index in sorted(by_rank[:num_hits])], FINAL)

        num_hits = await num_fitting(
            run, most, lambda num: has_room(run.model, prompt_with(num), self.answer_tokens)
        )
        _, content = await _generate_line(state, prompt_with(num_hits), self.answer_tokens, ("final",))
        state.keep_line(FINAL, content)

    def prompt(self, model: Model, question: Question, hits: Sequence[Hit], so_far: str) -> Prompt:
        """Return the prompt that makes `model` continue the text `so_far`.

        Args:
            hits: The passages, in the order in which the prompt shows them.
            so_far: The lines so far. The last line may be incomplete.
        """
        request = _request([hit.passage for hit in hits], question_spans(question))
        examples = []
        for example in EXAMPLES[: self.examples]:
            passages = [Passage("", **fields) for fields in example["passages"]]
            examples.append((_request(passages, (untrusted(example["question"]),)), example["lines"]))
        parts = [Span(f"{INSTRUCTION}\n\n")]
        for spans, answer in examples:
            parts += [*spans, Span("\n"), untrusted(answer), Span("\n\n")]
        turns = chat_turns(INSTRUCTION, examples, request)
        return in_layout(self.layout, model, [*parts, *request, Span("\n")], turns, so_far)

    def _prompt(self, state: IterdragState, hits: Sequence[Hit], opening: str) -> Prompt:
        so_far = f"{state.text}\n{opening}" if state.text else opening
        return self.prompt(state.run.model, state.question, hits, so_far)

    async def _num_affordable(self, state: IterdragState, found: Sequence[Hit]) -> int:
        """Return the number of passages per search for which all searches together fill 90 % of L_max.

        Without L_max, the context window takes its place. If L_max is larger than the window, the number is
        also limited so that the passages of two searches fill at most 90 % of the window.
        """
        model, num_searches = state.run.model, self.max_iters + 1
        window = model.context_tokens
        most = min((self.l_max or window) / num_searches, window / min(2, num_searches))
        room = _SHARE_OF_PASSAGES * most
        return await estimate_fitting(found, room, lambda hits: model.count(self._prompt(state, hits, "")))


async def _generate_line(state: IterdragState, prompt: Prompt, max_tokens: int, key: Key) -> tuple[str, str]:
    sampling = Sampling(max_tokens, stop=("\n",))
    request = GenerateRequest(prompt, sampling, key=key, on_text=state.run.trace.draft)
    (generation,) = await state.run.model.generate(request)
    return parse_line(generation.text)


def parse_line(text: str) -> tuple[str, str]:
    """Return the prefix of a line, and the content after the prefix.

    The prefix is an empty string if the line starts with none of the three prefixes.
    """
    plain = " ".join(text.split())
    for opening, pattern in _OPENINGS.items():
        if match := pattern.match(plain):
            return opening, plain[match.end() :]
    return "", plain


def _request(passages: Sequence[Passage], question: Sequence[Span]) -> tuple[Span, ...]:
    shown = (*numbered([passage_text(passage) for passage in passages]), Span("\n")) if passages else ()
    return (*shown, Span("Question: "), *question)
