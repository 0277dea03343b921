"""Self-RAG on models with reflection tokens: scores, instructions and citations beside the scenarios."""

import asyncio

import pytest

from askance.core.errors import ParameterError, RetrieverFailure
from askance.core.trace import Expanded, Failed, Trace
from askance.core.types import Question, Span
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.paper import SelfragPaper
from askance.methods.selfrag.prompts import OWN_INSTRUCTIONS, Instructions
from askance.methods.selfrag.segments import Path, Segment, cite_passages
from askance.methods.selfrag.tokens import (
    ALL_TOKENS,
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    PARTIALLY_SUPPORTED,
    RELEVANT,
    RETRIEVAL,
    UTILITIES,
)
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.support import citations_of
from tests.asking import ask
from tests.methods.reflecting import (
    ARNO,
    BARE,
    IN_ARNO,
    IN_PO,
    PO,
    QUESTION,
    TIBER,
    by_ending,
    found,
    native,
    run,
    said,
    supported,
    tried,
)
from tests.methods.reflecting_long import (
    ASKS,
    ONE_A,
    ONE_P,
    REPLIES,
    continued,
    grades,
    long,
)
from tests.tolerances import near

GOOD = said(
    "[Relevant]The Arno.[Fully supported][Utility:5]",
    {RELEVANT: 0.9, IRRELEVANT: 0.05},
    supported(0.8, 0.1, 0.05),
    {"[Utility:5]": 0.6, "[Utility:4]": 0.2, "[Utility:1]": 0.1},
)
POOR = said(
    "[Irrelevant]The Po.[Utility:2]",
    {IRRELEVANT: 0.6, RELEVANT: 0.3},
    {"[Utility:2]": 0.5, "[Utility:3]": 0.3},
    sureness=0.8,
)


ENDING = {RETRIEVAL: 0.5, "[Utility:5]": 0.3, "[Utility:1]": 0.1}
"""The probabilities at the end of a segment."""


@pytest.mark.parametrize(
    ("parameters", "good", "poor"),
    [
        ({}, 3.0405, 0.8646),
        ({"use_seqscore": False}, 2.1754, 0.1771),
        ({"w_rel": 0.3, "w_sup": 2.0, "w_use": 1.0}, 3.6054, 0.4750),
        ({"w_sup": 0}, 2.1458, 0.8646),
    ],
)
def test_scores_of_the_short_form(parameters, good, poor):
    """By hand, `GOOD` has (0.9 · 0.99³ · 0.8 · 0.6)^(1/6) + 0.9/0.95 + 0.85/0.95 + 0.5 · 0.6/0.9."""
    result, _, _ = run(Selfrag(mode="always", **parameters), native({IN_ARNO: GOOD, IN_PO: POOR}))
    scores = [event.numbers["score"] for event in tried(result).values()]
    assert scores == near([good, poor], "as told", "4 decimals")


def test_scores_of_the_short_form_by_the_paper():
    """p(y) is the product of the probabilities of all tokens."""
    result, _, _ = run(SelfragPaper(mode="always"), native({IN_ARNO: GOOD, IN_PO: POOR}))
    good, poor = tried(result).values()
    sequence = 0.9 * 0.99**3 * 0.8 * 0.6
    assert good.numbers == near(
        {
            "score": sequence + 0.9 / 0.95 + 0.8 / 0.95 + 0.5 * 0.6 / 0.9,
            "sequence": sequence,
            "relevance": 0.9 / 0.95,
            "support": 0.8 / 0.95,
            "utility": 0.6 / 0.9,
        }
    )
    assert (poor.numbers["support"], poor.numbers["utility"]) == (0, 0)


def test_segments_by_the_paper_have_a_utility_each():
    """It is read where its token would stand, and never of the whole answer."""
    first = said(ONE_A + RETRIEVAL, {RELEVANT: 0.9, IRRELEVANT: 0.1}, supported(0.8, 0.1, 0.1), ENDING)
    replies = REPLIES | {IN_ARNO: first}
    method = SelfragPaper(form="long", max_segments=2, use_seqscore=False)
    result, prompts, _ = run(method, native(replies))
    steps = tried(result)
    assert steps["0.1"].numbers["utility"] == near(0.3 / 0.4)
    assert steps["0.1"].numbers["score"] == near(0.9 + 0.8 + 0.5 * 0.3 / 0.4)
    assert steps["0.1.1"].numbers["score"] == near(1 + 1 + 0.5)
    assert steps["0.1.2"].numbers["utility"] == 0
    mean = (steps["0.1"].numbers["score"] + steps["0.1.1"].numbers["score"]) / 2
    assert result.trace.decisions[-1].numbers["0.1.1"] == near(mean)
    assert len(prompts) == 1 + 2 + 4, "no answer is judged as a whole"


