"""Markers that models copy from their prompts leave text, drafts, queries and screen of every method.

What the markers mean, by one method at a time, is in `tests/scenarios/citing.jsonl`.
"""

import asyncio
import io
from typing import get_args

import pytest
from rich.console import Console

from askance.configuration.methods import make_method
from askance.core.trace import Committed, Drafted, Trace, Uncited
from askance.core.types import Passage, Question
from askance.methods.baselines import Single
from askance.methods.common.search import QueryMode
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.terminal.live_view import LiveView
from tests.asking import ask

QUESTION = Question("q", "Who painted the harbour of Whitby?")
KANE = Passage("k", "Ruth Kane", "Ruth Kane was a painter. She painted the harbour of Whitby in 1931.")
WHITBY = Passage("w", "Whitby", "Whitby is a town with a harbour on the river Esk.")
TEXT = "Ruth Kane painted the harbour [1]. So the answer is Ruth Kane [1]."

WRITERS = [
    *(
        "closed_book",
        "single",
        "fixed_length",
        "fixed_sentence",
        "flare",
        "dragin",
        "dragin_paper(layout=raw)",
    ),
    *("selfrag(mode=always, passages=1)", "selfrag(form=long, mode=always, passages=1)"),
    *("airrag", "airrag_lite", "blender(single=single(), airrag_lite=airrag_lite())"),
]


def going_on(text):
    """A script that writes `text`, from wherever a prompt has got to in it."""

    def reply(shown, key):
        at = next(end for end in range(len(text), -1, -1) if shown.endswith(text[:end]))
        return text[at:]

    return reply


def asked(method, reply=TEXT, found=(KANE, WHITBY), question=QUESTION, heard=None):
    """Return the result; a reply is a text that every call goes on with, or a function of prompt and key."""
    method = make_method(method) if isinstance(method, str) else method
    model = ScriptedModel(reply if callable(reply) else going_on(reply))
    trace = Trace(None if heard is None else heard.append)
    retriever = ScriptedRetriever(list(found))
    return asyncio.run(ask(question, method, {"answer": model}, retriever, trace=trace))


def uncited(result):
    return [(event.text, event.why) for event in result.trace.events if isinstance(event, Uncited)]


def cites(result):
    return {result.answer.text[c.start : c.end]: c.passage.id for c in result.answer.citations}


@pytest.mark.parametrize("method", WRITERS)
@pytest.mark.parametrize("marker", ["[1]", "[ 1 ]"])
def test_no_method_leaves_a_marker_in_its_answer_or_takes_one_back_from_the_screen(method, marker):
    heard = []
    result = asked(method, TEXT.replace("[1]", marker), heard=heard)
    assert result.answer.short == "Ruth Kane"
    committed = "".join(event.text for event in heard if isinstance(event, Committed))
    assert committed.strip() == result.trace.committed.strip() == result.answer.text.strip()
    for text in (result.answer.text, *(e.text for e in heard if isinstance(e, Committed | Drafted))):
        assert "[" not in text


@pytest.mark.parametrize(
    "method",
    [
        *(f"dragin_paper(query={query}, threshold=1)" for query in get_args(QueryMode)),
        *(f"dragin(query={query}, threshold=1)" for query in get_args(QueryMode)),
        *("dragin_paper(trigger=token_probability)", "dragin(trigger=token_probability)"),
        "flare(search_below=0.5)",
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


def test_the_final_screen_numbers_what_is_cited_and_nothing_else():
    out = io.StringIO()
    with LiveView(Console(file=out, width=200)) as view:
        model, retriever = ScriptedModel([TEXT]), ScriptedRetriever([WHITBY, KANE])
        asyncio.run(ask(QUESTION, Single(), {"answer": model}, retriever, trace=Trace(view)))
    screen = out.getvalue()
    assert "Ruth Kane painted the harbour. [1] So the answer is Ruth Kane. [1]" in screen
    assert "[1] Ruth Kane" in screen
    assert "it, but 'Whitby' lacks 'kane'" in screen


@pytest.mark.parametrize("method", [*WRITERS, "iterdrag"])
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
