"""An answer as it is told: its text without the markers that the model wrote, also while it is written, and
its citations.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from askance.core.ports import Run
from askance.core.token_ledger import has_room
from askance.core.trace import Decided, Event, Searched, Trace, Uncited
from askance.core.types import Answer, Chat, Citation, Passage, Prompt, Question
from askance.text.answers import says, short_answer
from askance.text.markers import Plain, plain
from askance.text.support import Asked, Finding, Mark, Shown, best_support, citations_of, claim_of, findings


class PlainTrace(Trace):
    """A trace whose method commits and drafts text as the model wrote it, and which tells it without markers.

    Text that may become a marker is held back until it is decided, so that nothing told is taken back.
    `committed` is what has been told, `written` all that the method has committed, and the markers in it.
    """

    def __init__(self, of: Trace, question: Question) -> None:
        self.events, self._listener, self._started = of.events, of._listener, of._started
        self._of = of
        self.written = Plain(lambda: quotable(question, of.events))
        self._draft, self._draft_since = self.written, -1

    @property
    def committed(self) -> str:
        return self._of.committed

    def settle(self) -> None:
        """Tell what was held back: what follows, if anything, is the beginning of something else."""
        self._of.commit(self.written.end())

    def commit(self, text: str) -> None:
        self._draft_since = -1
        self._of.commit(self.written.add(text))

    def draft(self, text: str) -> None:
        # A draft goes on from what is kept; after any other event another one begins.
        if self._draft_since != len(self.events):
            self._draft, self._draft_since = replace(self.written), len(self.events)
        piece = self._draft.add(text)
        if piece:
            self._of.draft(piece)


def settled(trace: Trace) -> Plain:
    """All that was committed to a trace, where nothing follows for now."""
    if not isinstance(trace, PlainTrace):
        return Plain(lambda: ("",), trace.committed)
    trace.settle()
    return trace.written


def num_written(trace: Trace) -> int:
    """How many characters were committed to a trace, markers included."""
    return len(trace.written.written if isinstance(trace, PlainTrace) else trace.committed)


def quotable(question: Question, events: Iterable[Event]) -> Sequence[str]:
    """What an answer may quote: the question with its options, then the passages found so far."""
    hits = (hit for event in events if isinstance(event, Searched) for hit in event.hits)
    found = dict.fromkeys(f"{hit.passage.title}\n{hit.passage.text}" for hit in hits)
    return ("\n".join((question.text, *question.options)), *found)


def plain_of(text: str, question: Question, trace: Trace) -> Plain:
    """What a model wrote, and which markers stand in it."""
    return plain(text, lambda: quotable(question, trace.events))


Evidence = tuple[str, Sequence[Passage]]
"""A question, and passages that its answer was written from."""


def cited(
    trace: Trace, written: Plain, shown: Shown, short: str, asked: Asked, stated: str = ""
) -> tuple[Citation, ...]:
    """The citations of `written.text`; the trace says of each sentence why it cites nothing, if it might.

    Args:
        shown: (offset in `written.written`, hits) in order: since when which passages were in the prompt,
            as they are numbered there.
        asked: the questions that parts of the text answer, by offset in `written.text`.
        stated: `written.text` with blanks for what claims nothing; otherwise all of it claims something.
    """
    marks = [_mark(each.end, written.offset(each.start), each.numbers, shown) for each in written.markers]
    shown = [(written.offset(at), hits) for at, hits in shown]
    text = stated or written.text
    found = findings(text, shown, asked, short, marks)
    _tell(trace, text, found)
    return citations_of(found)


def cited_as_written(
    question: Question, trace: Trace, text: str, shown: Shown, short: str
) -> tuple[Citation, ...]:
    """The citations of a text that keeps the markers that the model wrote."""
    written = plain_of(text, question, trace)
    return tuple(
        replace(each, start=written.written_offset(each.start), end=written.written_offset(each.end))
        for each in cited(trace, written, shown, short, ((0, question.text),))
    )


def whole_cited(trace: Trace, text: str, evidence: Sequence[Evidence]) -> tuple[Citation, ...]:
    """The citations of a bare answer as a whole: of the first evidence that has any, the best passage.

    Where evidence of one kind supports it, that of the next is not looked at.

    Args:
        evidence: what it was written from, the nearest first, each with the question that it answers.
    """
    reasons = list[str]()
    for asked, passages in evidence:
        best, why = best_support(claim_of(f"The answer is {text}", asked), passages)
        if best:
            return citations_of([Finding(0, len(text), (best,))])
        reasons += [why] if why else []
    _tell(trace, text, [Finding(0, len(text), (), "; ".join(dict.fromkeys(reasons)))])
    return ()


def checked(
    question: Question, trace: Trace, text: str, citations: Sequence[Citation], *, judged: bool
) -> tuple[str, tuple[Citation, ...]]:
    """A text and citations of a method that names its evidence itself: no markers, and what the check leaves.

    Args:
        judged: whether the method has judged that each passage supports its sentence; all that say anything
            stay then.
    """
    written = plain_of(text, question, trace)
    found = list[Finding]()
    for each in citations:
        start, end = written.offset(each.start), written.offset(each.end)
        said, objection = written.text[start:end], ""
        if not (judged and says(said)):
            objection = claim_of(said, question.text).objection(each.passage)
        why = f"it was written with a passage, but {objection}" if objection else ""
        found.append(Finding(start, end, () if why else (each.passage,), why))
    _tell(trace, written.text, found)
    return written.text, citations_of(found)


def _mark(end: int, at: int, numbers: Sequence[int], shown: Shown) -> Mark:
    hits = next((hits for offset, hits in reversed(shown) if offset < end), ())
    passages = tuple(hits[number - 1].passage for number in numbers if number <= len(hits))
    return Mark(at, passages, tuple(number for number in numbers if number > len(hits)))


def _tell(trace: Trace, text: str, found: Sequence[Finding]) -> None:
    for each in found:
        if each.why:
            trace.add(Uncited, text=text[each.start : each.end], why=each.why)


def as_answer(question: Question, run: Run, shown: Shown) -> Answer:
    """The answer that was committed, as it stands, without markers.

    Args:
        shown: (offset, hits) in order: from this character of what was committed on, markers and white space
            included, these passages were in the prompt.
    """
    written = settled(run.trace)
    text = written.text.strip()
    left, short = len(written.text) - len(written.text.lstrip()), short_answer(text, question)
    citations = cited(run.trace, written, shown, short, ((0, question.text),))
    moved = tuple(replace(each, start=each.start - left, end=each.end - left) for each in citations)
    return Answer(text, short, moved)


def decide_to_elicit(run: Run, prompt: Prompt, num_tokens: int, why: str) -> Decided | None:
    """The decision to have an answer stated in so many new tokens; None where the trace says why not.

    Args:
        why: what the text lacks.
    """
    model, obstacle = run.model, ""
    if isinstance(prompt, Chat) and "continuation" not in model.capabilities:
        obstacle = f"{model.name} can't go on from a text of its own"
    elif not has_room(model, prompt, num_tokens):
        is_small = model.count(prompt) + num_tokens > model.context_tokens
        short = f"the window of {model.context_tokens} tokens" if is_small else "l_max"
        obstacle = f"{short} has no room to ask for it"
    if not obstacle:
        return run.trace.decide("end", "elicit", why)
    run.trace.decide("end", "unstated", f"{why}, and {obstacle}")
    return None