def test_a_cut_segment_by_the_paper_has_the_utility_of_its_end():
    end = "[Relevant]The Arno. It"
    replies = {IN_ARNO: said(f"{end} is", ends=False), "[Relevant]The Arno.": said(RETRIEVAL, ENDING)}
    method = SelfragPaper(form="long", mode="always", max_segments=1, max_tokens=4, use_seqscore=False)
    result, _, _ = run(method, native(replies), (ARNO,))
    assert tried(result)["0.1"].numbers["utility"] == near(0.3 / 0.4)


def test_the_trace_shows_each_candidate():
    replies = {
        "### Response:\n": said(RETRIEVAL, {RETRIEVAL: 0.7, NO_RETRIEVAL: 0.2}),
        IN_ARNO: GOOD,
        IN_PO: POOR,
    }
    result, _, _ = run(Selfrag(), native(replies))
    decision = result.trace.decisions[0]
    assert (decision.signal, decision.threshold) == ("share of [Retrieval]", 0.2)
    assert decision.numbers["share"] == near(0.7 / 0.9)
    good, poor = tried(result).values()
    assert (good.passage.passage, good.numbers["utility"]) == (ARNO, near((0.6 + 0.1 - 0.1) / 0.9))
    assert good.distributions["relevance"] == near({RELEVANT: 0.9, IRRELEVANT: 0.05})
    assert good.distributions["support"] == near(supported(0.8, 0.1, 0.05))
    assert poor.distributions.keys() == {"relevance", "utility"}, "an irrelevant passage supports nothing"
    assert (poor.numbers["relevance"], poor.numbers["support"]) == (near(1 / 3), 0)


def test_scores_of_the_long_form():
    """A path has the mean of its segments' scores and the utility of its end, which may be read last."""
    last = said("[Utility:1]", grades(u1=0.7, u2=0.1))
    replies = REPLIES | {ONE_P + found(PO) + "[Relevant]Two pp.[Fully supported]": last}
    result, _, _ = run(long(w_rel=0.8, w_sup=1.3, w_use=0.4), native(replies))
    scores = {name: event.numbers["score"] for name, event in tried(result).items()}
    first = {"0.1": 2.7415, "0.2": 2.1089}
    second = {"0.1.1": 3.09, "0.1.2": 0.99, "0.2.1": 1.79, "0.2.2": 3.09}
    assert scores == near(first | second, "as told", "4 decimals")
    utilities = {"0.1.1": 1.0, "0.1.2": -0.5, "0.2.1": 0.5, "0.2.2": (0.7 * -1 + 0.1 * -0.5) / 0.8}
    assert result.trace.decisions[-1].numbers == near(
        {name: (scores[name[:3]] + scores[name]) / 2 + 0.4 * utilities[name] for name in second}
    )
    result, _, _ = run(long(), native(continued("[Relevant]More.[Utility:5]")), (ARNO,))
    assert result.trace.decisions[-1].numbers == near({"0.1.1": 2.99 + 0.5}), "what continues is not scored"


@pytest.mark.parametrize(
    ("reply", "numbers"),
    [
        ("The Arno.", {"score": 0.99, "sequence": 0.99, "relevance": 0, "support": 0, "utility": 0}),
        (
            said("[Partially supported]One.[Fully supported][Utility:4]Two.[Utility:1]",
                 {FULLY_SUPPORTED: 1.0}, {PARTIALLY_SUPPORTED: 1.0}),
            {"support": 0.5, "utility": 0.5},
        ),
        (
            said("[Relevant]The Arno.[Utility:5]", grades(u5=0.4, u4=0.3, u3=0.2, u2=0.05, u1=0.05)),
            {"utility": 0.4 + 0.15 - 0.025 - 0.05},
        ),
    ],
    ids=["not judged", "the first of several judgements", "all five grades"],
)  # fmt: skip
def test_judgements_that_count(reply, numbers):
    result, _, _ = run(Selfrag(mode="always"), native({IN_ARNO: reply}), (ARNO,))
    (event,) = tried(result).values()
    assert {name: event.numbers[name] for name in numbers} == near(numbers)
    utilities = event.distributions.get("utility", ())
    assert not utilities or tuple(utilities) == UTILITIES


