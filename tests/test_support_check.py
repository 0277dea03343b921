"""The support check: which sentences no passage supports, and how every view marks them."""

import asyncio
import io

import pytest
from rich.console import Console

from askance.ask import Engine, Result
from askance.configuration import build
from askance.configuration.settings import EngineConfig
from askance.core.answers import Answer, Citation, UnsupportedSentence, Usage
from askance.core.errors import MissingExtra
from askance.core.trace import Answered, Searched, Trace, Uncited
from askance.core.types import Hit, Passage
from askance.methods.baselines import ClosedBook, Single
from askance.models.scripted import ScriptedModel, ScriptedPairScorer
from askance.retrieval.scripted import ScriptedRetriever
from askance.serve.citations import numbered_content, without_sources
from askance.storage.trace_file import parse_trace, trace_text
from askance.terminal.live_view import LiveView
from askance.terminal.trace_view import print_trace
from askance.text.support import checked_answer

PISA = Passage("1", "Pisa", "The leaning tower stands in Pisa since 1372.")
BONN = Passage("2", "Bonn", "Beethoven was born in Bonn.")
STANDS, BORN, MADE = "The tower stands in Pisa.", "He was born in Bonn.", "It was made in 1172."
TEXT = f"{STANDS} {BORN} {MADE}"
QUESTION = "Where does the tower stand?"


def cite(sentence, passage, number=1, text=TEXT):
    start = text.index(sentence)
    return Citation(number, passage, start, start + len(sentence))


def recorded(*uncited, found=(PISA, BONN)):
    trace = Trace()
    trace.add(Searched, query="tower", k=2, hits=tuple(Hit(each, 1.0, 1) for each in found))
    for text, why in uncited:
        trace.add(Uncited, text=text, why=why)
    return trace


def decided(outcome):
    trace = recorded()
    trace.decide("source", outcome, "the guard says so")
    return trace


def checked(answer, trace, scorer=None):
    found = asyncio.run(checked_answer(QUESTION, answer, trace.events, scorer))
    return {answer.text[each.start : each.end]: each.why for each in found.unsupported}, found.checked_by


CITED = (cite(STANDS, PISA), cite(BORN, BONN, 2))


@pytest.mark.parametrize(
    ("answer", "trace", "unsupported"),
    [
        (Answer(TEXT, "", (*CITED, cite(MADE, PISA))), recorded(),
         {MADE: "the passages it cites lack '1172'"}),
        (Answer(TEXT, "", CITED), recorded((MADE, "no passage says so")), {MADE: "no passage says so"}),
        (Answer(TEXT, "", CITED), recorded(), {MADE: "it cites no passage"}),
        # Several passages support a sentence together, and a citation may be of the whole text.
        (Answer("It stands in Pisa and Bonn.", "", tuple(
            cite("It stands in Pisa and Bonn.", each, text="It stands in Pisa and Bonn.")
            for each in (PISA, BONN))), recorded(), {}),
        (Answer(TEXT, "", (cite(TEXT, PISA),)), recorded(),
         {BORN: "the passages it cites lack 'Bonn'", MADE: "the passages it cites lack '1172'"}),
        # A line is a sentence, and a question makes no claim.
        (Answer(f"Where?\n{STANDS}\nIn Rome", "", (Citation(1, PISA, 7, 7 + len(STANDS)),)), recorded(),
         {"In Rome": "it cites no passage"}),
        (Answer("它在哪里？ …"), recorded(), {}),
        # Without passages or by a decision, it is from memory as a whole; an abstained one says so itself.
        (Answer(TEXT), Trace(), {}),
        (Answer(TEXT), recorded(found=()), {}),
        (Answer(TEXT, abstained="no passage supports it"), recorded(), {}),
        (Answer(TEXT), decided("memory"), {}),
        (Answer(STANDS), decided("passages"), {STANDS: "it cites no passage"}),
    ],
    ids=range(12),
)  # fmt: skip
def test_a_sentence_is_unsupported_without_a_citation_or_if_its_passages_lack_a_name(
    answer, trace, unsupported
):
    assert checked(answer, trace) == (unsupported, "")


def test_the_cross_encoder_reads_the_question_with_each_sentence_whose_names_are_there():
    scorer = ScriptedPairScorer(lambda query, text: -3.0 if "Bonn" in query else -1.0)
    answer = Answer(TEXT, "", (*CITED, cite(MADE, PISA)))
    reasons, name = checked(answer, recorded(), scorer)
    assert reasons == {
        BORN: "the cross-encoder gives it 0.05",
        MADE: "the passages it cites lack '1172'",
    }
    assert name == scorer.name
    assert scorer.pairs == [
        (f"{QUESTION} {STANDS}", PISA.titled_text), (f"{QUESTION} {BORN}", BONN.titled_text)
    ]  # fmt: skip
    assert checked(Answer(MADE), recorded(), scorer)[1] == "", "there was nothing to judge"
    both = Answer(BORN, "", (cite(BORN, BONN, text=BORN), cite(BORN, PISA, 2, text=BORN)))
    best = ScriptedPairScorer(lambda query, text: 3.0 if "Bonn" in text else -9.0)
    assert checked(both, recorded(), best)[0] == {}, "one passage that supports it is enough"


