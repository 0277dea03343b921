"""Self-RAG over recorded traces: other weights choose among the same candidates, and no model is asked.

The calls of the short form depend neither on the weights nor on the threshold, so its traces hold all that
another choice needs. The beam of the long form decides which segments are written at all.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from askance.core.answers import Answer
from askance.core.errors import AskanceError
from askance.core.extensions import implements
from askance.core.ports import Retriever, Run
from askance.core.trace import Answered, AnyEvent, Decided, Expanded, Generated, Searched, Trace
from askance.core.types import Hit, Key, Question
from askance.methods.selfrag.forms import ShortForm
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.segment_writer import SegmentWriter
from askance.methods.selfrag.segments import Action, Path, Segment
from askance.methods.selfrag.tokens import GROUPS, most_likely
from askance.text.answers import has_answer


class NotRecorded(AskanceError):
    """No recorded trace of the question holds what another choice needs. The message names it."""


@implements(Retriever)
@dataclass(frozen=True, slots=True)
class RecordedRetriever:
    """A retriever that returns the hits of the first recorded search, and records it in a trace."""

    events: Sequence[AnyEvent]
    trace: Trace
    name: str = "recorded"
    fingerprint: str = ""

    async def search(self, query: str, k: int, *, exclude: frozenset[str] = frozenset()) -> tuple[Hit, ...]:
        """Return the recorded hits for any query."""
        hits = next((each.hits for each in self.events if isinstance(each, Searched)), None)
        if hits is None:
            raise NotRecorded("no run has searched for it: add one with threshold=0")
        self.trace.add(Searched, query=query, k=k, hits=hits)
        return hits


@dataclass(eq=False)
class RecordedWriter(SegmentWriter):
    """A writer that returns the recorded candidates of one question."""

    events: Sequence[AnyEvent]

    @property
    def is_native(self) -> bool:
        """Return whether the candidates were written with reflection tokens."""
        written = [each for each in self.events if isinstance(each, Generated) and each.key[0] != "decide"]
        return any(token.probs for each in written if each.role == "answer" for token in each.tokens)

    async def start_path(self) -> Path:
        decisions = [each for each in self.events if isinstance(each, Decided) and each.name == "retrieve"]
        numbers = next((each.numbers for each in decisions if each.numbers), {})
        return Path(retrieve_probs={name: numbers[name] for name in GROUPS["retrieve"] if name in numbers})

    async def write(self, path: Path, action: Action, hit: Hit | None, *, key: Key, whole: bool) -> Segment:
        judged = GROUPS if self.is_native else self.parameters.needed_groups
        tried = [each for each in self.events if isinstance(each, Expanded) and each.action == action]
        for each in tried:
            if hit is None or (each.passage and each.passage.passage.id == hit.passage.id):
                probs = {name: each.distributions.get(name, {}) if name in judged else {} for name in GROUPS}
                relevance, support, utility = probs["relevance"], probs["support"], probs["utility"]
                labels, sequence = {most_likely(relevance), most_likely(support)}, each.numbers["sequence"]
                return Segment(
                    each.text, action, hit, (), relevance, support, utility, frozenset(labels), {}, sequence
                )
        raise NotRecorded("no run has an answer without a search, or with each passage: add one")


async def choose_again(
    method: Selfrag, question: Question, events: Sequence[AnyEvent], trace: Trace
) -> Answer:
    """Return the answer that `method`, in the short form, would give to a question.

    Args:
        events: The events of all recorded traces of the question.
        trace: The trace to record the choice in.

    Raises:
        NotRecorded: The traces lack a candidate, or the short answer of the chosen one.
    """
    run = Run({}, RecordedRetriever(events, trace), trace)
    writer = RecordedWriter(method, question, run, None, events)
    path, option = await ShortForm(writer).answer()
    silent = replace(method, ask_short_answer=False)
    answer = await silent.finish(path, option, question, run, is_native=writer.is_native)
    if writer.is_native or option or not method.ask_short_answer or has_answer(answer.text):
        return answer
    for asked in (each.answer for each in events if isinstance(each, Answered)):
        if asked.text.startswith(answer.text) and asked.citations == answer.citations:
            trace.commit(asked.text[len(answer.text) :])
            return replace(answer, text=asked.text, short=asked.short)
    raise NotRecorded("the text of its answer states no short answer, and no run has asked for one")
