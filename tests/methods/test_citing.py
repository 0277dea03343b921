"""Markers that models copy from their prompts, through every method: gone from text, short answer and screen.

The passages are `tests.methods.bridge`'s; a model that writes "[1]" means the first of those in its prompt.
"""

import asyncio
import io
from typing import get_args

import pytest
from rich.console import Console

from askance.ask import ask
from askance.core.trace import Committed, Drafted, Trace, Uncited
from askance.core.types import Passage, Question
from askance.methods.airrag.method import Airrag, AirragLite
from askance.methods.baselines import ClosedBook, FixedLength, FixedSentence, Single
from askance.methods.blender import Blender
from askance.methods.common.named_methods import Members
from askance.methods.common.search import QueryMode
from askance.methods.dragin.method import Dragin
from askance.methods.dragin.paper import DraginPaper
from askance.methods.flare import Flare
from askance.methods.iterdrag import Iterdrag
from askance.methods.selfrag.method import Selfrag
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.terminal.live_view import LiveView

QUESTION = Question("q", "Who painted the harbour of Whitby?")
KANE = Passage("k", "Ruth Kane", "Ruth Kane was a painter. She painted the harbour of Whitby in 1931.")
WHITBY = Passage("w", "Whitby", "Whitby is a town with a harbour on the river Esk.")
TEXT = "Ruth Kane painted the harbour [1]. So the answer is Ruth Kane [1]."
PLAIN = "Ruth Kane painted the harbour. So the answer is Ruth Kane."

WRITERS = [
    ClosedBook(),
    Single(),
    FixedLength(),
    FixedSentence(),
    Flare(),
    Dragin(),
    DraginPaper(layout="raw"),
    Selfrag(mode="always", passages=1),
    Selfrag(form="long", mode="always", passages=1),
]
TREES = [Airrag(), AirragLite(), Blender(methods=Members((("single", Single()), ("lite", AirragLite()))))]


def going_on(text):
    """A script that writes `text`, from wherever a prompt has got to in it."""

    def reply(shown, key):
        at = next(end for end in range(len(text), -1, -1) if shown.endswith(text[:end]))
        return text[at:]

    return reply


def asked(method, reply=TEXT, found=(KANE, WHITBY), question=QUESTION, heard=None):
    """The result; a reply is a text that every call goes on with, or a function of prompt and key."""
    model = ScriptedModel(reply if callable(reply) else going_on(reply))
    trace = Trace(None if heard is None else heard.append)
    retriever = ScriptedRetriever(list(found))
    return asyncio.run(ask(question, method, {"answer": model}, retriever, trace=trace))


def uncited(result):
    return [(event.text, event.why) for event in result.trace.events if isinstance(event, Uncited)]


def cites(result):
    return {result.answer.text[c.start : c.end]: c.passage.id for c in result.answer.citations}


@pytest.mark.parametrize("method", [*WRITERS, *TREES])
def test_no_method_leaves_a_marker_in_its_answer(method):
    heard = []
    result = asked(method, heard=heard)
    assert result.answer.short == "Ruth Kane"
    assert result.trace.committed.strip() == result.answer.text.strip()
    for text in (result.answer.text, *(e.text for e in heard if isinstance(e, Committed | Drafted))):
        assert "[" not in text


def test_the_follow_ups_of_iterdrag_search_without_them():
    lines = iter(
        ["Follow up: Who was Ruth Kane [1]?", " a painter [2]", "So the final answer is: Ruth Kane [1]."]
    )
    result = asked(Iterdrag(), lambda shown, key: next(lines))
    assert result.answer.text.splitlines() == [
        "Follow up: Who was Ruth Kane?",
        "Intermediate answer: a painter",
        "So the final answer is: Ruth Kane.",
    ]
    assert result.answer.short == "Ruth Kane"
    assert [event.query for event in result.trace.events if event.type == "search"][1] == "Who was Ruth Kane?"


@pytest.mark.parametrize("method", [Single(), FixedLength(every_tokens=5), Flare(), Dragin()])
def test_a_marker_is_taken_for_the_passage_that_the_prompt_numbers_so(method):
    twin = Passage("t", "Whitby harbour", "Ruth Kane painted the harbour.")
    first = asked(method, TEXT, (KANE, twin))
    second = asked(method, TEXT.replace("[1]", "[2]", 1), (KANE, twin))
    assert cites(first)["Ruth Kane painted the harbour."] == "k"
    assert cites(second)["Ruth Kane painted the harbour."] == "t"


