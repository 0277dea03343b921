"""Search agents: the model searches and answers in tags, in a format that it was trained to write.

`formats.toml` declares the formats.
"""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import Run
from askance.core.types import GenerateRequest, Hit, Question, Sampling, Span, Turn, untrusted
from askance.methods.common.answer_text import decide_short_answer
from askance.methods.common.generation_state import (
    ELICITED,
    SHORT_ANSWER_TOKENS,
    GenerationState,
    WritesAnswer,
)
from askance.methods.common.prompts import PromptTemplate, in_layout, passage_text, question_spans
from askance.methods.common.search import num_fitting
from askance.text.answers import TextEnd

_BOXED = re.compile(r"\\boxed\{((?:[^{}]|\{[^{}]*\})*)\}")
_MACRO = re.compile(r"\\\w+\{([^{}]*)\}")
_CONDENSE = (
    "Write down in one or two sentences what in the passages helps with the next step of the reasoning. If "
    "nothing helps, write: Nothing helpful was found.\n\n"
)
_REASONING_CHARACTERS = 2_000
"""The number of last characters of the reasoning that are shown to the call that condenses passages."""
FormatName = Literal["search_r1", "research", "r1_searcher", "search_o1"]
Step = Literal["answer", "search", "tell", "empty", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TagFormat:
    """A format of tags, whose fields `formats.toml` describes."""

    query: tuple[str, str]
    passages: tuple[str, str]
    answer: tuple[str, str]
    counts: Literal["first", "last"]
    unopened: Literal["tell", "empty", "whole", "end"]
    blank: Literal["empty", "end"]
    untagged: Literal["tell", "end"]
    instruction: str
    invalid: str = ""
    repeated: str = ""
    condenses: bool = False

    def step(self, turn: str, closing: str) -> tuple[Step, str]:
        """Return what a turn of the model does, with its query or answer.

        Args:
            closing: The tag with which the turn ends, or another reason for its end.
        """
        if closing == self.query[1]:
            query = self._inside(self.query, turn)
            if query is None and self.unopened != "whole":
                return self.unopened, ""
            query = turn.partition(closing)[0].strip() if query is None else query
            return ("search", query) if query else (self.blank, "")
        tagged = self._inside(self.answer, turn) if closing == self.answer[1] else None
        boxed = _BOXED.findall(turn if tagged is None else tagged)
        if tagged is None and not (boxed and not self.answer[1]):
            return self.untagged, ""
        return "answer", _MACRO.sub(r"\1", boxed[-1]) if boxed else self.without_tags(tagged or "")

    def _inside(self, tags: tuple[str, str], turn: str) -> str | None:
        """Return the text between two tags, the closing one of which comes first in the turn."""
        text = turn.partition(tags[1])[0]
        opening = text.find(tags[0]) if self.counts == "first" else text.rfind(tags[0])
        return None if opening < 0 else text[opening + len(tags[0]) :].strip()

    def without_tags(self, text: str) -> str:
        """Return a text with blanks in place of tags, so that it can neither open nor close any."""
        tags = filter(None, (*self.query, *self.passages, *self.answer))
        return re.sub("|".join(map(re.escape, tags)), " ", text, flags=re.IGNORECASE).strip()


_ROWS = tomllib.loads(Path(__file__).with_name("formats.toml").read_text(encoding="utf-8"))
FORMATS = {name: TagFormat(**row) for name, row in _ROWS.items()}


@checked_dataclass()
class SearchAgent(WritesAnswer):
    """A model that is trained to search: Search-R1, ReSearch, R1-Searcher or Search-o1.

    (Jin et al. 2025, Chen et al. 2025, Song et al. 2025 and Li et al. 2025.) The model reasons, and a closing
    tag ends its turn while it writes. After a query, the passages found are inserted between tags; with
    Search-o1, a call of its own condenses them first. After an answer, the loop ends. Only tags in the turns
    of the model count, and passages that it invents are cut off. After `max_turns`, or a turn with neither,
    the model is asked for its answer.
    """

    format: FormatName = parameter("search_r1", "the tags that the model was trained to write")
    passages: int = parameter(3, "number of passages per search", at_least=1)
    max_turns: int = parameter(5, "maximum number of turns before the answer is asked for", at_least=1)
    max_tokens: int = parameter(512, "maximum number of new tokens of a turn", at_least=1)

    paper: ClassVar[str] = "Jin et al. 2025 (Search-R1) and others"
    searches: ClassVar[str] = "when the model asks in tags"

    async def answer(self, question: Question, run: Run) -> Answer:
        state, tags, answer = self.start(question, run), FORMATS[self.format], ""
        if not self.prompts.before_question:
            before = f"{tags.instruction}\n"
            state.template = PromptTemplate((), system=tags.instruction, before_question=before)
        closing = TextEnd(tuple(filter(None, (tags.query[1], tags.answer[1], tags.passages[0]))))
        for step in state.rounds(self.max_turns):
            if step and not await state.has_room(self.max_tokens):
                state.stop_reason = "there is no room for another turn"
                break
            key = ("turn", step)
            turn = await state.write(self.max_tokens, key, until=closing, stop=(), keeps_thoughts=True)
            text = state.parse_text(turn.text.partition(tags.passages[0])[0]).text
            state.notes += text
            does, content = tags.step(text, turn.finish)
            if does == "answer":
                answer, state.stop_reason = content, "the model gives its answer"
            elif does == "end":
                state.stop_reason = "the model writes neither a query nor an answer"
            elif does == "tell":
                state.notes += tags.invalid
            else:
                state.notes += await self._search(state, tags, content, step)
        return state.conclude(answer or await self._ask(state, tags))

    async def _search(self, state: GenerationState, tags: TagFormat, query: str, step: int) -> str:
        """Return the passages found for a query between tags, as many as there is room for."""
        run, hits = state.run, tuple[Hit, ...]()
        is_repeated = bool(tags.repeated) and bool(query) and state.was_searched(query)

        def enclosed(text: str) -> str:
            opening, end = tags.passages
            return f"\n\n{opening}\n{tags.without_tags(text)}\n{end}\n\n"

        def shown(num_hits: int) -> str:
            texts = enumerate((passage_text(hit.passage) for hit in hits[:num_hits]), start=1)
            return "\n".join(f"[{number}] {text}" for number, text in texts)

        if query and not is_repeated:
            decision = run.trace.decide("retrieve", "search", "the model writes a query", query=query)
            hits = await state.search(decision, self.passages)
        fits = await num_fitting(
            run, len(hits), lambda num: state.prompt(further=enclosed(shown(num))), self.max_tokens
        )
        state.shown.append((0, (*(hit for _, before in state.shown[-1:] for hit in before), *hits[:fits])))
        found = tags.repeated if is_repeated else shown(fits)
        if fits and tags.condenses:
            asked = (Span(_CONDENSE), Span("Question: "), *question_spans(state.question))
            so_far = untrusted(state.notes[-_REASONING_CHARACTERS:])
            asked += (
                Span("\nReasoning: "),
                so_far,
                Span("\nPassages:\n"),
                untrusted(found),
                Span("\nHelpful:"),
            )
            prompt = in_layout(self.layout, run.model, asked, [Turn("user", asked)], "")
            sampling = Sampling(self.max_tokens, stop=("\n\n",))
            request = GenerateRequest(prompt, sampling, key=("condense", step), on_text=run.trace.draft)
            (written,) = await run.model.generate(request)
            found = state.parse_text(written.text).text
        return enclosed(found)

    async def _ask(self, state: GenerationState, tags: TagFormat) -> str:
        """Return the answer that the model writes if its opening tag is given, or an empty string."""
        opening, closing = tags.answer if tags.answer[0] else ("\\boxed{", "}")
        state.notes += opening
        if not self.ask_short_answer:
            return ""
        why = "the model gives no answer"
        decision = await decide_short_answer(state.run, state.prompt(), SHORT_ANSWER_TOKENS, why)
        if decision is None:
            return ""
        with state.run.trace.because(decision):
            written = await state.write(SHORT_ANSWER_TOKENS, ELICITED, stop=(closing, "\n"))
        return tags.without_tags(written.text)
