"""DRAGIN's control flow by its paper on scripted models, and the two case studies of its paper."""

import asyncio
import math

import pytest

from askance.ask import ask
from askance.core.errors import MissingAbility
from askance.core.trace import Attended, Searched
from askance.core.types import Passage, Question
from askance.methods.common.prompts import PromptTemplate
from askance.methods.dragin.method import Dragin
from askance.methods.dragin.paper import DraginPaper
from askance.methods.flare import Flare
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.laboratory import usable
from tests.methods.dragins import dragin
from tests.tolerances import near

SEATS = Question("q", "How many people can the home arena of the Lewiston Maineiacs seat?")
ARENA = Passage("a", "Colisée", "It has a capacity of 4,000 (3,677 seated).")
FIRST = " The Lewiston Maineiacs played at home in the Androscoggin Bank Colisée."
DRAFT = Reply(
    f"{FIRST} It has a seating capacity of 4,250. So the answer is 4,250.", entropies={"4,250": 3.0}
)
TELLING = {" seat?", " Androscoggin", " Bank", " Colisée.", " seating", " capacity"}


def looks(pieces):
    """The doubtful number looks back at what it is about, and all that follows looks at the number."""
    if pieces[-1] == " 4,250.":
        return [9.0 if piece in TELLING else 0.1 for piece in pieces]
    return [1000.0 if piece == " 4,250." else 0.1 for piece in pieces]


def run(method, replies, found=(ARENA,), question=SEATS, look=looks):
    model, retriever = ScriptedModel(replies, attention=look), ScriptedRetriever(list(found))
    result = asyncio.run(ask(question, method, {"answer": model}, retriever))
    return result, model, retriever


def paper(**parameters):
    return DraginPaper(**{"ask_short_answer": False, **parameters})


def searches(result):
    return [decision for decision in result.trace.decisions if decision.outcome == "search"]


# Case study 1: the doubtful number is searched for with the words it depends on.


def seats_in_the_papers_reading(**parameters):
    replies = [
        f"{FIRST} It has",
        Reply(" It has a seating capacity of 4,250. So the", entropies={"4,250": 3.0}),
        " 3,677. So the",
        " So the answer is 3,677.",
    ]
    return run(paper(query_top=6, **parameters), replies)


def test_case_1_paper():
    result, model, retriever = seats_in_the_papers_reading()
    assert retriever.queries == ["seat? Androscoggin Bank Colisée. seating capacity"]
    assert model.prompts[2].endswith(f"Answer:{FIRST} It has a seating capacity of")
    assert ["3,677 seated" in prompt for prompt in model.prompts] == [False, False, True, True]
    assert (
        result.answer.text == f"{FIRST.strip()} It has a seating capacity of 3,677. So the answer is 3,677."
    )
    assert result.answer.short == "3,677"
    assert result.usage.searches == 1


def test_case_1_flare_loses_the_words_it_should_ask_for():
    doubts = dict.fromkeys(("Lewiston", "home", "Androscoggin", "Bank"), 0.2)
    method = Flare(search_first=False)
    result, _, retriever = run(
        method, [Reply(f"{FIRST} It", doubts), f"{FIRST} It", " So the answer is 4,250."]
    )
    assert retriever.queries == ["The Maineiacs played at in the Colisée."]
    assert result.answer.short == "4,250"


# Case study 2: the right passage is found and shown, and the model errs all the same.

SONG = Question("q", "What is the fight song of the university whose main campus is in Lawrence, Kansas?")
EMPLOYER = Passage("p1", "Lawrence", "The university is the largest employer of the metropolitan area.")
KANSAS = Passage("p2", "University of Kansas", "Its main campus is in Lawrence; Kansas Song is sung there.")
PEOPLE = Passage("p3", "Lawrence, Kansas metropolitan area", "It has 110,000 inhabitants.")


@pytest.mark.parametrize("variant", usable("dragin_paper", "dragin_authors"))
def test_case_2_the_relevant_passage_is_used_and_the_failure_is_not_hidden(variant):
    def look(pieces):
        return [1000.0 if piece == " Missouri" else 1.0 for piece in pieces]

    first = " The university in Lawrence is Missouri State. So the"
    rest = " Kansas State. So the" if variant == "dragin_paper" else " The university is Kansas State. So"
    replies = [Reply(first, entropies={"Missouri": 9.0}), rest, " So the answer is the Wildcat song."]
    method = dragin(variant, threshold=3.0)
    result, model, _ = run(method, replies, (EMPLOYER, KANSAS, PEOPLE), SONG, look)
    (search,) = [event for event in result.trace.events if isinstance(event, Searched)]
    assert [hit.passage.id for hit in search.hits] == ["p1", "p2", "p3"]
    assert KANSAS.text in model.prompts[1]
    assert result.answer.short == "the Wildcat song"


# As the paper has it.


def test_passages_stay_where_a_later_search_finds_none():
    replies = [
        Reply(" It holds 4,250. So the", entropies={"4,250": 9.0}),
        Reply(" 3,677 in Maine. So the", entropies={"Maine": 9.0}),
        " Lewiston. So the",
        " So the answer is 3,677.",
    ]
    model = ScriptedModel(replies, attention=lambda pieces: [1.0] * len(pieces))
    retriever = ScriptedRetriever({f"{SEATS.text} It holds": [ARENA]})
    result = asyncio.run(ask(SEATS, paper(query="forward_all", threshold=0.01), {"answer": model}, retriever))
    assert len(searches(result)) == 2
    assert all("3,677 seated" in prompt for prompt in model.prompts[1:])