@pytest.mark.parametrize(("w_use", "text"), [(0.0, "The Po."), (1.0, "The Arno.")])
def test_utility_decides_between_whole_answers(w_use, text):
    replies = {
        IN_ARNO: said("[Relevant]The Arno.[Utility:5]", {RELEVANT: 0.7, IRRELEVANT: 0.3}),
        IN_PO: said("[Relevant]The Po.[Utility:1]", {RELEVANT: 0.9, IRRELEVANT: 0.1}),
    }
    assert run(long(mode="always", w_use=w_use), native(replies))[0].answer.text == text


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("[Relevant]One is broken off", "[Relevant]One is broken off"),
        ("[Relevant]One is. Two is. ", "[Relevant]One is. Two is. "),
        ('[Relevant]One is. "Two is."', '[Relevant]One is. "Two is."'),
        ("[Relevant]One is. Two is[Fully supported]", "[Relevant]One is. Two is[Fully supported]"),
        ("[Relevant]One is. Two is", "[Relevant]One is."),
        ("[Relevant]One is.[Fully supported]Two is", "[Relevant]One is.[Fully supported]"),
    ],
)
def test_where_a_cut_segment_closes(written, kept):
    replies = {IN_ARNO: said(written, ends=False), kept: NO_RETRIEVAL, NO_RETRIEVAL: ""}
    model = native(replies | {"### Response:\n": RETRIEVAL})
    num_tokens = len(model.tokenize([Span(written)]))
    _, prompts, _ = run(long(max_tokens=num_tokens), model, (ARNO,))
    assert prompts[2] == BARE + found(ARNO) + kept


def test_instructions_are_replaced():
    method = Selfrag(mode="never", instructions=Instructions(claim="Is it so?", question="Be brief."))
    for options, begins in (
        (("true", "false"), "Is it so?## Input:\n\nWhy?"),
        ((), "Be brief.## Input:\n\nWhy?"),
    ):
        question = Question("q", "Why?", "choice" if options else "short", options)
        _, prompts, _ = run(method, native({NO_RETRIEVAL: "true"}), question=question)
        assert prompts[0].startswith(f"### Instruction:\n{begins}")
    assert f"instructions={method.instructions!r}" in repr(method)
    assert str(OWN_INSTRUCTIONS) == "own"
    assert repr(Instructions(claim="Is it so?")) != repr(OWN_INSTRUCTIONS)


def test_sentences_cite_the_passages_of_their_segments():
    def segment(text, action, passage, *labels):
        hits = asyncio.run(ScriptedRetriever([passage]).search("x", 1)) if passage else (None,)
        return Segment(text, action, hits[0], labels=frozenset(labels))

    path = Path(
        (
            segment("In short:", "lead", None),
            segment(" One. It is old.", "retrieve", PO, RELEVANT, FULLY_SUPPORTED),
            segment(" Two.", "retrieve", TIBER, IRRELEVANT),
            segment(" Three.", "none", None),
            segment(" Four.", "retrieve", ARNO, RELEVANT),
            segment(" Five.", "continue", ARNO),
            segment(" Six.", "retrieve", TIBER, RELEVANT, NO_SUPPORT),
            segment(" Seven.", "retrieve", PO, RELEVANT, PARTIALLY_SUPPORTED),
        )
    )
    text, sentences = cite_passages(path)
    assert text == "In short: One. It is old. Two. Three. Four. Five. Six. Seven."
    shown = [(each.number, each.passage.id, text[each.start : each.end]) for each in citations_of(sentences)]
    expected = "1 p One.|1 p It is old.|2 a Four.|2 a Five.|1 p Seven."
    assert ["{} {} {}".format(*each) for each in shown] == expected.split("|")


class LateFailure(ScriptedRetriever):
    """Finds passages at once, but takes its time to fail."""

    async def search(self, query, k, **more):
        try:
            return await super().search(query, k, **more)
        except OSError:
            await asyncio.sleep(0.05)
            raise


def test_a_search_that_fails_in_the_middle_of_a_beam_ends_all_and_is_told_once():
    left = []

    class SlowModel(ScriptedModel):
        async def generate(self, request):
            if ONE_A in self.decode(self.prompt_ids(request.prompt)):
                try:
                    await asyncio.sleep(60)
                finally:
                    left.append(request.key)
            return await super().generate(request)

    model, trace = SlowModel(by_ending(REPLIES), control=ALL_TOKENS), Trace()
    outcomes = {ASKS: [ARNO, PO], f"{ASKS} One a.": [ARNO, PO], f"{ASKS} One p.": OSError("disk gone")}

    async def main():
        with pytest.raises(RetrieverFailure, match=r"retriever scripted: OSError: disk gone"):
            await ask(QUESTION, long(), {"answer": model}, LateFailure(outcomes), trace=trace)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert len(left) == 2, "who was writing was told to stop"
    kinds = [type(event) for event in trace.events]
    assert (kinds.count(Failed), kinds[-1], kinds.count(Expanded)) == (1, Failed, 2)


@pytest.mark.parametrize("parameters", [{"beam_width": 0}, {"threshold": 1.5}])
def test_parameters_are_checked(parameters):
    ((name, value),) = parameters.items()
    with pytest.raises(ParameterError, match=f"{name}={value}"):
        Selfrag(**parameters)
