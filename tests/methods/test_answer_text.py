from askance.core.trace import Committed, Drafted, Trace
from askance.core.types import Question
from askance.methods.common.answer_text import PlainTrace, full_text, num_committed_chars

QUESTION = Question("q", "Who?")


def heard_by(*calls):
    """What is heard of commits and drafts, each a pair of a method's name and a text."""
    heard = []
    trace = PlainTrace(Trace(heard.append), QUESTION)
    for name, text in calls:
        getattr(trace, name)(text)
    full_text(trace)
    return [(event.type, event.text) for event in heard if isinstance(event, Committed | Drafted)], trace


def test_a_marker_in_pieces_is_never_told():
    told, trace = heard_by(("commit", "Kane ["), ("commit", "1"), ("commit", "]."), ("commit", " So"))
    assert told == [("commit", "Kane"), ("commit", "."), ("commit", " So")]
    assert (trace.committed, num_committed_chars(trace)) == ("Kane. So", len("Kane [1]. So"))
    assert [(each.start, each.numbers) for each in full_text(trace).markers] == [(4, (1,))]


def test_a_draft_goes_on_from_what_is_kept():
    told, _ = heard_by(("commit", "Kane "), ("draft", "[1"), ("draft", "] is"), ("commit", "[1] is"))
    assert told == [("commit", "Kane"), ("draft", " is"), ("commit", " is")]


def test_another_draft_begins_after_an_event():
    heard = []
    trace = PlainTrace(Trace(heard.append), QUESTION)
    trace.draft("Kane [")
    trace.decide("retrieve", "search", "in doubt")
    trace.draft("Hall is")
    assert [event.text for event in heard if isinstance(event, Drafted)] == ["Kane", "Hall is"]


def test_what_a_member_commits_is_its_own():
    trace = PlainTrace(Trace(), QUESTION)
    aside = PlainTrace(trace.aside(), QUESTION)
    aside.commit("Kane [1].")
    assert (full_text(aside).text, aside.committed, trace.committed) == ("Kane.", "Kane.", "")
    assert aside.decide("end", "stop", "done") in trace.events


def test_any_trace_can_be_settled():
    trace = Trace()
    trace.commit("Kane [1].")
    assert (full_text(trace).text, num_committed_chars(trace)) == ("Kane [1].", 9)
