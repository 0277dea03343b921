"""The trace: its events, their causes, and what is heard of them."""

import asyncio

import pytest

from askance.core.errors import LimitReached
from askance.core.trace import Committed, Decided, Drafted, Expanded, Searched, Trace


def test_events_are_numbered_timed_and_heard():
    heard = []
    trace = Trace(heard.append)
    trace.decide("retrieve", "search", "because", query="who")
    trace.add(Searched, seconds=0.5, query="who", k=2, hits=())
    assert [event.id for event in trace.events] == [0, 1]
    assert heard == trace.events
    assert trace.events[0].at_seconds <= trace.events[1].at_seconds
    assert trace.events[1].seconds == 0.5
    usage = trace.usage()
    assert (usage.searches, usage.generated_tokens, usage.seconds > 0) == (1, 0, True)
    assert trace.decisions == (trace.events[0],)


def test_because_names_the_parent_in_each_branch():
    async def branch(trace, name):
        decision = trace.decide("retrieve", "search", name)
        with trace.because(decision):
            await asyncio.sleep(0)
            trace.add(Searched, query=name, k=1, hits=())
        return decision

    async def both(trace):
        return await asyncio.gather(branch(trace, "one"), branch(trace, "two"))

    trace = Trace()
    decisions = asyncio.run(both(trace))
    parents = {event.query: event.parent for event in trace.events if isinstance(event, Searched)}
    assert parents == {"one": decisions[0].id, "two": decisions[1].id}
    other = Trace()
    with trace.because(decisions[0]):
        other.decide("retrieve", "keep", "a cause belongs to its own trace")
    trace.decide("retrieve", "keep", "outside")
    assert (trace.events[-1].parent, other.events[0].parent) == (None, None)


def test_a_step_of_a_search_is_an_event():
    trace = Trace()
    with trace.because(trace.decide("retrieve", "search", "because")):
        step = trace.expand("0.1", "retrieve", "The Arno.", numbers={"score": 2.5}, rejected="it is empty")
    assert isinstance(step, Expanded)
    assert (step.node, step.action, step.text, step.passage, step.distributions) == (
        "0.1", "retrieve", "The Arno.", None, {},
    )  # fmt: skip
    assert (step.numbers, step.rejected, step.parent) == ({"score": 2.5}, "it is empty", 0)


def test_commits_that_follow_each_other_are_kept_as_one_but_heard_one_by_one_and_drafts_only_heard():
    heard = []
    trace = Trace(heard.append)
    trace.commit("The ")
    trace.commit("")
    trace.commit("Arno.")
    trace.draft("perhaps")
    trace.decide("end", "stop", "done")
    trace.commit(" Pisa.")
    assert [e.text for e in trace.events if isinstance(e, Committed)] == ["The Arno.", " Pisa."]
    assert [e.text for e in heard if isinstance(e, Committed)] == ["The ", "Arno.", " Pisa."]
    assert trace.committed == "The Arno. Pisa."
    assert [e.id for e in trace.events] == [0, 1, 2]
    assert [type(event) for event in heard] == [Committed, Committed, Drafted, Decided, Committed]
    pieces = [event.id for event in heard if not isinstance(event, Drafted)]
    assert pieces == [0, 0, 1, 2], "a piece has the id of the event it is kept in, and a draft is not kept"


def test_only_errors_of_other_code_have_a_traceback_which_is_bounded():
    trace, served = Trace(), Trace()
    served.has_tracebacks = False
    with pytest.raises(ValueError, match="x") as raised:
        raise ValueError("x" * 9000)
    trace.fail(raised.value, "model")
    trace.fail(raised.value, "model", "interrupted")
    trace.fail(LimitReached("no more"), "model")
    served.fail(raised.value, "model")
    assert [len(event.traceback) for event in (*trace.events, *served.events)] == [4000, 0, 0, 0]
    assert [event.message[:11] for event in trace.events] == ["x" * 11, "interrupted", "no more"]
