"""How Blender asks one of its methods, and what it takes from the answers into the last call."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from askance.core.errors import AskanceError, LimitReached, ModelSpecError, RequestRefused
from askance.core.ports import Method, Run
from askance.core.types import Answer, Demo, Hit, Question
from askance.methods.airrag.choosing import Ending
from askance.methods.airrag.state import State, each_once
from askance.methods.airrag.voting import Vote
from askance.methods.bounded import NotedRetriever
from askance.methods.budget import Allowance, NoRoom
from askance.methods.members import answer_of
from askance.text.answers import normalise_answer
from askance.text.fusion import fuse_hits


@dataclass(frozen=True, slots=True)
class Told:
    """What became of one method.

    Attributes:
        hits: passages that it found, in the order of its searches, each once and where it came first.
        failure: why it has no answer; empty where it came to an end.
        is_refused: it failed since a server refused what it asked for.
    """

    name: str
    answer: Answer = Answer("")
    hits: tuple[Hit, ...] = ()
    failure: str = ""
    is_refused: bool = False

    @property
    def bare(self) -> str:
        """The short answer, or all that was written where none can be read from it."""
        return (self.answer.short or self.answer.text).strip()

    @property
    def before(self) -> tuple[Demo, ...]:
        """What was written besides, for the last call to see."""
        written = self.answer.text.strip()
        is_more = normalise_answer(written) != normalise_answer(self.bare)
        return (Demo("", written),) if is_more else ()


async def ask_member(name: str, method: Method, question: Question, run: Run, allowance: Allowance) -> Told:
    """What a method answers within `allowance`. Where it fails, the trace says so, and so does `Told`.

    Raises:
        LimitReached: of the whole question.
    """
    trace = run.trace.aside()
    retriever = NotedRetriever(run.retriever, trace)
    own = replace(run, retriever=retriever, trace=trace)
    failure, is_refused = "", False
    with run.trace.because(run.trace.decide("member", "ask", f"{name} answers on its own")):
        try:
            answer = await answer_of(name, method, question, own, allowance)
        except (LimitReached, ModelSpecError):
            raise
        except (AskanceError, NoRoom) as error:
            answer, failure = Answer(""), str(error) or type(error).__name__
            is_refused = isinstance(error, RequestRefused)
            run.trace.decide("member", "failed", f"{name}: {failure}")
        finally:
            allowance.close()
    found = each_once(hit for _, hits in retriever.shown for hit in hits)
    return Told(name, answer, found, failure, is_refused)


def endings_of(told: Sequence[Told], most_passages: int | None) -> list[tuple[Told, Ending]]:
    """The answers of those that came to an end, with the passages that most methods found early.

    Args:
        most_passages: None for all that were found.
    """
    ended = [each for each in told if not each.failure]
    ranked = fuse_hits([each.hits for each in ended])
    places = {hit.passage.id: hit.rank for hit in ranked[:most_passages]}
    return [(each, _ending(each, places)) for each in ended]


def _ending(told: Told, places: dict[str, int]) -> Ending:
    hits = [replace(hit, rank=places[hit.passage.id]) for hit in told.hits if hit.passage.id in places]
    state = State(history=told.before, found=(tuple(hits),), answer=told.bare)
    return Ending(state, Vote(told.bare, is_grounded=bool(told.hits)))
