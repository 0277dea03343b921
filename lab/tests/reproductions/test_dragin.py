"""DRAGIN's control flow as its authors' code has it, on scripted models."""

import asyncio

import pytest
from lab.tests.reproductions.scripted import run as run_on

from askance.core.errors import MissingAbility
from askance.core.trace import Generated, Searched
from askance.core.types import Demo, Passage, Question
from askance.methods.common.prompts import PromptTemplate
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.reproductions.dragin import DraginAuthors
from tests.asking import ask

SEATS = Question("q", "How many people can the home arena of the Lewiston Maineiacs seat?")
ARENA = Passage("a", "Colisée", "It has a capacity of 4,000 (3,677 seated).")
FIRST = " The Lewiston Maineiacs played at home in the Androscoggin Bank Colisée."
DRAFT = Reply(
    f"{FIRST} It has a seating capacity of 4,250. So the answer is 4,250.", entropies={"4,250": 3.0}
)


def look(pieces):
    """The doubtful number looks back at what it is about, and all that follows looks at the number."""
    if pieces[-1] == " 4,250.":
        telling = {" seat?", " Androscoggin", " Bank", " Colisée.", " seating", " capacity"}
        return [9.0 if piece in telling else 0.1 for piece in pieces]
    return [1000.0 if piece == " 4,250." else 0.1 for piece in pieces]


def run(method, replies, attention=None):
    return run_on(method, replies, found=(ARENA,), question=SEATS, attention=attention)


def searches(result):
    return [decision for decision in result.trace.decisions if decision.outcome == "search"]


def code(**parameters):
    return DraginAuthors(**{"threshold": 4.0, "ask_short_answer": False, **parameters})


def test_the_first_case_study_of_the_paper():
    replies = [DRAFT, " It seats 3,677. So the answer", " So the answer is 3,677."]
    result, model, _ = run(DraginAuthors(threshold=4.0), replies, look)
    (search,) = searches(result)
    assert [word.text for word in search.words if word.is_hit] == ["4,250."]
    assert model.prompts[1].endswith(f"Answer:{FIRST}"), "the doubtful sentence is written again as a whole"
    assert model.prompts[2].endswith(f"Answer:{FIRST} It seats 3,677.")
    assert ["3,677 seated" in prompt for prompt in model.prompts] == [False, True, False]
    assert {"seat?", "Androscoggin", "Bank", "Colisée.", "seating", "capacity"} <= set(search.query.split())
    assert "4,250" not in search.query
    assert result.answer.short == "3,677"
    children = [event for event in result.trace.events if event.parent == search.id]
    assert [type(event) for event in children] == [Searched, Generated]


EVERY = {"trigger": "every_sentence", "query": "question"}


@pytest.mark.parametrize(
    ("parameters", "replies", "why"),
    [
        ({}, [" The answer is Bonn.", " So the answer is Bonn."], "the answer is"),
        ({"max_tokens": 1}, [Reply("\n", ends=False)] * 2, "did not grow"),
        ({"max_tokens": 2}, [Reply(" one two three four", ends=False)] * 2, "more than 2 tokens"),
        ({"max_rounds": 3, **EVERY}, [" one. Two"] * 9, "there were 3 rounds"),
    ],
)
def test_the_reason_of_the_end_is_recorded(parameters, replies, why):
    result, model, _ = run(code(**parameters), replies)
    assert why in result.trace.decisions[-1].why
    assert result.trace.decisions[-1].outcome in ("stop", "end")
    assert len(model.prompts) > (why == "the answer is"), "the end test minds letter case"


def test_doubt_may_be_surprise():
    """A word that is written against all odds, at the entropy that every other word has."""
    odd = Reply(" It is Bonn. So", {"Bonn": 0.01}, entropies={"Bonn": 0.0})
    replies = [odd, " It is Paris.", " So the answer is Paris."]
    assert run(code(threshold=2.0), replies)[2].queries == []
    result, _, _ = run(code(threshold=2.0, doubt="surprise"), replies)
    assert [word.text for word in searches(result)[0].words if word.is_hit] == ["Bonn."]
    assert DraginAuthors(doubt="surprise").needs.signals == {"logprob"}


def test_the_prompt_has_the_authors_layout_and_a_wording_of_ones_own():
    template = PromptTemplate((Demo("Own?", "Yes."),), "Found:", "Go on.", "Think. ")
    replies = [" One. So", " x.", *[" So the answer is x."] * 2]
    _, model, retriever = run(code(**EVERY, prompts=template, passages=2, query_tokens=2), replies)
    assert retriever.queries[0] == " Maineiacs seat?", "queries keep their last tokens"
    assert model.prompts[0] == f"Question: Own?\nAnswer: Yes.\nThink. Question: {SEATS.text}\nAnswer:"
    assert model.prompts[1] == (
        f"Question: Own?\nAnswer: Yes.\nFound:\n[1] {ARENA.text}\n[2] \nGo on.\n"
        f"Think. Question: {SEATS.text}\nAnswer:"
    )


def test_a_model_that_shows_no_vocabulary_is_refused():
    class Wordless:
        def __getattr__(self, name):
            if name == "pieces":
                raise AttributeError(name)
            return getattr(ScriptedModel(["x"]), name)

    with pytest.raises(MissingAbility, match=r"model 'scripted'.*vocabulary.*another"):
        asyncio.run(ask(SEATS, code(), {"answer": Wordless()}, ScriptedRetriever()))
