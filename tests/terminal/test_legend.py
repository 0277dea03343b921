"""A question on the screen: the legend that explains the terms of a trace, and the growing answer."""

import io

import pytest
from rich.console import Console

from askance.core.answers import Answer, Usage
from askance.core.trace import Answered, Asked, Drafted, Noted, Searched, Trace, Uncited, WordSignal
from askance.core.types import Hit, Passage
from askance.methods.airrag.parameters import FULL as AIRRAG_ACTIONS
from askance.methods.dragin.method import Dragin
from askance.methods.dragin.paper import DraginPaper
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


def explained(trace):
    legend = Legend()
    return [line for event in trace.events for line in legend(event)]


RIND = "(number) after a word: RIND, how unsure the model was of it (entropy in nats) ×"


@pytest.mark.parametrize(
    ("signal", "text", "parts"),
    [
        (Dragin.rind_signal, "New", [RIND, "in doubt above the threshold 0.9"]),
        (DraginPaper.rind_signal, "New", ["RIND"]),
        ("1 − probability", "New", ["after a word: "]),
        ("token probability", "New", ["in doubt at most the threshold 0.9"]),
        ("share of [Retrieval]", "[Retrieval]", ["[Retrieval], the reflection token that asks for a search"]),
    ],
)
def test_a_number_after_a_word_is_explained_once(signal, text, parts):
    trace = Trace()
    doubted(trace, signal, text=text)
    doubted(trace, signal, text=text)
    (line,) = explained(trace)
    assert all(part in line for part in parts)
    assert f": {signal};" not in line
    doubted(trace, "a signal of tomorrow")
    unknown = "(number) after a word: a signal of tomorrow; in doubt above the threshold 0.9"
    assert explained(trace) == [line, unknown]


def test_the_number_after_a_title_is_that_of_the_retriever():
    for name, words in (("bm25 i (1)", "BM25"), ("dense i (1)", "cosine"), ("hybrid of", "reciprocal")):
        trace = Trace()
        asked(trace, name)
        trace.add(Searched, query="Arno", k=1, hits=())
        assert explained(trace) == []
        trace.add(Searched, query="Arno", k=1, hits=(HIT,))
        (line,) = explained(trace)
        assert words in line


def test_actions_scores_and_costs_of_a_search_are_explained():
    names = ["system analysis", "direct answer", "retrieval-answer", "query transformation", "summary-answer"]
    assert [ACTIONS[action] for action in AIRRAG_ACTIONS] == names
    trace = Trace()
    for action in AIRRAG_ACTIONS:
        trace.expand("0.1", action, "None", numbers=dict.fromkeys(("visits", "value", "uct", "reward"), 1.0))
    lines = explained(trace)
    for name in (*names, "visits", "value", "uct", "reward"):
        assert sum(line.startswith(f"{name}: ") for line in lines) == 1
    trace, scores = Trace(), ("score", "sequence", "relevance", "support", "utility", "step")
    trace.expand("0.1", "retrieve", "It is.", passage=HIT, numbers=dict.fromkeys(scores, 1.0))
    assert [line.partition(":")[0] for line in explained(trace)] == ["0.1", *scores]
    assert "[Fully supported]" in "".join(explained(trace))
    trace = Trace()
    numbers = {"input tokens": 9.0, "tokens": 10.0, "calls": 2.0, "rollouts": 1.0, "l_max": 99.0}
    trace.decide("budget", "spent", "", numbers=numbers)
    assert [line[:8] for line in explained(trace)] == ["a rollou", "L_total:", "L_max: t"]


def screen(events, **how):
    stream = io.StringIO()
    console = Console(file=stream, width=80, color_system=None, **how)
    console.get_time = iter(range(100)).__next__
    with LiveView(console, ticks=False) as view:
        events(Trace(view), view)
    return stream.getvalue()


def answered(trace, view):
    view.echo("Where?")
    asked(trace)
    doubted(trace, Dragin.rind_signal)
    trace.add(Searched, query="Arno", k=1, hits=(HIT,))
    trace.add(Answered, answer=Answer("Pisa.", "Pisa"), usage=Usage())


def test_an_echoed_question_is_not_repeated_and_a_recorded_trace_has_the_same_legend():
    lines = screen(answered).splitlines()
    assert lines[:2] == ["Where?", "dragin · bundled · bm25 index (1 passages)"]
    assert sum("Where?" in line for line in lines) == 1
    legend = [line[:30] for line in lines if line.startswith("legend")]
    assert (len(legend), legend[0]) == (2, "legend  (number) after a word:")
    trace, stream = Trace(), io.StringIO()
    answered(trace, LiveView(Console(file=io.StringIO())))
    print_trace(trace.events, Console(file=stream, width=80, color_system=None))
    assert [line[:30] for line in stream.getvalue().splitlines() if line.startswith("legend")] == legend


def test_of_many_uncited_sentences_the_first_are_shown_and_the_others_counted():
    def uncited(trace, view):
        for answer in ("Pisa.", "Rome."):
            asked(trace)
            for number in range(25):
                trace.add(Uncited, text=f"Sentence {number} of {answer}", why="none found")
            trace.add(Answered, answer=Answer(answer, answer), usage=Usage())

    text = screen(uncited)
    assert (text.count("none found"), text.count("5 further sentences, which the trace has")) == (40, 2)
    assert "Sentence 0 of Rome." in text


def test_a_terminal_shows_the_time_until_there_is_text():
    def waiting(trace, view):
        asked(trace)
        trace.add(Drafted, text="Pisa")

    seen = screen(waiting, force_terminal=True)
    assert 0 < seen.index("working, 1 s") < seen.index("Pisa")
    assert "working" not in seen[seen.index("Pisa") :]
    assert "working" not in screen(waiting)


def test_the_growing_answer_makes_room_for_a_note():
    """The note is printed on standard error, on the same screen: nothing else may be in its line."""

    def noting(trace, view):
        stream = view._console.file
        trace.add(Drafted, text="The river")
        before = len(stream.getvalue())
        trace.add(Noted, name="retry", text="It is busy.", place="answer")
        assert "The river" not in stream.getvalue()[before:]
        trace.add(Drafted, text=" Rhine")
        assert "The river Rhine" in stream.getvalue()[before:]

    screen(noting, force_terminal=True)
