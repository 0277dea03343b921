"""An answer on its way: the prompt it is written behind, the passages shown, what has been kept, its end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

from askance.core.parameters import parameter
from askance.core.ports import Needs, Run
from askance.core.trace import Decided
from askance.core.types import (
    Answer,
    GenerateRequest,
    Generation,
    Hit,
    Key,
    Question,
    Sampling,
    Signal,
    StopCondition,
    Want,
)
from askance.methods.common.answer_text import as_answer, decide_to_elicit, plain_of, settled
from askance.methods.common.prompts import OWN, STOPS, Layout, PromptTemplate, answer_prompt, layout_needs
from askance.methods.common.token_limit import TokenLimited
from askance.text.answers import SentenceEnd, answer_end, awaits_answer, has_answer, short_answer
from askance.text.markers import Plain

_SHORTEST_ANSWER = 3
"""Characters: " no." is a sentence, a lone full stop is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritesAnswer(TokenLimited):
    """The parameters of every method that writes its answer behind the prompt of `answer_prompt`."""

    max_tokens: int = parameter(128, "most new tokens of the answer", at_least=1)
    elicit: bool = parameter(True, "ask for the short answer where the text states none")
    elicit_tokens: int = parameter(20, "most new tokens of an elicited answer", at_least=1)
    layout: Layout = parameter(
        "auto", "raw text or the model's chat format; auto is raw where the model takes it"
    )
    wording: PromptTemplate = parameter(OWN, "examples and fixed lines of the prompt")

    goes_on: ClassVar[bool] = True
    """Whether a model must go on from a text of its own."""
    reads: ClassVar[frozenset[Signal]] = frozenset()
    """The signals that are looked at."""

    @property
    def needs(self) -> Needs:
        return Needs(self.reads, one_of=layout_needs(self.layout, goes_on=self.goes_on), retriever=True)

    def begin(self, question: Question, run: Run) -> "GenerationState":
        """An answer that is still empty."""
        elicit_tokens = self.elicit_tokens if self.elicit else 0
        return GenerationState(question, run, elicit_tokens, self.layout, self.wording, self.max_tokens)


