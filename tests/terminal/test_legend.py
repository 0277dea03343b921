"""The legend explains the terms of a trace."""

import io
from dataclasses import fields

from rich.console import Console

from askance.core.answers import Answer, Usage
from askance.core.trace import Answered, Asked, Drafted, Searched, Trace, WordSignal
from askance.core.types import Hit, Passage
from askance.methods.airrag.parameters import FULL as AIRRAG_ACTIONS
from askance.methods.dragin.method import Dragin
from askance.methods.dragin.paper import DraginPaper
from askance.methods.selfrag.method import Selfrag
from askance.terminal.live_view import LiveView
from askance.terminal.trace_view import ACTIONS, Legend, print_trace

HIT = Hit(Passage("1", "The Arno", "It flows through Pisa."), 10.66, 1)


def asked(trace, retriever="bm25 index (1 passages)"):
    trace.add(
        Asked, question_id="q", text="Where?", method="m", title="dragin", models={"answer": "bundled"},
        retriever=retriever, seed=0, started_at="",
    )  # fmt: skip


def doubted(trace, signal, value=1.07, threshold=0.9, text="New"):
    words = (WordSignal(text, value, is_hit=True),)
    trace.decide("retrieve", "search", "a word is", signal=signal, threshold=threshold, words=words)


def told(trace):
    legend = Legend()
    return [line for event in trace.events for line in legend(event)]


def test_a_number_behind_a_word_is_explained_once():
    trace = Trace()
    doubted(trace, Dragin.rind_signal)
    doubted(trace, Dragin.rind_signal)
    (line,) = told(trace)
    assert line.startswith("(number) after a word: RIND, how unsure the model was of it (entropy in nats) ×")
    assert line.endswith("in doubt above the threshold 0.9")


def test_doubt_is_on_the_side_of_the_threshold_where_it_is():
    trace = Trace()
    doubted(trace, "token probability", value=0.2)
    doubted(trace, "a signal of tomorrow")
    flare, unknown = told(trace)
    assert flare.endswith("in doubt at most the threshold 0.9")
    assert unknown == "(number) after a word: a signal of tomorrow; in doubt above the threshold 0.9"


def test_every_signal_of_dragin_has_words():
    for signal in (Dragin.rind_signal, DraginPaper.rind_signal, "1 − probability"):
        trace = Trace()
        doubted(trace, signal)
        assert f": {signal};" not in told(trace)[0]


def test_the_reflection_token_is_explained():
    trace = Trace()
    doubted(trace, "share of [Retrieval]", text="[Retrieval]")
    assert "[Retrieval], the reflection token that asks for a search" in told(trace)[0]


def test_the_number_behind_a_title_is_that_of_the_retriever():
    for name, words in (("bm25 i (1)", "BM25"), ("dense i (1)", "cosine"), ("hybrid of", "reciprocal")):
        trace = Trace()
        asked(trace, name)
        trace.add(Searched, query="Arno", k=1, hits=(HIT,))
        (line,) = told(trace)
        assert words in line
    nothing = Trace()
    asked(nothing)
    nothing.add(Searched, query="Arno", k=1, hits=())
    assert told(nothing) == []


def test_actions_of_airrag_have_the_names_of_the_paper():
    assert [ACTIONS[action] for action in AIRRAG_ACTIONS] == [
        "system analysis", "direct answer", "retrieval-answer", "query transformation", "summary-answer",
    ]  # fmt: skip
    trace = Trace()
    for action in AIRRAG_ACTIONS:
        trace.expand("0.1", action, "None", numbers={"visits": 1.0, "value": 0.5, "uct": 1.0, "reward": 0.5})
    lines = told(trace)
    for name in (*(ACTIONS[action] for action in AIRRAG_ACTIONS), "visits", "value", "uct", "reward"):
        assert sum(line.startswith(f"{name}: ") for line in lines) == 1


def test_every_score_of_selfrag_is_explained():
    weights = [field.name for field in fields(Selfrag) if field.name.startswith("w_")]
    assert weights == ["w_rel", "w_sup", "w_use"]
    trace = Trace()
    names = ("score", "sequence", "relevance", "support", "utility", "step")
    trace.expand("0.1", "retrieve", "It is.", passage=HIT, numbers=dict.fromkeys(names, 1.0))
    assert [line.partition(":")[0] for line in told(trace)] == ["0.1", *names]
    assert "[Fully supported]" in "".join(told(trace))


def test_what_a_search_cost_is_explained():
    trace = Trace()
    numbers = {"input tokens": 9.0, "tokens": 10.0, "calls": 2.0, "rollouts": 1.0, "l_max": 99.0}
    trace.decide("budget", "spent", "", numbers=numbers)
    assert [line[:8] for line in told(trace)] == ["a rollou", "L_total:", "L_max: t"]


def screen(events, **how):
    stream = io.StringIO()
    console = Console(file=stream, width=80, color_system=None, **how)
    with LiveView(console, ticks=False, clock=iter(range(100)).__next__) as view:
        events(Trace(view), view)
    return stream.getvalue()


def answered(trace, view):
    view.echo("Where?")
    asked(trace)
    doubted(trace, Dragin.rind_signal)
    trace.add(Searched, query="Arno", k=1, hits=(HIT,))
    trace.add(Answered, answer=Answer("Pisa.", "Pisa"), usage=Usage())


def test_a_question_that_was_echoed_is_not_shown_again():
    lines = screen(answered).splitlines()
    assert lines[:2] == ["Where?", "dragin · bundled · bm25 index (1 passages)"]
    assert sum("Where?" in line for line in lines) == 1
    assert any(line.startswith("legend  (number) after a word: RIND") for line in lines)


def test_a_recorded_trace_has_the_same_legend():
    trace = Trace()
    answered(trace, LiveView(Console(file=io.StringIO())))
    stream = io.StringIO()
    print_trace(trace.events, Console(file=stream, width=80, color_system=None))
    found = [line for line in stream.getvalue().splitlines() if line.startswith("legend")]
    assert [line[:30] for line in found] == [
        line[:30] for line in screen(answered).splitlines() if line.startswith("legend")
    ]
    assert len(found) == 2


def test_a_terminal_says_that_it_is_worked_on_until_there_is_text():
    def waiting(trace, view):
        asked(trace)
        trace.add(Drafted, text="Pisa")

    seen = screen(waiting, force_terminal=True)
    assert "working, 1 s" in seen
    assert seen.index("working, 1 s") < seen.index("Pisa")
    assert "working" not in seen[seen.index("Pisa") :]
    assert "working" not in screen(waiting)
