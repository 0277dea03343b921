"""Answers of Self-RAG's long form: their citations, and the effect of a search that fails."""

import asyncio

import pytest

from askance.ask import ask
from askance.core.errors import RetrieverFailure
from askance.core.trace import Expanded, Failed, Trace
from askance.methods.selfrag.segments import Path, Segment, cite_passages
from askance.methods.selfrag.tokens import ALL_TOKENS, FULLY_SUPPORTED, IRRELEVANT, RELEVANT, UTILITIES
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.support import citations_of
from tests.methods.reflecting import (
    ARNO,
    IN_ARNO,
    PO,
    QUESTION,
    TIBER,
    by_ending,
    found,
    native,
    run,
    said,
    tried,
)
from tests.methods.reflecting_long import (
    ASKS,
    ONE_A,
    ONE_P,
    REPLIES,
    grades,
    long,
)
from tests.tolerances import near


def segments(*pieces):
    """Return a path of (text, action, passage, labels)."""
    written = []
    for text, action, passage, *labels in pieces:
        hit = (
            None if passage is None else next(iter(asyncio.run(ScriptedRetriever([passage]).search("x", 1))))
        )
        written.append(Segment(text, action, hit, labels=frozenset(labels)))
    return Path(tuple(written))


def cited_text(path):
    """Return the answer, and the citation of each of its sentences."""
    text, sentences = cite_passages(path)
    return text, citations_of(sentences)


def test_sentences_of_a_segment_cite_its_passage():
    text, citations = cited_text(
        segments((" It is long. It is old.", "retrieve", ARNO, RELEVANT, FULLY_SUPPORTED))
    )
    sentences = [(each.number, each.passage.id, text[each.start : each.end]) for each in citations]
    assert sentences == [(1, "a", "It is long."), (1, "a", "It is old.")]


def test_numbers_are_those_of_the_passages_in_order():
    path = segments(
        ("In short:", "lead", None),
        (" One.", "retrieve", PO, RELEVANT),
        (" Two.", "retrieve", TIBER, IRRELEVANT),
        (" Three.", "none", None),
        (" Four.", "retrieve", ARNO, RELEVANT),
        (" Five.", "continue", ARNO),
        (" Six.", "retrieve", TIBER, RELEVANT, "[No support / Contradictory]"),
        (" Seven.", "retrieve", PO, RELEVANT, "[Partially supported]"),
    )
    text, citations = cited_text(path)
    assert text == "In short: One. Two. Three. Four. Five. Six. Seven."
    shown = [(each.number, each.passage.id, text[each.start : each.end]) for each in citations]
    assert shown == [(1, "p", "One."), (2, "a", "Four."), (2, "a", "Five."), (1, "p", "Seven.")]


class SlowModel(ScriptedModel):
    """Delays its answer to some prompts, and counts the calls that wait or are cancelled."""

    def __init__(self, replies, slow, **settings):
        super().__init__(by_ending(replies), **settings)
        self.slow, self.num_waiting, self.num_left = slow, 0, 0

    async def generate(self, request):
        if self.slow in self.decode(self.prompt_ids(request.prompt)):
            self.num_waiting += 1
            try:
                await asyncio.sleep(60)
            finally:
                self.num_left += 1
        return await super().generate(request)


class LateFailure(ScriptedRetriever):
    """Finds passages at once, but takes its time to fail."""

    async def search(self, query, k, **more):
        try:
            return await super().search(query, k, **more)
        except OSError:
            await asyncio.sleep(0.05)
            raise


def test_a_search_that_fails_in_the_middle_of_a_beam_ends_all_and_is_told_once():
    model = SlowModel(REPLIES, slow=ONE_A, control=ALL_TOKENS)
    outcomes = {ASKS: [ARNO, PO], f"{ASKS} One a.": [ARNO, PO], f"{ASKS} One p.": OSError("disk gone")}
    trace = Trace()

    async def main():
        with pytest.raises(RetrieverFailure, match=r"retriever scripted: OSError: disk gone"):
            await ask(QUESTION, long(), {"answer": model}, LateFailure(outcomes), trace=trace)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())
    assert model.num_left == model.num_waiting == 2, "who was writing was told to stop"
    assert [type(event) for event in trace.events].count(Failed) == 1
    assert isinstance(trace.events[-1], Failed)
    assert len([event for event in trace.events if isinstance(event, Expanded)]) == 2


def test_a_search_beside_one_that_fails_does_not_make_it_fail_twice():
    model = native(REPLIES)
    outcomes = {ASKS: [ARNO, PO], f"{ASKS} One a.": OSError("disk gone"), f"{ASKS} One p.": [PO]}
    trace = Trace()
    with pytest.raises(RetrieverFailure):
        asyncio.run(ask(QUESTION, long(), {"answer": model}, ScriptedRetriever(outcomes), trace=trace))
    assert [type(event) for event in trace.events].count(Failed) == 1


def test_answers_do_not_depend_on_timing():
    class Jittery(ScriptedModel):
        async def generate(self, request):
            await asyncio.sleep(len(self.decode(self.prompt_ids(request.prompt))) % 7 / 1000)
            return await super().generate(request)

    replies = REPLIES | {ONE_P + found(PO) + "[Relevant]Two pp.[Fully supported]": "[Utility:1]"}
    jittery, _, _ = run(long(), Jittery(by_ending(replies), control=ALL_TOKENS))
    plain, _, _ = run(long(), native(replies))
    assert jittery.answer == plain.answer
    assert jittery.trace.decisions[-1].numbers == plain.trace.decisions[-1].numbers


def test_the_distribution_of_all_five_grades_is_read():
    replies = {
        IN_ARNO: said("[Relevant]The Arno.[Utility:5]", grades(u5=0.4, u4=0.3, u3=0.2, u2=0.05, u1=0.05))
    }
    result, _, _ = run(long(mode="always"), native(replies), (ARNO,))
    assert tuple(tried(result)["0.1"].distributions["utility"]) == UTILITIES
    assert tried(result)["0.1"].numbers["utility"] == near(0.4 + 0.15 - 0.025 - 0.05)
