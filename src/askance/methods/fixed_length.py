"""Search every n tokens, with the last n tokens."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from askance.core.knobs import Knobs, knob
from askance.core.ports import Needs, Run
from askance.core.types import Answer, Question
from askance.methods.authors import Answering
from askance.methods.wording import OWN, Wording


@dataclass(frozen=True, slots=True)
class FixedLength(Knobs):
    """The DRAGIN paper's FL-RAG (Su et al. 2024), after RETRO and in-context RALM.

    The first search is made with the question. Then `every_tokens` tokens are written with the passages
    found, and they are the next query.

    Profile "code" is the authors' code, quirks included:
    - the first prompt ends in a space after "Answer:", which many tokenizers take badly;
    - chunks are stripped and joined by a space, also inside a word;
    - an empty chunk still grows the text by one space, so that one more search with no query follows;
    - it ends on "the answer is" in these letters, or with the round in which the text exceeds `max_tokens`;
    - paper and code give no n (D24): 25 is the n of the paper's query of the last n tokens.
    """

    profile: Literal["code"] = knob("code", "whose reading: the authors' code")
    passages: int = knob(3, "passages per search", at_least=1)
    every_tokens: int = knob(25, "tokens between searches", at_least=1)
    max_tokens: int = knob(64, "the answer ends once it has more tokens than this", at_least=1)
    query_tokens: int = knob(64, "a query keeps this many of its last tokens", at_least=1)
    max_rounds: int = knob(100, "most searches of one answer", at_least=1)
    wording: Wording = knob(OWN, "examples and fixed lines of the prompt")

    paper: ClassVar[str] = "Su et al. 2024 (DRAGIN), FL-RAG"

    @property
    def needs(self) -> Needs:
        return Needs(capabilities=frozenset({"raw"}), retriever=True)

    async def answer(self, question: Question, run: Run) -> Answer:
        so_far = Answering(question, run, self.wording, self.passages, self.query_tokens)
        query, reason = question.text, f"there were {self.max_rounds} searches"
        for step in range(self.max_rounds):
            chars_before = len(so_far.text)
            hits = await so_far.search_for(query, f"{self.every_tokens} tokens are due")
            chunk = await so_far.write(f" {so_far.text}", self.every_tokens, ("chunk", step), hits)
            query = chunk.text.strip()
            so_far.replace(f"{so_far.text.strip()} {query}")
            ended = so_far.end_reason(chars_before, self.max_tokens)
            if ended:
                reason = ended
                break
        run.trace.decide("end", "stop", reason)
        return so_far.answer()
