"""What the methods of the DRAGIN authors' code share: how text is joined, cut, searched for, and ended."""

import dataclasses
from collections.abc import Sequence

from askance.core.ports import Model, Run
from askance.core.types import (
    Answer,
    GenerateRequest,
    Generation,
    Hit,
    Key,
    Question,
    Raw,
    Sampling,
    Span,
    Token,
    TokenIds,
    Want,
)
from askance.methods.citing import cited_as_written
from askance.methods.eliciting import Elicits, no_room
from askance.methods.plain_trace import without_markers
from askance.methods.qfs import is_control
from askance.methods.wording import Wording, control_spans, raw_prompt
from askance.text.answers import AUTHORS_MARKER, before_invention, short_answer


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """A generation as the code sees it: an end token is part of it, and its string a part of the text.

    The text stands by itself: where a tokenizer puts a space in front of a text, it has none.
    """

    text: str
    ids: TokenIds
    tokens: tuple[Token, ...]


@dataclasses.dataclass(slots=True)
class Answering:
    """One question on its way: the answer so far, and which passages were shown from which character on.

    Attributes:
        text: the answer so far, spaces in front and behind included, as the code keeps it.
        shown: for the citations.
        control: text and id of the control tokens that the model has written, as a rule its end token; in
            later prompts they are these tokens again.
    """

    question: Question
    run: Run
    wording: Wording
    passages: int = 0
    query_tokens: int = 0
    text: str = ""
    shown: list[tuple[int, Sequence[Hit]]] = dataclasses.field(default_factory=list)
    control: dict[str, int] = dataclasses.field(default_factory=dict)

    async def write(
        self, so_far: str, max_tokens: int, key: Key, hits: Sequence[Hit] | None = None, want: Want = Want()
    ) -> Written:
        """Generate greedily, without stop strings, with the passages of `hits` in front of the question."""
        (generation,) = await self.run.model.generate(
            GenerateRequest(
                self._prompt(so_far, hits), Sampling(max_tokens), want, key=key, watch=self.run.trace.draft
            )
        )
        found = written(generation, self.run.model)
        new = (id for id in set(found.ids) if is_control(id, self.run.model))
        self.control |= {self.run.model.decode((id,)): id for id in new}
        return found

    async def search(self, query: str) -> tuple[Hit, ...]:
        """The passages for the last `query_tokens` tokens of `query`, without the control ones among them."""
        model = self.run.model
        ids = model.tokenize(control_spans(query, self.control), at_start=True)[-self.query_tokens :]
        plain = tuple(id for id in ids if id not in self.control.values())
        hits = await self.run.retriever.search(model.decode(plain, at_start=True), self.passages)
        self.shown.append((len(self.text.strip()), hits))
        return hits

    async def search_for(self, query: str, why: str) -> tuple[Hit, ...]:
        """`search`, and the decision to do so."""
        decision = self.run.trace.decide("retrieve", "search", why, query=query)
        with self.run.trace.because(decision):
            return await self.search(query)

    def replace(self, text: str) -> None:
        """Take `text`, which begins with the answer so far but for white space around it."""
        self.run.trace.commit(text.strip()[len(self.text.strip()) :])
        self.text = text

    def end_reason(self, chars_before: int, max_tokens: int) -> str:
        """Why no further round follows, or nothing. `chars_before` is the text's length before this one."""
        if AUTHORS_MARKER in self.text:
            return f"the text holds {AUTHORS_MARKER!r}"
        if len(self.text) <= chars_before:
            return "the text did not grow"
        if self.text and self.run.model.count(Raw((Span(self.text),))) > max_tokens:
            return f"the text has more than {max_tokens} tokens"
        return ""

    async def answer(self, method: Elicits) -> Answer:
        """The answer, with the white space that the code keeps; its text never has what was elicited."""
        left = len(self.text) - len(self.text.lstrip())
        shown, short = [(at and at + left, hits) for at, hits in self.shown], await self._short(method)
        said = self._said(self.text)
        citations = cited_as_written(self.question, self.run.trace, said, shown, short)
        return Answer(self.text, short, citations)

    async def _short(self, method: Elicits) -> str:
        """The short answer of the text up to where it invents questions or notes.

        As in the code, a text without "the answer is", in these letters, is gone on from without passages,
        with a space behind the words that begin the answer. The code reads all that follows them, by rules
        that depend on the data set; here it is read as for every method. Ours: a window without room for
        this is recorded, and what there is is read.
        """
        text = before_invention(self.text.strip(), least_at=1)
        if method.elicit and AUTHORS_MARKER not in text:
            begun = f"{text}{self.wording.elicitation}".lstrip()
            obstacle = no_room(self.run.model, self._prompt(f" {begun} "), method.elicit_tokens)
            why = f"the text does not hold {AUTHORS_MARKER!r}"
            if obstacle:
                self.run.trace.decide("end", "unstated", f"{why}, and {obstacle}")
            else:
                self.run.trace.decide("end", "elicit", why)
                more = await self.write(f" {begun} ", method.elicit_tokens, ("elicit",))
                text = f"{begun} {before_invention(more.text, least_at=0)}"
        stated = text[max(0, text.find(AUTHORS_MARKER)) :]
        said = without_markers(self._said(stated), self.question, self.run.trace)
        return short_answer(said, self.question)

    def _said(self, text: str) -> str:
        """`text` with blanks for the control tokens that the model wrote, which say nothing."""
        spans = control_spans(text, self.control)
        return "".join(" " * len(span.text) if span.trusted else span.text for span in spans)

    def _prompt(self, so_far: str, hits: Sequence[Hit] | None = None) -> Raw:
        return raw_prompt(self.wording, self.question, so_far, self._bodies(hits), self.control)

    def _bodies(self, hits: Sequence[Hit] | None) -> list[str] | None:
        if hits is None:
            return None
        bodies = [" ".join(hit.passage.text.split("\n")) for hit in hits]
        return bodies + [""] * (self.passages - len(bodies))


def written(generation: Generation, model: Model) -> Written:
    """With the end token, if there is one."""
    tokens = (*generation.tokens, *generation.dropped)
    ids = tuple(token.id for token in tokens)
    return Written(model.decode(ids, at_start=True), ids, tokens)


def joined(*parts: str) -> str:
    """The parts that are not empty, with single spaces between them."""
    return " ".join(part for part in parts if part)


def space_marker(name: str, model: Model) -> str:
    """`name`, or, for "auto", what begins a word in the model's vocabulary: the piece of a space."""
    if name != "auto":
        return name
    pieces = model.pieces(model.tokenize(" "))
    return pieces[0][:1] if pieces else " "
