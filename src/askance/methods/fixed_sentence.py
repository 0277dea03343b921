"""Search before every sentence, with the sentence before it."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.knobs import knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Question
from askance.methods.authors import Answering
from askance.methods.bounded import Bounded
from askance.methods.prompts import Layout, layout_needs
from askance.methods.rounds import Pieces, answer_in_rounds
from askance.methods.wording import OWN as OWN_WORDING
from askance.methods.wording import Wording
from askance.text.linguistics import OWN as OWN_LINGUISTICS
from askance.text.linguistics import Linguistics
from askance.text.sentences import SentenceEnd


@dataclass(frozen=True, slots=True)
class FixedSentence(Bounded):
    """The DRAGIN paper's FS-RAG (Su et al. 2024, Table 1), after IRCoT.

    The first search is made with the question. Then one sentence is written with the passages found, and it
    is the next query.

    Profile "default" is the paper's description on our own prompt. Ours: nothing is generated behind a
    sentence but the token that shows it has ended; passages stay where a search finds none; the answer ends
    with the sentence that states it, and where an invented question would begin; `max_tokens` is its limit.

    Profile "code" is the authors' code, quirks included:
    - `max_tokens` tokens are generated each time, of which the first sentence is kept;
    - the first prompt ends in a space after "Answer:", which many tokenizers take badly;
    - it ends when there is no sentence, on "the answer is" in these letters, or with the round in which the
      text exceeds `max_tokens`.
    """

    profile: Literal["default", "code"] = knob("default", "whose reading: ours, or the authors' code")
    passages: int = knob(3, "passages per search", at_least=1)
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
    linguistics: Linguistics = knob(
        OWN_LINGUISTICS, "how sentences are split, in profile code: own, or spacy:PIPELINE"
    )
    wording: Wording = knob(OWN_WORDING, "examples and fixed lines of the prompt")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FS-RAG"
    searches: ClassVar[str] = "before every sentence"

    @property
    def needs(self) -> Needs:
        layout = "raw" if self.profile == "code" else self.layout
        return Needs(one_of=layout_needs(layout, goes_on=True), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        why = "every sentence is searched for"
        if self.profile == "default":
            pieces = Pieces(
                self.max_tokens,
                until=lambda text: SentenceEnd(),
                query=lambda text, piece: piece,
                why=why,
            )
            return await answer_in_rounds(self, pieces, question, run)
        so_far = Answering(question, run, self.wording, self.passages, self.query_tokens)
        query, reason = question.text, f"there were {self.max_rounds} searches"
        for step in range(self.max_rounds):
            chars_before = len(so_far.text)
            hits = await so_far.search_for(query, why)
            written = await so_far.write(f" {so_far.text}", self.max_tokens, ("sentence", step), hits)
            query = next(iter(self.linguistics.sentences(written.text)), "")
            if not query:
                reason = "no sentence was written"
                break
            so_far.replace(f"{so_far.text.strip()} {query}")
            ended = so_far.end_reason(chars_before, self.max_tokens)
            if ended:
                reason = ended
                break
        run.trace.decide("end", "stop", reason)
        return await so_far.answer(self)
