"""Search every n tokens, with the last n tokens."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.knobs import knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Question
from askance.methods.authors import Answering
from askance.methods.bounded import Bounded
from askance.methods.prompts import Layout, layout_needs
from askance.methods.rounds import Pieces, answer_in_rounds
from askance.methods.wording import OWN, Wording
from askance.text.answers import AnswerEnd


@dataclass(frozen=True, slots=True)
class FixedLength(Bounded):
    """The DRAGIN paper's FL-RAG (Su et al. 2024, Table 1), after RETRO and in-context RALM.

    The first search is made with the question. Then `every_tokens` tokens are written with the passages
    found, and the last `query_last_tokens` tokens of the answer are the next query. Paper and code give no n
    (D24): 25 is the n of the paper's query of the last n tokens.

    Profile "default" is the paper's description on our own prompt. Ours: passages stay where a search finds
    none; a piece ends early with the sentence that states the answer, and so does the answer; it ends where
    an invented question would begin, too; `max_tokens` is its limit.

    Profile "code" is the authors' code, quirks included:
    - the first prompt ends in a space after "Answer:", which many tokenizers take badly;
    - chunks are stripped and joined by a space, also inside a word;
    - the query is the last chunk, of at most `query_tokens` tokens;
    - an empty chunk still grows the text by one space, so that one more search with no query follows;
    - it ends on "the answer is" in these letters, or with the round in which the text exceeds `max_tokens`.
    """

    profile: Literal["default", "code"] = knob("default", "whose reading: ours, or the authors' code")
    passages: int = knob(3, "passages per search", at_least=1)
    every_tokens: int = knob(25, "tokens between searches", at_least=1)
    query_last_tokens: int = knob(
        25, "a query is this many last tokens of the answer, in profile default", at_least=1
    )
    max_tokens: int = knob(
        128, "most new tokens of the answer; in profile code it ends once it has more", at_least=1
    )
    query_tokens: int = knob(64, "a query keeps this many of its last tokens, in profile code", at_least=1)
    max_rounds: int = knob(100, "most searches of one answer", at_least=1)
    elicit: bool = knob(True, "ask for the short answer where the text states none")
    elicit_tokens: int = knob(20, "most new tokens of an elicited answer", at_least=1)
    layout: Layout = knob(
        "auto",
        "raw text or the model's chat format, in profile default; auto is raw where the model takes it",
    )
    wording: Wording = knob(OWN, "examples and fixed lines of the prompt")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FL-RAG"
    searches: ClassVar[str] = "every n tokens"

    @property
    def needs(self) -> Needs:
        layout = "raw" if self.profile == "code" else self.layout
        return Needs(one_of=layout_needs(layout, goes_on=True), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        why = f"a search is due every {self.every_tokens} tokens"
        if self.profile == "default":
            model, last = run.model, self.query_last_tokens
            pieces = Pieces(
                self.every_tokens,
                until=AnswerEnd,
                query=lambda text, piece: model.decode(model.tokenize(text)[-last:]),
                why=why,
            )
            return await answer_in_rounds(self, pieces, question, run)
        so_far = Answering(question, run, self.wording, self.passages, self.query_tokens)
        query, reason = question.text, f"there were {self.max_rounds} searches"
        for step in range(self.max_rounds):
            chars_before = len(so_far.text)
            hits = await so_far.search_for(query, why)
            chunk = await so_far.write(f" {so_far.text}", self.every_tokens, ("chunk", step), hits)
            query = chunk.text.strip()
            so_far.replace(f"{so_far.text.strip()} {query}")
            ended = so_far.end_reason(chars_before, self.max_tokens)
            if ended:
                reason = ended
                break
        run.trace.decide("end", "stop", reason)
        return await so_far.answer(self)
