"""The cost of Self-RAG's judgements in words: each is asked at most once, and only if the answer needs it."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from askance.core.ports import Run
from askance.core.token_ledger import NoRoom
from askance.core.trace import Generated, ScoredOptions, Trace
from askance.core.types import Hit, Passage
from askance.methods.common.prompts import PromptTemplate
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.paper import SelfragPaper
from askance.methods.selfrag.segment_writer import SegmentWriter
from askance.methods.selfrag.segments import Path, Segment
from askance.methods.selfrag.tokens import (
    CONTINUE,
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
from tests.asking import ask
from tests.methods.reflecting import QUESTION, Judged, ScriptedScorer, tried
from tests.tolerances import near

PASSAGES = [Passage(f"p{number}", f"Title {number}", f"Text {number}.") for number in range(5)]
PLAIN = PromptTemplate(demos=(), system="")


def numbered(prompt, key):
    """Return a distinct sentence for each passage and location."""
    return f" Sentence {sum(map(ord, prompt)) % 997}. More"


def labels(prompt, option):
    """Return label words: two passages help, and their passage supports most of what is written."""
    helps = "Text 0." in prompt or "Text 1." in prompt
    likely = {"relevant": helps, "irrelevant": not helps, "fully": True, "5": True, "search": True}
    return -0.1 if likely.get(option.strip()) else -2.0


def asked(method, model, passages=PASSAGES):
    return asyncio.run(ask(QUESTION, method, {"answer": model}, ScriptedRetriever(list(passages))))


def requests(result):
    """Return how many texts were written, and how often each judgement was asked."""
    found = {"written": 0}
    for event in result.trace.events:
        if isinstance(event, Generated):
            found["written"] += 1
        elif isinstance(event, ScoredOptions):
            first = event.options[0].strip()
            found[first] = found.get(first, 0) + 1
    return found


@pytest.mark.parametrize(
    ("parameters", "num_searches"), [({"mode": "always"}, {}), ({"threshold": 0}, {"search": 3})]
)
def test_how_often_a_beam_asks(parameters, num_searches):
    """Two steps, two answers in the beam, five passages: fifteen segments.

    Each passage is judged once, though three paths write with it. Two of five in each group can be among the
    best. The utility is that of the two paths left. A search is decided at the start and behind two paths.
    """
    more = {"max_segments": 2, "max_tokens": 8, "prompts": PLAIN, "ask_short_answer": False}
    result = asked(Selfrag(form="long", **parameters, **more), ScriptedModel(numbered, scores=labels))
    assert requests(result) == {"written": 15, "relevant": 5, "fully": 6, "1": 2} | num_searches
    assert sum("score at most" in step.numbers for step in tried(result).values()) == 9


def test_segments_by_the_paper_are_graded_in_words_one_by_one():
    """Of five passages, two help: only their segments can enter the beam, and both are judged."""
    more = {"mode": "always", "max_segments": 1, "max_tokens": 8, "prompts": PLAIN, "ask_short_answer": False}
    result = asked(SelfragPaper(form="long", **more), ScriptedModel(numbered, scores=labels))
    assert requests(result) == {"written": 5, "relevant": 5, "fully": 2, "1": 2}
    dropped = [step for step in tried(result).values() if "score at most" in step.numbers]
    assert len(dropped) == 3
    assert not any({"support", "utility"} & step.numbers.keys() for step in dropped)
    result = asked(SelfragPaper(**more), ScriptedModel(numbered, scores=labels), PASSAGES[:2])
    assert requests(result) == {"written": 2, "relevant": 2, "fully": 2, "1": 2}, "a whole answer once"


def test_segments_by_the_paper_are_graded_also_without_a_passage():
    """Without a search, the mean grade of the two segments is the score; nothing is said about support."""
    more = {"mode": "never", "max_segments": 2, "max_tokens": 8, "prompts": PLAIN, "ask_short_answer": False}
    result = asked(SelfragPaper(form="long", **more), ScriptedModel(numbered, scores=labels))
    assert requests(result) == {"written": 2, "1": 2}
    short = asked(SelfragPaper(form="short", **more), ScriptedModel(numbered, scores=labels))
    first, second = tried(result).values()
    (whole,) = tried(short).values()
    assert "score at most" not in first.numbers | second.numbers
    assert first.numbers["utility"] == second.numbers["utility"] == whole.numbers["utility"] > 0
    (chosen,) = (event for event in result.trace.events if getattr(event, "name", "") == "choose")
    assert list(chosen.numbers.values()) == [near(0.5 * whole.numbers["utility"])]


class Unhurried(ScriptedScorer):
    """A scorer that finds every passage relevant, after a while."""

    async def judge(self, group, hit, so_far, said, *, key):
        await asyncio.sleep(0.01)
        return {RELEVANT: 1.0, IRRELEVANT: 0.0}


def test_a_segment_without_room_leaves_others_the_judgement_of_their_passage():
    """Its call fails while both wait for the judgement."""
    model = ScriptedModel(lambda prompt, key: NoRoom("full") if key[0] == "a" else " It is so.")
    run, hit = Run({"answer": model}, ScriptedRetriever([]), Trace(None)), Hit(PASSAGES[0], 1.0, 1)
    writer = SegmentWriter(Selfrag(), QUESTION, run, Unhurried().judge)

    async def written(*keys):
        work = (writer.write(Path(), "retrieve", hit, key=(key,), whole=False) for key in keys)
        return await asyncio.gather(*work)

    async def in_two_steps():
        return [*await written("a", "b"), *await written("a"), *await written("c")]

    segments = asyncio.run(in_two_steps())
    assert [each.text for each in segments] == ["", "It is so.", "", "It is so."]
    assert [each.labels for each in segments] == [set(), {RELEVANT}, set(), {RELEVANT}]


def test_judgements_read_the_answer_as_it_was_written():
    """If the model leaves no space between two sentences, as in Japanese, none is added."""
    said = ("東京です。", "川です。\n", " End.")
    path = Path(tuple(Segment(each, "none") for each in said))
    assert path.text == "東京です。川です。 End."


def test_a_dropped_segment_is_told_with_its_bound():
    supports = []
    scorer = ScriptedScorer(
        relevances=lambda passage: {RELEVANT: 1.0 if passage < "Text 2" else 0.1, IRRELEVANT: 0.9},
        supports=lambda sentence, passage: supports.append(passage) or {FULLY_SUPPORTED: 1.0},
    )
    method = Selfrag(
        form="long", mode="always", max_segments=1, max_tokens=8, prompts=PLAIN, use_seqscore=False, w_use=0
    )
    steps = tried(asked(Judged(method, scorer), ScriptedModel(numbered)))
    assert sorted(supports) == ["Text 0.", "Text 1."]
    told = steps["0.3"]
    assert told.rejected == "with full support its answer would have 1.100, and others are better"
    assert "support" not in {**told.distributions, **told.numbers}
    assert steps["0.1"].rejected == ""
    assert "score" in steps["0.1"].numbers


class FullSearch(Judged):
    """A long form without bounds: every segment is judged at once."""

    async def answer(self, question, run):
        writer = self.writer(question, run)
        bounded = writer.write

        async def write(path, action, hit, *, key, whole):
            segment = await bounded(path, action, hit, key=key, whole=whole)
            return segment if whole else await writer.with_judgements(path, segment, key=key)

        writer.write = write
        return await self.selfrag.answer_with(writer, question, run)


PARAMETERS = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(["always", "adaptive"]),
        "beam_width": st.integers(1, 3),
        "max_segments": st.integers(1, 4),
        "use_seqscore": st.booleans(),
        "w_rel": st.sampled_from([0.0, 1.0]),
        "w_sup": st.sampled_from([0.0, 0.3, 1.0, 2.0]),
        "w_use": st.sampled_from([0.0, 0.5]),
        "reject_unsupported": st.booleans(),
    }
)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([Selfrag, SelfragPaper]), PARAMETERS, st.integers(0, 10**6), st.booleans())
def test_a_bounded_search_finds_what_the_full_one_does(cls, parameters, seed, coarse):
    def share(*about):
        chance = random.Random(repr((seed, about)))
        return chance.choice([0.0, 0.5, 1.0]) if coarse else chance.random()

    def distribution(names, *about):
        return {name: share(name, *about) for name in names}

    def reply(prompt, key):
        chance = random.Random(repr((seed, prompt)))
        told = chance.choice([" It is so.", " It is.", " It is not so.", " It may be so."])
        return told + chance.choice([" More", " More", " More", "", " So the answer is it."])

    scorer = ScriptedScorer(
        lambda so_far: distribution((RETRIEVAL, NO_RETRIEVAL, CONTINUE), so_far),
        lambda passage: distribution((RELEVANT, IRRELEVANT), passage),
        lambda sentence, passage: distribution(
            (FULLY_SUPPORTED, PARTIALLY_SUPPORTED, NO_SUPPORT), sentence, passage
        ),
        lambda answer: distribution(UTILITIES, answer),
    )
    method = cls(form="long", max_tokens=8, prompts=PLAIN, ask_short_answer=False, **parameters)
    full = asked(FullSearch(method, scorer), ScriptedModel(reply), PASSAGES[:4])
    bounded = asked(Judged(method, scorer), ScriptedModel(reply), PASSAGES[:4])
    assert bounded.answer == full.answer
    one, other = bounded.trace.decisions[-1], full.trace.decisions[-1]
    assert (one.outcome, one.numbers) == (other.outcome, other.numbers)
    own, whole = tried(bounded), tried(full)
    assert set(own) == set(whole), "the same is written, and nothing else"
    for name, step in own.items():
        if "score at most" in step.numbers:
            assert step.numbers["score at most"] >= whole[name].numbers["score"]
        else:
            assert step.numbers == whole[name].numbers