def test_a_marker_means_the_passages_of_its_time():
    """A search between two pieces gives [1] another meaning, wherever the first stands then."""
    found = {QUESTION.text: [KANE], "Ruth Kane painted the harbour.": [WHITBY]}
    text = (
        "Ruth Kane painted the harbour [1]. Whitby has a harbour on the Esk [1]. So the answer is Ruth Kane."
    )
    method = FixedLength(every_tokens=6, query_last_tokens=5, max_tokens=30)
    model = ScriptedModel(going_on(text))
    result = asyncio.run(ask(QUESTION, method, {"answer": model}, ScriptedRetriever(found)))
    assert cites(result) == {
        "Ruth Kane painted the harbour.": "k",
        "Whitby has a harbour on the Esk.": "w",
        "So the answer is Ruth Kane.": "k",
    }
    assert [each.number for each in result.answer.citations] == [1, 2, 1]


def test_a_marker_that_names_nothing_or_the_wrong_passage_gives_way_and_the_trace_says_so():
    result = asked(Single(), TEXT.replace("[1]", "[7]", 1).replace("[1]", "[2]"))
    assert cites(result)["Ruth Kane painted the harbour."] == "k"
    assert uncited(result) == [
        ("Ruth Kane painted the harbour.", "the model wrote [7], which names no passage shown"),
        ("So the answer is Ruth Kane.", "the model named it, but 'Whitby' lacks 'kane', 'ruth'"),
    ]


def test_a_sentence_without_support_stands_without_a_number_and_the_trace_says_why():
    result = asked(Single(), "Ada Hall painted the harbour of Whitby [1]. So the answer is Ada Hall [1].")
    assert result.answer.text == "Ada Hall painted the harbour of Whitby. So the answer is Ada Hall."
    assert result.answer.citations == ()
    assert [why.rsplit(": ", 1)[1] for _, why in uncited(result)] == ["'Ruth Kane' lacks 'ada', 'hall'"] * 2


@pytest.mark.parametrize(
    "method",
    [
        *(DraginPaper(query=query, threshold=1) for query in get_args(QueryMode)),
        *(Dragin(query=query, threshold=1) for query in get_args(QueryMode)),
        DraginPaper(trigger="token_probability"),
        Dragin(trigger="token_probability"),
        Flare(search_below=0.5),
    ],
)
@pytest.mark.parametrize("marker", ["[1]", "[ 1 ]"])
def test_a_marker_is_not_in_doubt_and_not_searched_for(method, marker):
    """However it is split into tokens; the word before it, as doubtful, is searched for."""
    in_doubt, text = ("[1]", "[", "1", "]", "harbour"), TEXT.replace("[1]", marker)
    unlikely, doubts = dict.fromkeys(in_doubt, 0.01), dict.fromkeys(in_doubt, 900.0)
    result = asked(method, lambda shown, key: Reply(going_on(text)(shown, key), unlikely, entropies=doubts))
    assert any(
        "harbour" in word.text for each in result.trace.decisions for word in each.words if word.is_hit
    )
    told = [word.text for each in result.trace.decisions for word in each.words]
    queries = [event.query for event in result.trace.events if event.type == "search"]
    assert not any("[" in each or "1" in each for each in (*told, *queries))


@pytest.mark.parametrize(
    ("method", "query"),
    [
        (FixedLength(every_tokens=8, query_last_tokens=4), "the harbour. So the"),
        (FixedSentence(), "Ruth Kane painted the harbour."),
    ],
)
def test_a_marker_is_no_part_of_the_next_query(method, query):
    result = asked(method)
    queries = [event.query for event in result.trace.events if event.type == "search"]
    assert queries == [QUESTION.text, query]


