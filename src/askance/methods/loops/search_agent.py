"""Search agents: the model searches and answers in tags, in a format that it was trained to write.

`formats.toml` declares the formats.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from askance.core.answers import Answer
from askance.core.parameters import checked_dataclass, parameter
from askance.core.ports import RoleModel, Run, language_model
from askance.core.token_ledger import has_room
from askance.core.types import GenerateRequest, Hit, Prompt, Question, Role, Sampling, Span, Turn, untrusted
from askance.methods.common.answer_text import decide_short_answer
from askance.methods.common.generation_state import (
    ELICITED,
    SHORT_ANSWER_TOKENS,
    GenerationState,
    WritesAnswer,
)
from askance.methods.common.prompts import PromptTemplate, in_layout, numbered_passages, question_spans
from askance.methods.common.search import num_fitting
from askance.text.answers import TextEnd

_BOX = "\\boxed{"
_BRACE = re.compile(r"\\(?:text\w*|math(?:rm|bf|it))\{|[{}]")
"""A brace, with the macro of mere text that it belongs to, if any."""
_CONDENSE = (
    "Write down in one or two sentences what in the passages helps with the next step of the reasoning. If "
    "nothing helps, write: Nothing helpful was found.\n\n"
)
_REASONING_CHARACTERS = 2_000
"""The number of last characters of the reasoning that are shown to the call that condenses passages."""
FormatName = Literal["search_r1", "research", "r1_searcher", "search_o1"]
Step = Literal["search", "tell", "empty", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TagFormat:
    """A format of tags, whose fields `formats.toml` describes."""

    query: tuple[str, str]
    passages: tuple[str, str]
    answer: tuple[str, str]
    counts: Literal["first", "last"]
    unopened: Literal["tell", "empty", "end"]
    blank: Literal["empty", "end"]
    untagged: Literal["tell", "end"]
    instruction: str
    invalid: str = ""
    repeated: str = ""
    condenses: bool = False
    drops: str = ""
    checkpoints: tuple[str, ...] = ()

    def step(self, turn: str, closing: str) -> tuple[Step, str]:
        """Return what a turn of the model without an answer does, with its query.

        Args:
            closing: The tag with which the turn ends, or another reason for its end.
        """
        if closing != self.query[1]:
            return self.untagged, ""
        query = self._inside(self.query, turn)
        if query is None:
            return self.unopened, ""
        query = re.sub(self.drops, "", query).strip()
        return ("search", query) if query else (self.blank, "")

    def answer_in(self, turn: str) -> str | None:
        """Return the answer that a turn states in tags or in a box, or None if it states none."""
        tagged = self._inside(self.answer, turn) if self.answer[1] else turn
        if tagged is None:
            return None
        boxed = _last_box(tagged)
        return self.without_tags(tagged) if boxed is None and self.answer[1] else boxed

    def forced_answer(self, opening: str, turn: str) -> str:
        """Return the answer in a turn that continues an opening tag; its first line if nothing closes it."""
        line = turn.strip().partition("\n")[0]
        answers = (self.answer_in(f"{opening}{text}") for text in (turn, f"{line}{self.answer[1] or '}'}"))
        return next(filter(None, answers), "")

    def _inside(self, tags: tuple[str, str], turn: str) -> str | None:
        """Return the text before the first closing tag and after an opening one, or None without both."""
        text, closing, _ = turn.partition(tags[1])
        opening = text.find(tags[0]) if self.counts == "first" else text.rfind(tags[0])
        return text[opening + len(tags[0]) :].strip() if closing and opening >= 0 else None

    def without_tags(self, text: str) -> str:
        """Return a text with blanks in place of tags, so that it can neither open nor close any."""
        tags = filter(None, (*self.query, *self.passages, *self.answer, _BOX))
        return re.sub("|".join(map(re.escape, tags)), " ", text, flags=re.IGNORECASE).strip()


def _last_box(text: str) -> str | None:
    """Return what the last box of a text encloses, without macros of mere text; None without a box."""
    _, opening, rest = text.rpartition(_BOX)
    content, start, closings = "", 0, [""]
    for brace in _BRACE.finditer(rest if opening else ""):
        content, start = content + rest[start : brace.start()], brace.end()
        if brace[0] != "}":
            closings.append("}" if brace[0] == "{" else "")
            content += "{" if closings[-1] else ""
            continue
        content += closings.pop()
        if not closings:
            return content.strip()
    return None


_ROWS = tomllib.loads(Path(__file__).with_name("formats.toml").read_text(encoding="utf-8"))
FORMATS = {name: TagFormat(**row) for name, row in _ROWS.items()}


def _trained_on(model: str) -> str:
    """Return the format of a published checkpoint by its name, or an empty string for any other model."""
    known = (name for name, tags in FORMATS.items() if any(each in model for each in tags.checkpoints))
    return next(known, "")


@checked_dataclass()
class SearchAgent(WritesAnswer):
    """A model that is trained to search: Search-R1, ReSearch, R1-Searcher or Search-o1.

    (Jin et al. 2025, Chen et al. 2025, Song et al. 2025 and Li et al. 2025.) The model reasons, and a closing
    tag ends its turn while it writes. After a query, the passages found are inserted between tags; with
    Search-o1, a call of its own condenses them first. After an answer, the loop ends. Only tags in the turns
    of the model count, and passages that it invents are cut off. After `max_turns`, or a turn with neither,
    the model is asked for its answer.
    """

    format: FormatName | Literal["auto"] = parameter(
        "auto", "the tags that the model was trained to write; auto: those of a published checkpoint, by name"
    )
    passages: int = parameter(3, "number of passages per search", at_least=1)
    max_turns: int = parameter(5, "maximum number of turns before the answer is asked for", at_least=1)
    max_tokens: int = parameter(512, "maximum number of new tokens of a turn", at_least=1)

    paper: ClassVar[str] = "Jin et al. 2025 (Search-R1) and others"
    searches: ClassVar[str] = "when the model asks in tags"
    prompt_texts: ClassVar[tuple[str, ...]] = ("before_question",)
    """The texts of `prompts` that are in a prompt."""

    def warning(self, models: Mapping[Role, RoleModel]) -> str:
        """Return a warning if the answering model is a published checkpoint of another format."""
        name = language_model(models["answer"]).name
        trained_on = _trained_on(name)
        if not trained_on or self.format in ("auto", trained_on):
            return ""
        return f"{name} was trained on the tags of {trained_on}, not of {self.format}: leave out format."

    async def answer(self, question: Question, run: Run) -> Answer:
        named = (_trained_on(run.model.name) or "search_r1") if self.format == "auto" else self.format
        state, tags, answer = self.start(question, run), FORMATS[named], ""
        before, opening = self.prompts.before_question or f"{tags.instruction}\n", tags.answer[0] or _BOX
        state.template = PromptTemplate((), system="", before_question=before, elicitation=opening)
        state.keeps_thoughts = True
        closing = TextEnd(tuple(filter(None, (tags.query[1], tags.answer[1], tags.passages[0]))))
        for step in state.rounds(self.max_turns):
            if await state.lacks_room(self.max_tokens, "turn"):
                break
            turn = await state.write(self.max_tokens, ("turn", step), until=closing, stop=())
            text = state.parse_text(turn.text.partition(tags.passages[0])[0]).text
            state.notes += text
            stated, (does, query) = tags.answer_in(text), tags.step(text, turn.finish)
            answer = stated or answer
            if stated is not None and turn.finish != tags.query[1]:
                state.stop_reason = f"the model gives {'its' if stated else 'an empty'} answer"
            elif does == "end" and turn.finish != "length":
                state.stop_reason = "the model writes neither a query nor an answer"
            elif does != "end":
                added = tags.invalid if does == "tell" else await self._search(state, tags, query, step)
                state.notes += added if await state.has_room(0, added) else ""
        return state.conclude(answer or await self._ask(state, tags, opening))

    async def _search(self, state: GenerationState, tags: TagFormat, query: str, step: int) -> str:
        """Return the passages found for a query between tags, as many as there is room for."""
        run, hits = state.run, tuple[Hit, ...]()
        is_repeated = bool(tags.repeated) and bool(query) and state.was_searched(query)

        def enclosed(text: str) -> str:
            before, after = tags.passages
            return f"\n\n{before}\n{tags.without_tags(text)}\n{after}\n\n"

        def shown(num_hits: int) -> str:
            return "".join(span.text for span in numbered_passages(hits[:num_hits])).strip()

        async def fits(num_hits: int) -> bool:
            if not tags.condenses:
                return await state.has_room(0, enclosed(shown(num_hits)))
            bare = state.prompt(further=enclosed("") + state.template.elicitation)
            keep = await run.model.count(bare) + self.max_tokens
            prompt = self._condensing_prompt(state, shown(num_hits))
            return await has_room(run.model, prompt, self.max_tokens, keep=keep)

        if query and not is_repeated:
            hits = await state.search_for(query, self.passages, "the model writes a query")
        fitting = await num_fitting(run, len(hits), fits)
        state.shown.append((0, (*(hit for _, before in state.shown[-1:] for hit in before), *hits[:fitting])))
        found = tags.repeated if is_repeated else shown(fitting)
        if fitting and tags.condenses:
            prompt = self._condensing_prompt(state, found)
            sampling = Sampling(self.max_tokens, stop=("\n\n",))
            request = GenerateRequest(prompt, sampling, key=("condense", step), on_text=run.trace.draft)
            (written,) = await run.model.generate(request)
            found = state.parse_text(written.text).text
        return enclosed(found)

    def _condensing_prompt(self, state: GenerationState, found: str) -> Prompt:
        """Return the prompt of the call that condenses passages to what helps the reasoning."""
        asked = (
            Span(f"{_CONDENSE}Question: "), *question_spans(state.question), Span("\nReasoning: "),
            untrusted(state.notes[-_REASONING_CHARACTERS:]), Span("\nPassages:\n"), untrusted(found),
            Span("\nHelpful:"),
        )  # fmt: skip
        return in_layout(self.layout, state.run.model, asked, [Turn("user", asked)], "")

    async def _ask(self, state: GenerationState, tags: TagFormat, opening: str) -> str:
        """Return the answer that the model writes if its opening tag is given, or an empty string."""
        state.notes += opening
        asked = (state.run, state.prompt(), SHORT_ANSWER_TOKENS, "the model gives no answer")
        if not self.ask_short_answer or (decision := await decide_short_answer(*asked)) is None:
            return ""
        until = TextEnd((tags.answer[1],)) if tags.answer[1] else None
        with state.run.trace.because(decision):
            written = await state.write(SHORT_ANSWER_TOKENS, ELICITED, until=until, stop=())
        return tags.forced_answer(opening, written.text)
