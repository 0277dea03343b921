"""A trace without citation markers, whatever pieces the text comes in."""

import pytest

from askance.core.trace import Committed, Drafted, Trace
from askance.core.types import Question
from askance.methods.common.answer_text import PlainTrace, full_text, num_committed_chars

QUESTION = Question("q", "Who?")


@pytest.mark.parametrize(
    ("calls", "expected"),
    [
        ("commit Kane [|commit 1|commit ].|commit  So", "commit Kane|commit .|commit  So"),
        ("commit Kane |draft [1|draft ] is|commit [1] is", "commit Kane|draft  is|commit  is"),
        (
            "draft Kane [|decide|draft Hall is",
            "draft Kane|draft Hall is",
        ),  # another draft begins after an event
    ],
)
def test_a_listener_never_gets_a_part_of_a_marker(calls, expected):
    events = []
    trace = PlainTrace(Trace(events.append), QUESTION)
    for call in calls.split("|"):
        name, _, text = call.partition(" ")
        trace.decide("retrieve", "search", "in doubt") if name == "decide" else getattr(trace, name)(text)
    full_text(trace)
    texts = [f"{event.type} {event.text}" for event in events if isinstance(event, Committed | Drafted)]
    assert "|".join(texts) == expected


def test_committed_text_of_a_trace_of_one_beside_it_and_of_any_other():
    trace, other = PlainTrace(Trace(), QUESTION), Trace()
    aside = PlainTrace(trace.aside(), QUESTION)
    aside.commit("Kane [1].")
    other.commit("Kane [1].")
    assert (full_text(aside).text, aside.committed, trace.committed) == ("Kane.", "Kane.", "")
    assert num_committed_chars(aside) == num_committed_chars(other) == len("Kane [1].")
    assert [(each.start, each.numbers) for each in full_text(aside).markers] == [(4, (1,))]
    assert aside.decide("end", "stop", "done") in trace.events
    assert full_text(other).text == "Kane [1]."