@pytest.mark.parametrize("method", TREES)
def test_a_bare_answer_cites_the_passage_that_names_it_and_no_other(method):
    assert cites(asked(method, "Ruth Kane", (WHITBY, KANE))) == {"Ruth Kane": "k"}
    result = asked(method, "Ada Hall", (WHITBY, KANE))
    assert (result.answer.text, result.answer.citations) == ("Ada Hall", ())
    assert uncited(result)[-1][0] == "Ada Hall"
    assert "lacks 'ada', 'hall'" in uncited(result)[-1][1]


def test_paths_of_airrag_that_differ_by_a_marker_give_one_answer():
    replies = {"ra": "Ruth Kane [1]", "sa": "Ruth Kane [2].", "qt": "None", "verify": "no call"}
    result = asked(AirragLite(rollouts=4), lambda shown, key: replies[key[-1]])
    assert (result.answer.text, result.answer.short) == ("Ruth Kane", "Ruth Kane")
    assert not any(event.key[-1] == "verify" for event in result.trace.events if event.type == "generate")


def test_what_is_quoted_stays():
    passage = Passage("c", "Lists", "In a list, cells[1] is the second cell of the list.")
    text = "Take cells[1] or a[1], the second cell [1]. So the answer is cells[1]."
    question = Question("q", "How is the second cell of the list called?")
    result = asked(Single(), text, [passage], question)
    assert result.answer.text == "Take cells[1] or a[1], the second cell. So the answer is cells[1]."
    assert result.answer.short == "cells[1]"
    question = Question("q", "What does [1] mean here?")
    assert (
        asked(Single(), "Here [1] is one. So the answer is [1].", [passage], question).answer.short == "[1]"
    )


@pytest.mark.parametrize(
    ("text", "asks"), [("The answer is [1].", True), ("Ruth Kane [", True), ("[2]", True)]
)
def test_a_marker_is_no_answer(text, asks):
    """Where nothing else is stated, the short answer is asked for."""
    result = asked(Single(), lambda shown, key: " Ruth Kane [1]." if key[2] == "elicit" else text)
    assert (result.answer.short, "[" in result.answer.text) == ("Ruth Kane", False)
    assert any(each.outcome == "elicit" for each in result.trace.decisions) == asks


@pytest.mark.parametrize("method", [Single(), Flare(), FixedSentence()])
def test_the_screen_never_takes_a_marker_back(method):
    """As tokens split it: what was shown is a beginning of all that is shown later."""
    shown = []

    def listen(event):
        if isinstance(event, Drafted | Committed):
            shown.append(event)
            assert "[" not in event.text

    reply = "Ruth Kane [ 1 ] painted it [ 1 ]. So the answer is Ruth Kane [ 1 ] ."
    model, trace = ScriptedModel(going_on(reply)), Trace(listen)
    result = asyncio.run(ask(QUESTION, method, {"answer": model}, ScriptedRetriever([KANE]), trace=trace))
    assert "".join(e.text for e in shown if isinstance(e, Committed)).strip() == result.answer.text
    assert result.answer.short == "Ruth Kane"


def test_the_final_screen_numbers_what_is_cited_and_nothing_else():
    out = io.StringIO()
    with LiveView(Console(file=out, width=200)) as view:
        model, retriever = ScriptedModel([TEXT]), ScriptedRetriever([WHITBY, KANE])
        asyncio.run(ask(QUESTION, Single(), {"answer": model}, retriever, trace=Trace(view)))
    screen = out.getvalue()
    assert "Ruth Kane painted the harbour. [1] So the answer is Ruth Kane. [1]" in screen
    assert "[1] Ruth Kane" in screen
    assert "it, but 'Whitby' lacks 'kane'" in screen


@pytest.mark.parametrize("method", [*WRITERS, *TREES, Iterdrag()])
@pytest.mark.parametrize("text", ["\x07", "\x00\x1b\x9b", "\u202e\u2067", "\x1c\x85", "\u00ad\u200b"])
def test_an_answer_of_control_characters_only_breaks_nothing(method, text):
    result = asked(method, text)
    assert not any(map(str.isalnum, result.answer.short.replace("<|end|>", "")))
    assert result.answer.citations == ()
    out = io.StringIO()
    with LiveView(Console(file=out)) as view:
        for event in result.trace.events:
            view(event)
    assert not {"\x07", "\x00", "\x1b", "\x9b", "\u202e"} & set(out.getvalue())