def test_the_decision_carries_the_numbers():
    result, _, _ = seats_in_the_papers_reading()
    keep, search = result.trace.decisions[:2]
    assert (keep.outcome, search.outcome) == ("keep", "search")
    number = next(word for word in search.words if word.text == "4,250.")
    assert number.is_hit
    assert number.value == near(3.0, "entropy", "scripted")
    assert search.threshold == 1.0


def test_a_function_word_is_never_in_doubt():
    reply = Reply(" It was the river Arno. So the", entropies={"was": 9.0, "the": 9.0})
    result, _, retriever = run(paper(threshold=0.5), [reply, " So the answer is Arno."], look=None)
    assert retriever.queries == []
    assert result.answer.short == "Arno"


def test_the_last_token_is_never_in_doubt():
    reply = Reply(" It is Arno", entropies={"Arno": 9.0}, ends=False)
    _, _, retriever = run(paper(max_tokens=3), [reply])
    assert retriever.queries == []


def test_the_token_after_a_search_causes_no_other():
    replies = [Reply(" Arno is here. So the", entropies={"Arno": 9.0})] * 2 + [" So the answer is Arno."]
    result, _, retriever = run(paper(threshold=0.01), replies, look=lambda pieces: [1.0] * len(pieces))
    assert len(retriever.queries) == 1
    assert result.answer.text == "Arno is here. So the answer is Arno."


@pytest.mark.parametrize(("threshold", "num_searches"), [(0.0, 10), (math.inf, 0)])
def test_thresholds_of_nothing_and_infinity(threshold, num_searches):
    method = paper(threshold=threshold, max_rounds=10)
    result, _, retriever = run(
        method, lambda shown, key: Reply(" red green blue cat dog", sureness=0.5), look=None
    )
    assert len(retriever.queries) == num_searches
    assert result.trace.committed.strip() == result.answer.text


@pytest.mark.parametrize("heads", ["max", "mean"])
def test_heads(heads):
    result, _, _ = seats_in_the_papers_reading(heads=heads)
    assert result.usage.searches == 1


# Any trigger with any query.

QUERIES = """
    real_words question last_n_tokens last_sentence masked current current_wo_wrong forward_all
""".split()


@pytest.mark.parametrize("variant", usable("dragin", "dragin_paper", "dragin_authors"))
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("trigger", ["rind", "token_probability", "every_sentence", "every_tokens"])
def test_every_pair_of_trigger_and_query_ends(variant, query, trigger):
    method = dragin(
        variant,
        trigger=trigger,
        query=query,
        threshold=0.3,
        max_tokens=24,
        every_tokens=6,
        max_rounds=12,
    )
    result, _, retriever = run(method, None, look=None)
    assert len(retriever.queries) == result.usage.searches
    assert result.trace.committed.strip() == result.answer.text.strip()
    attends = [event for event in result.trace.events if isinstance(event, Attended)]
    assert not attends or variant == "dragin_authors"


def test_every_sentence_with_the_last_sentence():
    replies = [" One is here. So", " Two is here. So", " So the answer is two."]
    method = paper(trigger="every_sentence", query="last_sentence")
    _, _, retriever = run(method, replies)
    assert retriever.queries == [SEATS.text, "One is here.", "Two is here."]


def test_every_tokens_with_the_last_tokens():
    replies = [" One is here", " Two is there", " So the answer is"]
    method = paper(trigger="every_tokens", query="last_n_tokens", every_tokens=3, query_top=3, max_tokens=9)
    _, _, retriever = run(method, replies)
    assert retriever.queries == [SEATS.text, "One is here", "Two is there"]


def test_probability_with_the_masked_sentence():
    replies = [Reply(" It is Bonn now. So", {"Bonn": 0.2}), " Paris now. So", " So the answer is Paris."]
    method = paper(trigger="token_probability", query="masked", threshold=0.5)
    result, _, retriever = run(method, replies)
    assert retriever.queries == ["It is now."]
    assert result.answer.text == "It is Paris now. So the answer is Paris."


def test_a_wording_shows_its_content_in_the_repr_of_the_method():
    assert repr(Dragin()) != repr(Dragin(prompts=PromptTemplate(heading="Found:")))
    assert str(Dragin().prompts) == "own"


def test_no_passages_and_odd_texts():
    for text in ("", "<|end|>", "é 中文。 😀 e\u0301 नमस्ते", "Question: the answer is"):
        question = Question("q", f"Who {text}?")
        for variant in usable("dragin_paper", "dragin_authors"):
            method = dragin(variant, threshold=0.0, max_rounds=5, ask_short_answer=False)
            result, _, _ = run(
                method, lambda shown, key, text=text: f" {text} {text}. So", (), question, look=None
            )
            assert result.trace.committed.strip() == result.answer.text.strip()


def test_what_is_needed():
    assert paper().needs.signals == {"entropy", "attention"}
    assert paper(trigger="every_tokens", query="question").needs.signals == set()
    model = ScriptedModel([], signals=frozenset({"logprob"}))
    with pytest.raises(MissingAbility, match="attention, entropy"):
        asyncio.run(ask(SEATS, paper(), {"answer": model}, ScriptedRetriever()))
