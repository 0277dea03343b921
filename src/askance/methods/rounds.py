"""Rounds of a search and a piece of text: what fixed_length and fixed_sentence share on our own prompt."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from askance.core.ports import Run
from askance.core.types import Answer, GenerateRequest, Generation, Hit, Question, Sampling, Until
from askance.methods.eliciting import Answers, finished
from askance.methods.plain_trace import plain_of
from askance.methods.prompts import STOPS, answer_prompt
from askance.methods.searching import search_for
from askance.text.answers import has_answer


class Rounds(Answers, Protocol):
    """The knobs of a method that writes in rounds."""

    @property
    def passages(self) -> int: ...
    @property
    def max_tokens(self) -> int: ...
    @property
    def max_rounds(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Pieces:
    """What one round writes, and what the next one asks.

    Attributes:
        max_tokens: of one piece.
        until: what ends a piece early, given the text before it.
        query: from the text so far, the last piece included, and from that piece, both without markers.
        why: a search is made.
    """

    max_tokens: int
    until: Callable[[str], Until]
    query: Callable[[str, str], str]
    why: str


async def answer_in_rounds(method: Rounds, pieces: Pieces, question: Question, run: Run) -> Answer:
    """Search with the question, write a piece, search with what it gives, and so on.

    Passages stay until others replace them: a search without hits leaves them as they are, and so does a
    piece that gives no query. The answer ends when it is stated, where the model ends or a stop string
    begins, after `method.max_tokens` tokens, or after `method.max_rounds` rounds; the trace says which.
    """
    text, num_tokens = "", 0
    hits: tuple[Hit, ...] = ()
    shown: list[tuple[int, tuple[Hit, ...]]] = []
    query, reason = question.text, f"there were {method.max_rounds} rounds"
    for step in range(method.max_rounds):
        found = await search_for(query, run, method.passages, pieces.why) if query else ()
        if found:
            hits = found
            shown.append((len(text), hits))
        prompt = answer_prompt(run.model, question, hits, text, method.layout, method.wording)
        sampling = Sampling(min(pieces.max_tokens, method.max_tokens - num_tokens), stop=STOPS)
        (piece,) = await run.model.generate(
            GenerateRequest(
                prompt, sampling, until=pieces.until(text), key=("piece", step), watch=run.trace.draft
            )
        )
        run.trace.commit(piece.text)
        text += piece.text
        num_tokens += len(piece.tokens)
        ended = _end_reason(piece, text, num_tokens, method.max_tokens)
        if ended:
            reason = ended
            break
        written = plain_of(text, question, run.trace)
        last = written.text[written.offset(len(text) - len(piece.text)) :]
        query = pieces.query(written.text, last).strip()
    run.trace.decide("end", "stop", reason)
    return await finished(method, question, run, text, shown)


def _end_reason(piece: Generation, text: str, num_tokens: int, max_tokens: int) -> str:
    if piece.finish != "length" and has_answer(text):
        return "the answer is stated"
    if piece.finish == "end":
        return "the model ended its answer"
    if piece.finish == "stop":
        return "a blank line, or what would follow an answer, begins"
    return f"the answer has {max_tokens} tokens" if num_tokens >= max_tokens else ""
