"""The text of an answer without the citation markers that the model wrote, also while it is written."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from askance.core.trace import Event, Searched, Trace
from askance.core.types import Question
from askance.text.markers import Plain, Unmarking, plain


class PlainTrace(Trace):
    """A trace whose method commits and drafts text as the model wrote it, and which tells it without markers.

    Text that may become a marker is held back until it is decided, so that nothing told is taken back.
    `committed` is what has been told, `written` all that the method has committed.
    """

    def __init__(self, of: Trace, question: Question) -> None:
        self.events, self._listener, self._started = of.events, of._listener, of._started
        self._of = of
        self._kept = Unmarking(lambda: quotable(question, of.events))
        self._draft, self._draft_since = self._kept, -1

    @property
    def committed(self) -> str:
        return self._of.committed

    @property
    def written(self) -> Plain:
        """All that was committed, and the markers in it."""
        return Plain(self._kept.text, tuple(self._kept.markers))

    def settle(self) -> None:
        """Tell what was held back: what follows, if anything, is the beginning of something else."""
        self._of.commit(self._kept.end())

    def commit(self, text: str) -> None:
        self._draft_since = -1
        self._of.commit(self._kept.add(text))

    def draft(self, text: str) -> None:
        # A draft goes on from what is kept; after any other event another one begins.
        if self._draft_since != len(self.events):
            self._draft, self._draft_since = (
                replace(self._kept, markers=[*self._kept.markers]),
                len(self.events),
            )
        piece = self._draft.add(text)
        if piece:
            self._of.draft(piece)


def settled(trace: Trace) -> Plain:
    """All that was committed to a trace, where nothing follows for now."""
    if not isinstance(trace, PlainTrace):
        return Plain(trace.committed, ())
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


def without_markers(text: str, question: Question, trace: Trace) -> str:
    """What a model wrote, without its markers."""
    return plain_of(text, question, trace).text


def plain_of(text: str, question: Question, trace: Trace) -> Plain:
    """What a model wrote, and which markers stand in it."""
    return plain(text, lambda: quotable(question, trace.events))
