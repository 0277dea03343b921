"""Remove the model's citation markers from an answer, and find the passages that its sentences cite."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from askance.core.answers import Answer, Citation
from askance.core.ports import Run
from askance.core.token_ledger import has_room
from askance.core.trace import Decided, Event, Generated, Searched, Trace, Uncited
from askance.core.types import Chat, Passage, Prompt, Question
from askance.text.answers import has_content, short_answer
from askance.text.markers import UnmarkedText, without_markers
from askance.text.support import (
    ModelMarker,
    PromptPassages,
    QuestionOffsets,
    SentenceSupport,
    best_support,
    citations_of,
    claim_of,
    final_support,
    sentence_support,
)


class PlainTrace(Trace):
    """A trace that removes the model's citation markers from committed and drafted text.

    Text that may still become a marker is held back, so text that was passed on never has to be retracted.

    Attributes:
        written: All committed text, and the markers found in it.
        evidence: A function that returns the last three arguments of `cite_sentences`, if the citations of a
            sentence can be final before the answer is complete (see `Trace.settled`).
    """

    evidence: "Callable[[str], SentenceEvidence] | None" = None

    def __init__(self, inner: Trace, question: Question) -> None:
        self.events, self.listener, self._started = inner.events, inner.listener, inner._started
        self._inner, inner.settled, self._known = inner, self._settled, tuple[SentenceSupport, ...]()
        self.written = UnmarkedText(lambda: quotable_texts(question, inner.events))
        self._draft, self._draft_since = self.written, -1

    @property
    def committed(self) -> str:
        return self._inner.committed

    def flush(self) -> None:
        """Commit the text held back, even if later text could have turned it into a marker."""
        self._inner.commit(self.written.end())

    def commit(self, text: str) -> None:
        self._draft_since = -1
        self._inner.commit(self.written.add(text))

    def commit_plain(self, text: str) -> None:
        self._inner.commit(text)

    def _settled(self) -> tuple[int, tuple[Citation, ...]]:
        if self.evidence is None:
            return 0, ()
        text = self.written.text[: len(self._inner.committed)]
        shown, questions, stated = self.evidence(text)
        shown, marks = _in_text(self.written, shown)
        self._known, until = final_support(stated, shown, questions, marks, self._known)
        return until, citations_of(self._known)

    def draft(self, text: str) -> None:
        # A draft continues the committed text. After any other event, a new draft starts.
        if self._draft_since != len(self.events):
            self._draft, self._draft_since = replace(self.written), len(self.events)
        piece = self._draft.add(text)
        if piece:
            self._inner.draft(piece)


def full_text(trace: Trace) -> UnmarkedText:
    """Flush a trace, and return all text committed to it, with the positions of its citation markers."""
    if not isinstance(trace, PlainTrace):
        return UnmarkedText(lambda: ("",), trace.committed)
    trace.flush()
    return trace.written


def num_committed_chars(trace: Trace) -> int:
    """Return the number of characters committed to a trace, citation markers included."""
    return len(trace.written.written if isinstance(trace, PlainTrace) else trace.committed)


def quotable_texts(question: Question, events: Iterable[Event]) -> Sequence[str]:
    """Return the texts that an answer may quote: the question with its options, and the passages found."""
    hits = (hit for event in events if isinstance(event, Searched) for hit in event.hits)
    passages = dict.fromkeys(f"{hit.passage.title}\n{hit.passage.text}" for hit in hits)
    return ("\n".join((question.text, *question.options)), *passages)


def parse_markers(text: str, question: Question, trace: Trace) -> UnmarkedText:
    """Return a text that the model wrote, with the positions of its citation markers."""
    return without_markers(text, lambda: quotable_texts(question, trace.events))


SentenceEvidence = tuple[PromptPassages, QuestionOffsets, str]
"""The last three arguments of `cite_sentences`, which are the evidence of the sentences of a text."""
Evidence = tuple[str, Sequence[Passage]]
"""A question, and the passages from which its answer was written."""


def cite_sentences(
    trace: Trace,
    written: UnmarkedText,
    short: str,
    shown: PromptPassages,
    questions: QuestionOffsets,
    stated: str = "",
) -> tuple[Citation, ...]:
    """Return the citations of `written.text`, and record in the trace why sentences have no citation.

    Args:
        shown: Pairs (offset in `written.written`, numbered passages that the prompt shows from that offset
            on), in order.
        questions: Pairs (offset in `written.text`, question that the text answers from that offset on).
        stated: A copy of `written.text` with blanks in place of the parts that make no claim. An empty string
            means that every part makes a claim.
    """
    (shown, marks), text = _in_text(written, shown), stated or written.text
    results = tuple(sentence_support(text, shown, questions, short, marks))
    _record_uncited(trace, text, results)
    return citations_of(results)


def cite_whole_answer(trace: Trace, text: str, evidence: Sequence[Evidence]) -> tuple[Citation, ...]:
    """Return one citation for a text that is only an answer, or none if no evidence supports the answer.

    The cited passage is the best one of the first evidence that supports the answer.

    Args:
        evidence: Pairs (question, passages from which its answer was written), most direct evidence first.
    """
    reasons = list[str]()
    for asked_question, passages in evidence:
        best, why = best_support(claim_of(f"The answer is {text}", asked_question), passages)
        if best:
            return citations_of([SentenceSupport(0, len(text), (best,))])
        reasons += [why] if why else []
    _record_uncited(trace, text, [SentenceSupport(0, len(text), (), "; ".join(dict.fromkeys(reasons)))])
    return ()


def check_citations(
    question: Question, trace: Trace, text: str, sentences: Sequence[SentenceSupport], *, judged: bool
) -> tuple[str, tuple[Citation, ...]]:
    """Return a text without markers, and the citations of the sentences that their passage supports.

    Args:
        sentences: The sentences to which the method itself has assigned a passage each.
        judged: Whether the method itself has judged that each passage supports its sentence. If so, only
            citations of text without content are checked.
    """
    written = parse_markers(text, question, trace)
    results = list[SentenceSupport]()
    for each in sentences:
        start, end = written.offset(each.start), written.offset(each.end)
        sentence, objection = written.text[start:end], ""
        if not (judged and has_content(sentence)):
            objection = claim_of(sentence, question.text).objection(each.passages[0])
        why = f"it was written with a passage, but {objection}" if objection else ""
        results.append(SentenceSupport(start, end, () if why else each.passages, why))
    _record_uncited(trace, written.text, results)
    return written.text, citations_of(results)


def _in_text(written: UnmarkedText, shown: PromptPassages) -> tuple[PromptPassages, list[ModelMarker]]:
    """Return the passages shown with offsets in the text without markers, and the markers."""
    marks = [_mark(each.end, written.offset(each.start), each.numbers, shown) for each in written.markers]
    return [(written.offset(offset), hits) for offset, hits in shown], marks


def _mark(end: int, start: int, numbers: Sequence[int], shown: PromptPassages) -> ModelMarker:
    hits = next((hits for offset, hits in reversed(shown) if offset < end), ())
    passages = tuple(hits[number - 1].passage for number in numbers if number <= len(hits))
    return ModelMarker(start, passages, tuple(number for number in numbers if number > len(hits)))


def _record_uncited(trace: Trace, text: str, results: Sequence[SentenceSupport]) -> None:
    for finding in results:
        if finding.why:
            trace.add(Uncited, text=text[finding.start : finding.end], why=finding.why)


def committed_answer(question: Question, run: Run, shown: PromptPassages) -> Answer:
    """Return the committed text, without markers, as an answer with a short answer and citations.

    Args:
        shown: Pairs (offset in the committed text, passages that the prompt shows from that offset on), in
            order. Offsets count markers and white space.
    """
    written = full_text(run.trace)
    text = written.text.strip()
    num_leading, short = len(written.text) - len(written.text.lstrip()), short_answer(text, question)
    citations = cite_sentences(run.trace, written, short, shown, ((0, question.text),))
    shifted = (
        replace(each, start=each.start - num_leading, end=each.end - num_leading) for each in citations
    )
    return Answer(text, short, tuple(shifted))


async def decide_short_answer(run: Run, prompt: Prompt, num_tokens: int, why: str) -> Decided | None:
    """Decide whether the model can be asked for a short answer of up to `num_tokens` tokens.

    Return the decision to ask, or None if the model can't continue its own text or the request does not fit.
    The trace records the reason in either case. If nothing has been generated, the decision is to ask even
    without room, so that the error of the call says what is missing.

    Args:
        why: The reason to ask for a short answer.
    """
    model, obstacle = run.model, ""
    has_generated = any(isinstance(event, Generated) for event in run.trace.events)
    if isinstance(prompt, Chat) and "continuation" not in model.capabilities:
        obstacle = f"{model.name} can't continue a text that it has written"
    elif not await has_room(model, prompt, num_tokens) and has_generated:
        exceeds_window = await model.count(prompt) + num_tokens > model.context_tokens
        limit = f"the window of {model.context_tokens} tokens" if exceeds_window else "l_max"
        obstacle = f"{limit} has no room to ask for it"
    if not obstacle:
        return run.trace.decide("end", "elicit", why)
    run.trace.decide("end", "unstated", f"{why}, and {obstacle}")
    return None
