"""Traces for the tests of the viewer: of methods on scripted models, a long one, one with harmful text."""

from functools import cache

from askance.core import trace
from askance.core.answers import Answer, Citation, UnsupportedSentence, Usage
from askance.core.types import Hit, Passage
from askance.methods.airrag.method import Airrag
from tests.methods import bridge, reflecting
from tests.methods.reflecting_long import ONE_P, REPLIES, long
from tests.methods.test_dragin import seats

HARMFUL = (
    "</script><script>window.harmed = 1</script><img src=x onerror='window.harmed = 2'>"
    "<!-- <script> \u202e\u0007 ]]> & &lt; </style>"
)
"""Text that would run as a script, or end an element of the page, if it were taken as markup."""


WHOLE = ONE_P + reflecting.found(reflecting.PO) + "[Relevant]Two pp.[Fully supported]"


@cache
def dragin() -> tuple[trace.AnyEvent, ...]:
    """A trace of DRAGIN, in which the word "4,250." makes the method search."""
    return tuple(seats()[0].trace.events)


@cache
def selfrag() -> tuple[trace.AnyEvent, ...]:
    """A trace of Self-RAG's long form with two segments."""
    model = reflecting.native(REPLIES | {WHOLE: "[Utility:1]"})
    return tuple(reflecting.run(long(), model)[0].trace.events)


@cache
def airrag() -> tuple[trace.AnyEvent, ...]:
    """A trace of AirRAG's tree."""
    return tuple(bridge.run(Airrag(rollouts=4))[0].trace.events)


def asked(question: str) -> trace.Trace:
    """Return the beginning of a trace."""
    started, about = trace.Trace(), {"method": "Single()", "title": "single", "retriever": "bm25", "seed": 0}
    about |= {"models": {"answer": "scripted"}, "started_at": "2026-11-01T00:00:00+00:00"}
    started.add(trace.Asked, question_id="q", text=question, **about)
    return started


def cited(
    text: str = "The bridge is in Pennsylvania.", unsupported: tuple[UnsupportedSentence, ...] = ()
) -> tuple[trace.AnyEvent, ...]:
    """A trace of an answer that cites the second sentence of a passage."""
    passage = Passage("p/1", "A bridge", f"It has one span. {text} It is red.", "bridges.txt", 0, 60)
    events = asked("Where is the bridge?")
    events.add(trace.Searched, query="bridge", k=1, hits=(Hit(passage, 1.5, 1),))
    events.commit(text)
    citations = (Citation(1, passage, 0, text.index(".") + 1),)
    answer = Answer(text, "Pennsylvania", citations, source="from [1]", unsupported=unsupported)
    events.add(trace.Answered, answer=answer, usage=Usage(10, 5, 2, 1, 0.5))
    return tuple(events.events)


def searching(*queries: str) -> tuple[trace.AnyEvent, ...]:
    """A trace that searches for each query in vain and commits it as a sentence."""
    events = asked("Where?")
    for query in queries:
        events.add(trace.Searched, query=query, k=1, hits=())
        events.commit(f"{query}.")
    events.add(trace.Answered, answer=Answer("Done."), usage=Usage())
    return tuple(events.events)


def harmful() -> tuple[trace.AnyEvent, ...]:
    """A trace with `HARMFUL` in each text."""
    passage = Passage(HARMFUL, HARMFUL, HARMFUL, HARMFUL)
    events = asked(HARMFUL)
    events.add(trace.Searched, query=HARMFUL, k=1, hits=(Hit(passage, 1.5, 1),))
    words, numbers = (trace.WordSignal(HARMFUL, 1.0, True),), {HARMFUL: 1.0}
    signal = {"signal": HARMFUL, "threshold": 0.5, "query": HARMFUL}
    events.decide("retrieve", "search", HARMFUL, **signal, words=words, numbers=numbers)
    shares = {HARMFUL: {HARMFUL: 0.5}}
    events.expand("0.1", HARMFUL, HARMFUL, passage=Hit(passage, 1.0, 1), distributions=shares)
    events.add(trace.Noted, name="retry", text=HARMFUL, place=HARMFUL)
    answer = Answer(HARMFUL, HARMFUL[:9], (Citation(1, passage, 0, len(HARMFUL)),))
    events.add(trace.Answered, answer=answer, usage=Usage())
    return tuple(events.events)


def long_trace(num_events: int = 10_000) -> tuple[trace.AnyEvent, ...]:
    """A trace with many drafts, decisions, searches and steps of both kinds of trees."""
    events = asked("How long is a long trace?")
    passages = tuple(Passage(f"p{index}", f"Title {index}", "Some words of a passage.") for index in range(3))
    hits = tuple(Hit(passage, 1.0, rank) for rank, passage in enumerate(passages, start=1))
    words = [f"word{index}" for index in range(30)]
    tokens = tuple(trace.TracedToken(f" {word}", -0.5, 1.0) for word in words)
    signals = tuple(trace.WordSignal(word, index / 30, index > 27) for index, word in enumerate(words))
    halves = {"support": {"[Fully supported]": 0.7, "[No support / Contradictory]": 0.3}}
    call = {"role": "answer", "prompt": "A prompt of some length. " * 20, "tokens": tokens, "finish": "stop"}
    call |= {"text": "".join(token.text for token in tokens), "seconds": 0.001}
    counts = {"prompt_tokens": 100, "generated_tokens": 30, "reused_tokens": 50}
    for index in range((num_events - 2) // 5):
        events.add(trace.Generated, key=("sentence", index), **call, **counts)
        events.decide(
            "retrieve", "search", "a word is above", signal="s", threshold=0.9, words=signals, query="w"
        )
        events.add(trace.Searched, query=f"query {index}", k=3, hits=hits)
        top, below = index // 40 + 1, index % 40 + 1
        visited = {"visits": 2.0, "value": 1.0, "uct": 0.9}
        for numbers in (visited, {"score": 1.0, "sequence": 0.5}):
            node = f"0.{top}" if below == 1 else f"0.{top}.{below}"
            events.expand(node, "ra", f"step {index}", numbers=numbers, distributions=halves)
    events.add(trace.Answered, answer=Answer("Long."), usage=Usage())
    return tuple(events.events)