@dataclass(slots=True)
class GenerationState:
    """The answer to one question on its way.

    Attributes:
        text: what has been kept, markers that the model wrote included; `num_tokens` is its length.
        hits: the passages in the prompt.
        shown: since which character of the text which passages were in the prompt.
        ended: why nothing more is written, once that is known.
    """

    question: Question
    run: Run
    elicit_tokens: int
    layout: Layout
    wording: PromptTemplate
    max_tokens: int = 0
    text: str = ""
    num_tokens: int = 0
    num_searches: int = 0
    hits: tuple[Hit, ...] = ()
    shown: list[tuple[int, tuple[Hit, ...]]] = field(default_factory=list)
    ended: str = ""

    @property
    def room(self) -> int:
        """How many tokens the answer may still have."""
        return self.max_tokens - self.num_tokens

    @property
    def seen(self) -> frozenset[str]:
        """The ids of all passages that were in the prompt."""
        return frozenset(hit.passage.id for _, hits in self.shown for hit in hits)

    def rounds(self, most: int) -> Iterator[int]:
        """The numbers of the rounds, until the answer has ended."""
        for step in range(most):
            yield step
            if self.ended:
                return
        self.ended = f"there were {most} rounds"

    async def search(
        self, decision: Decided, k: int, exclude: frozenset[str] = frozenset()
    ) -> tuple[Hit, ...]:
        """The `k` best passages for the query of a decision, each once; they are not shown yet."""
        self.num_searches += 1
        with self.run.trace.because(decision):
            hits = await self.run.retriever.search(decision.query, k, exclude=exclude)
        return tuple({hit.passage.id: hit for hit in reversed(hits)}.values())[::-1]

    async def search_for(self, query: str, k: int, why: str) -> None:
        """Search and show what is found. Where nothing is, the passages at hand stay."""
        self.show(await self.search(self.run.trace.decide("retrieve", "search", why, query=query), k))

    async def search_first(self, k: int) -> None:
        """Search with the question itself, and show what is found."""
        await self.search_for(self.question.text, k, "the first search is made with the question itself")

    def show(self, hits: tuple[Hit, ...]) -> None:
        """Replace the passages in the prompt, if there are any."""
        if hits:
            self.hits = hits
            self.shown.append((len(self.text), hits))

    async def write(
        self,
        max_tokens: int,
        key: Key,
        want: Want = Want(),
        until: StopCondition | None = None,
        watch: Callable[[str], None] | None = None,
    ) -> Generation:
        """What the model writes next; it is a draft until it is kept, unless another `watch` is given."""
        prompt = answer_prompt(self.run.model, self.question, self.hits, self.text, self.layout, self.wording)
        sampling, watch = Sampling(max_tokens, stop=STOPS), watch or self.run.trace.draft
        (written,) = await self.run.model.generate(
            GenerateRequest(prompt, sampling, want, until, key=key, watch=watch)
        )
        return written

    async def write_all(self) -> None:
        """Write the whole answer in one generation, and keep it while it is written."""
        written = await self.write(self.max_tokens, ("answer",), watch=self.run.trace.commit)
        self.text = written.text

    def keep(self, text: str, num_tokens: int) -> None:
        """Take text that will not be taken back."""
        self.run.trace.commit(text)
        self.text += text
        self.num_tokens += num_tokens

    def take(self, written: Generation) -> None:
        """Keep all of a piece, which may end the answer."""
        self.ended = self.end_reason(written)
        self.keep(written.text, len(written.tokens))

    def end_reason(self, written: Generation) -> str:
        """Why the answer ends with a piece that has not been kept yet, or nothing."""
        was_cut_short = written.finish == "length"
        if not was_cut_short and has_answer(self.text + written.text):
            return "the answer is stated"
        if written.finish == "stop":
            return "a blank line, or what would follow an answer, begins"
        if written.finish == "end" or not (was_cut_short or written.text.strip()):
            return "the model ended its answer"
        return f"the answer has {self.max_tokens} tokens" if len(written.tokens) >= self.room else ""

    def judgeable(self, written: Generation) -> Generation:
        """A piece that has not been kept yet, as far as it can be in doubt or searched for.

        Tokens of markers, and those behind the statement of the answer, have blanks for a text, and no
        signals.
        """
        whole = self.plain(written.text).blanked
        end = answer_end(whole)
        said, tokens = (whole[:end] + " " * (len(whole) - end))[len(self.text) :], []
        for token in written.tokens:
            place = slice(token.start, token.end)
            is_said = said[place] == written.text[place]
            tokens.append(token if is_said else replace(token, text=said[place], logprob=None, entropy=None))
        return replace(written, tokens=tuple(tokens))

    def plain(self, further: str = "") -> Plain:
        """The text with `further` behind it, and the markers in it."""
        return plain_of(self.text + further, self.question, self.run.trace)

    async def finish(self) -> Answer:
        """The answer with what had to be elicited, its short answer and its citations."""
        if self.ended:
            self.run.trace.decide("end", "stop", self.ended)
        await self.elicit()
        return as_answer(self.question, self.run, self.shown)

    async def elicit(self) -> str:
        """Make the finished text state its answer; what was added, or nothing.

        The sentence that would state it is begun (`PromptTemplate.elicitation`), and the model ends it,
        greedily, in at most `elicit_tokens` tokens; 0 asks for none. The DRAGIN authors (Su et al. 2024) do
        so before they score an answer. Deviations from their code:
        - the prompt is the one that the text was written with, its last passages included;
        - what was begun has no space behind it, after which small models tend to write a digit;
        - it ends with the sentence, and where an invented question would begin;
        - it becomes a part of the answer; nothing is added unless a short answer can be read from it.

        Only the text is looked at: what question and passages say about an answer does not count. A text that
        the length limit cut in mid-sentence is gone on from all the same; of words that it ends in already,
        only the rest is added. Where the model can't go on from a text, or has no room left, that is
        recorded. Markers that the model wrote are left out of the prompt and of what is returned.
        """
        question, trace, model = self.question, self.run.trace, self.run.model
        settled(trace)
        text = self.plain().text
        if not self.elicit_tokens or has_answer(text):
            return ""
        so_far = text.rstrip()
        begun = "" if awaits_answer(text) else _not_yet_begun(so_far, self.wording.elicitation)
        so_far += begun
        prompt = answer_prompt(model, question, self.hits, so_far, self.layout, self.wording)
        why = "the text does not state its answer"
        decision = decide_to_elicit(self.run, prompt, self.elicit_tokens, why)
        if decision is None:
            return ""
        sampling, until = Sampling(self.elicit_tokens, stop=STOPS), SentenceEnd(_SHORTEST_ANSWER)
        with trace.because(decision):
            (written,) = await model.generate(
                GenerateRequest(prompt, sampling, until=until, key=("elicit",), watch=trace.draft)
            )
        whole = plain_of(so_far + written.text, question, trace).text
        if not has_answer(whole) or not short_answer(whole, question):
            return ""
        added = begun + written.text
        added = added.lstrip() if text[-1:].isspace() else added
        trace.commit(added)
        return plain_of(added, question, trace).text


def _not_yet_begun(text: str, phrase: str) -> str:
    """`phrase` without the first words that `text` ends in."""
    words = phrase.split(" ")
    starts = (" ".join(words[:num_words]) for num_words in range(len(words), -1, -1))
    return phrase[len(next(start for start in starts if text.endswith(start))) :]