def test_an_engine_checks_its_answers_and_the_trace_says_by_what():
    model, retriever = ScriptedModel(lambda prompt, key: f" {STANDS} {MADE}"), ScriptedRetriever((PISA,))
    for scorer, name in ((None, ""), (ScriptedPairScorer(lambda *pair: -9.0), "scripted")):
        engine = Engine(Single(ask_short_answer=False), {"answer": model}, retriever, support_scorer=scorer)
        result = engine.ask(QUESTION)
        marked = [result.answer.text[each.start : each.end] for each in result.answer.unsupported]
        assert marked == ([STANDS, MADE] if name else [MADE])
        (event,) = parse_trace(trace_text(result.trace), "trace")[-1:]
        assert (event.answer, event.answer.checked_by) == (result.answer, name)
    assert Engine(ClosedBook(), {"answer": model}).ask(QUESTION).answer.unsupported == ()


def test_the_check_is_on_for_readers_where_its_extra_is_installed_and_can_be_turned_off(monkeypatch):
    scorer = ScriptedPairScorer()
    monkeypatch.setattr(build, "load_reranker", lambda spec: scorer)
    config = {"models": ScriptedModel(), "retriever": ScriptedRetriever((PISA,)), "method": "single"}
    assert EngineConfig(**config).open_to_answer().support_scorer is scorer
    assert EngineConfig(**config).open().support_scorer is None
    assert EngineConfig(support_check=False, **config).open_to_answer().support_scorer is None

    def missing(spec):
        raise MissingExtra("onnxruntime", "rerank", "the cross-encoder")

    monkeypatch.setattr(build, "load_reranker", missing)
    assert EngineConfig(**config).open_to_answer().support_scorer is None


# Every view marks the second sentence and not the first.

DOUBTED = Answer(
    f"{STANDS} {BORN}", "", (cite(STANDS, PISA), cite(BORN, BONN, 2)),
    unsupported=(UnsupportedSentence(TEXT.index(BORN), TEXT.index(BORN) + len(BORN), "weak"),),
)  # fmt: skip


def answered(answer=DOUBTED):
    trace = recorded()
    trace.add(Answered, answer=answer, usage=Usage())
    return trace


@pytest.mark.parametrize("is_live", [False, True])
def test_a_terminal_without_colours_shows_a_mark_and_the_reason(is_live):
    console = Console(file=io.StringIO(), width=100, no_color=True, force_terminal=False)
    if is_live:
        with LiveView(console) as view:
            for event in answered().events:
                view(event)
    else:
        print_trace(answered().events, console)
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert f"{STANDS} [1] {BORN} [2] [?]" in lines
    assert f"[?] {BORN} weak" in lines
    assert sum("[?] after a sentence: no passage supports it" in line for line in lines) == 1


def test_a_terminal_with_colours_shows_the_sentence_in_another_style():
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard")
    print_trace(answered().events, console)
    assert f"{STANDS}\x1b[36m [1]\x1b[0m \x1b[33m{BORN}" in console.file.getvalue()


def test_a_notebook_and_a_program_get_the_mark():
    assert str(Result(DOUBTED, Usage(), answered())).startswith(
        "The tower stands in Pisa [1]. He was born in Bonn [2][?]."
    )


def test_a_server_names_the_unsupported_sentences_and_says_so_at_the_citation():
    content, annotations = numbered_content(DOUBTED, lambda passage: "http://s")
    assert content.startswith(f"{STANDS} [1] {BORN} [2]\n\nUnsupported:\n- {BORN}\n\nSources:\n")
    assert [each["url_citation"].get("unsupported") for each in annotations] == [None, "weak"]
    assert without_sources(content) == DOUBTED.text
    uncited = Answer(MADE, unsupported=(UnsupportedSentence(0, len(MADE), "why"),))
    content, annotations = numbered_content(uncited, lambda passage: "http://s")
    assert (content, annotations) == (f"{MADE}\n\nUnsupported:\n- {MADE}", [])
    assert without_sources(content) == MADE


def test_what_a_sentence_quotes_is_no_markup_in_the_list_of_the_server():
    text = "See `[7]` ![x](http://evil) <b> &#91;8&#93;."
    hostile = Answer(text, unsupported=(UnsupportedSentence(0, len(text), "why"),))
    line = numbered_content(hostile, lambda passage: "")[0].partition("Unsupported:\n")[2]
    assert not set("[]()<`") & set(line)
    assert "&#" not in line
