"""DRAGIN in our reading, on scripted models: its case studies, its limits, and a proxy's attention."""

import asyncio
import math

import pytest

from askance.ask import ask
from askance.core.errors import MissingAbility
from askance.core.trace import Attended, Searched
from askance.core.types import Passage, Question
from askance.methods.dragin.method import Dragin
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.laboratory import usable
from tests.methods.dragins import dragin
from tests.methods.test_dragin import ARENA, EMPLOYER, FIRST, KANSAS, PEOPLE, SEATS, SONG, TELLING
from tests.tolerances import near

LOGPROBS = frozenset({"logprob"})


def looks(pieces):
    """What predicts the doubtful number looks back at what it is about; what follows, at the number."""
    if pieces[-1] == " of":
        return [9.0 if piece in TELLING else 0.1 for piece in pieces]
    return [1000.0 if piece == " 4,250." else 0.1 for piece in pieces]


def default(**parameters):
    return dragin(**{"search_first": False, "ask_short_answer": False, "query_top": 6, **parameters})


def run(method, replies, found=(ARENA,), question=SEATS, look=looks, **models):
    model, retriever = ScriptedModel(replies, attention=look), ScriptedRetriever(list(found))
    result = asyncio.run(ask(question, method, {"answer": model} | models, retriever))
    return result, model, retriever


def seats(method=None, **models):
    replies = [
        f"{FIRST} It has",
        Reply(" It has a seating capacity of 4,250. So the", entropies={"4,250": 3.0}),
        " 3,677. So the",
        " So the answer is 3,677.",
    ]
    return run(method or default(), replies, **models)


def test_case_1_the_doubtful_number_is_searched_for_with_the_words_it_depends_on():
    result, model, retriever = seats()
    assert retriever.queries == ["seat Androscoggin Bank Colisée seating capacity"]
    assert model.prompts[2].endswith(f"Answer:{FIRST} It has a seating capacity of")
    assert ["3,677 seated" in prompt for prompt in model.prompts] == [False, False, True, False]
    assert (
        result.answer.text == f"{FIRST.strip()} It has a seating capacity of 3,677. So the answer is 3,677."
    )
    assert result.answer.short == "3,677"
    assert result.trace.committed.strip() == result.answer.text


def test_how_long_passages_are_shown():
    passages = [Passage(name, name, f"About {name}.") for name in ("p1", "p2", "p3")]
    replies = [
        Reply(" Bonn lies. So the", entropies={"Bonn": 9.0}),
        " Bonn lies. So the",
        " So the answer is Bonn.",
    ]

    def shown(search_first):
        method = default(threshold=0.01, search_first=search_first, passages=1, kept_passages=0)
        _, model, _ = run(method, replies, passages, look=None)
        return [[name for name in ("p1", "p2", "p3") if f"About {name}." in each] for each in model.prompts]

    assert shown(search_first=True) == [["p1"], ["p2"], ["p2"]]
    assert shown(search_first=False) == [[], ["p1"], []]


@pytest.mark.parametrize("search_first", [False, True])
def test_the_attention_of_a_word_to_itself(search_first):
    """Every token looks at itself alone, so a word has influence only if its own attention counts."""

    def itself(pieces):
        return [1000.0 if index == len(pieces) - 1 else 0.001 for index in range(len(pieces))]

    replies = [
        Reply(" It lies in Ulm. So the", entropies={"Ulm": 3.0}),
        *[" So the answer is Ulm."] * 3,
    ]
    result, _, _ = run(default(threshold=0.5, search_first=search_first), replies, look=itself)
    hits = [word.text for each in result.trace.decisions for word in each.words if word.is_hit]
    assert hits == ([] if search_first else ["Ulm."])


def test_case_2_the_relevant_passage_is_used_and_the_failure_is_not_hidden():
    def look(pieces):
        return [1000.0 if piece == " Missouri" else 1.0 for piece in pieces]

    first = Reply(" The university in Lawrence is Missouri State. So the", entropies={"Missouri": 9.0})
    replies = [first, " Kansas State. So the", " So the answer is the Wildcat song."]
    result, model, _ = run(default(threshold=3.0), replies, (EMPLOYER, KANSAS, PEOPLE), SONG, look)
    (search,) = [event for event in result.trace.events if isinstance(event, Searched)]
    assert [hit.passage.id for hit in search.hits] == ["p1", "p2", "p3"]
    assert KANSAS.text in model.prompts[1]
    assert result.answer.short == "the Wildcat song"


def test_the_decision_carries_the_numbers():
    result, _, _ = seats()
    keep, search = result.trace.decisions[:2]
    assert (keep.outcome, search.outcome) == ("keep", "search")
    hits = [word for word in search.words if word.is_hit]
    assert [word.text for word in hits] == ["4,250."]
    assert hits[0].value == near(3.0, "entropy", "scripted")
    assert {word.text: word.value for word in search.words}["a"] == 0.0, "a function word is never in doubt"
    assert result.trace.decisions[-1].why == "the answer is stated"


def test_a_sentence_is_searched_for_once():
    always = Reply(" Bonn lies here. So the", entropies={"Bonn": 9.0, "lies": 9.0})
    result, _, retriever = run(
        default(threshold=0.01), [always, always, " So the answer is Bonn."], look=None
    )
    assert len(retriever.queries) == 1
    assert any("has been searched for" in decision.why for decision in result.trace.decisions)


def test_passages_that_were_shown_are_passed_over_and_the_best_stays():
    passages = [Passage(name, name, f"About {name}.") for name in ("p1", "p2", "p3", "p4", "p5")]
    doubtful = Reply(" Bonn lies. So the", entropies={"Bonn": 9.0})
    replies = [doubtful, " Bonn lies. So the", " So the answer is Bonn."]
    result, model, _ = run(
        default(threshold=0.01, search_first=True, passages=3), replies, passages, look=None
    )
    searched = [event for event in result.trace.events if isinstance(event, Searched)]
    assert [[hit.passage.id for hit in event.hits] for event in searched] == [
        ["p1", "p2", "p3"],
        ["p4", "p5"],
    ]
    assert "[1] p4: About p4.\n[2] p5: About p5.\n[3] p1: About p1.\n" in model.prompts[1]


def test_a_doubt_without_new_passages_keeps_the_sentence():
    doubtful = Reply(" Bonn lies on it. So the", entropies={"Bonn": 9.0})
    result, model, _ = run(
        default(threshold=0.01, search_first=True), [doubtful, " So the answer is Bonn."], look=None
    )
    assert result.answer.text == "Bonn lies on it. So the answer is Bonn."
    assert len(model.prompts) == 2


def test_the_text_is_never_cut_behind_a_space():
    _, model, _ = seats()
    assert not any(prompt.endswith(" ") for prompt in model.prompts)


def test_a_sentence_written_before_ends_the_answer():
    result, _, _ = run(
        default(threshold=math.inf), lambda shown, key: " The Rhine flows. The Rhine", look=None
    )
    assert result.answer.text == "The Rhine flows."
    assert "word for word" in result.trace.decisions[-1].why


@pytest.mark.parametrize(("threshold", "num_searches"), [(0.0, 4), (math.inf, 0)])
def test_thresholds_of_nothing_and_infinity(threshold, num_searches):
    passages = [Passage(f"p{number}", "", f"Number {number}.") for number in range(40)]
    method = default(threshold=threshold, max_searches=4, max_rounds=30, max_tokens=400)

    def reply(shown, key):
        return Reply(f" red{len(shown)} green. Blue cat", sureness=0.5)

    result, _, retriever = run(method, reply, passages, look=None)
    assert len(retriever.queries) == num_searches
    assert result.trace.decisions[-1].why == "there were 30 rounds"
    whys = {decision.why for decision in result.trace.decisions}
    assert ("in doubt, but 4 searches are the most" in whys) == (threshold == 0)


# The attention of another model.


def test_a_proxy_judges_and_asks_for_a_model_that_gives_log_probabilities_only():
    own, _, _ = seats()
    proxied = ScriptedModel(
        [
            f"{FIRST} It has",
            Reply(" It has a seating capacity of 4,250. So the", {"4,250": 0.02}),
            " 3,677. So the",
            " So the answer is 3,677.",
        ],
        signals=LOGPROBS,
        capabilities=frozenset({"raw", "continuation"}),
    )
    models = {"answer": proxied, "attend": ScriptedModel(attention=looks)}
    retriever = ScriptedRetriever([ARENA])
    result = asyncio.run(ask(SEATS, default(threshold=1.5), models, retriever))
    assert retriever.queries == ["seat Androscoggin Bank Colisée seating capacity"]
    assert result.answer == own.answer
    assert {event.role for event in result.trace.events if isinstance(event, Attended)} == {"attend"}
    number = next(word for word in result.trace.decisions[1].words if word.text == "4,250.")
    assert number.value == near(-math.log(0.02), "entropy", "scripted")


def test_without_attention_the_error_names_the_remedy():
    blind = ScriptedModel([], signals=LOGPROBS)
    with pytest.raises(MissingAbility, match="--model attend=bundled"):
        asyncio.run(ask(SEATS, Dragin(), {"answer": blind}, ScriptedRetriever()))
    proxy = ScriptedModel([], capabilities=frozenset({"raw"}))
    with pytest.raises(MissingAbility, match="in the role attend can't provide its attention"):
        asyncio.run(ask(SEATS, Dragin(), {"answer": blind, "attend": proxy}, ScriptedRetriever()))
    asking = Dragin(trigger="every_sentence", query="question", search_first=False)
    assert not asking.needs.attention


# Odd input.


@pytest.mark.parametrize("text", ["", "<|end|>", "é 中文。 😀 e\u0301 नमस्ते", "Question: the answer is", "的"])
@pytest.mark.parametrize("found", [(), (ARENA,), (ARENA, ARENA)])
def test_odd_texts_and_passages(text, found):
    question = Question("q", f"Who {text}?")
    method = default(threshold=0.0, max_rounds=5, search_first=True, ask_short_answer=True)
    result, _, _ = run(method, lambda shown, key: f" {text} {text}. So the", found, question, None)
    assert result.trace.committed.strip() == result.answer.text.strip()


def test_a_question_that_holds_the_answer_marker_does_not_end_the_answer():
    question = Question("q", "Who said that the answer is 42?")
    result, _, _ = run(
        default(threshold=math.inf), [" Deep Thought said so. So the", " So the answer is Deep Thought."],
        question=question, look=None,
    )  # fmt: skip
    assert result.answer.short == "Deep Thought"


def test_a_model_that_never_ends_a_sentence_ends_at_the_limit():
    result, _, _ = run(
        default(threshold=math.inf, max_tokens=9), lambda shown, key: Reply(" and on" * 50), look=None
    )
    assert result.trace.decisions[-1].why == "the answer has 9 tokens"


NUMBERED = [Passage(f"p{number}", "", f"Number {number}.") for number in range(40)]


def test_the_first_search_is_one_of_the_most_searches():
    doubtful = Reply(" Bonn lies here. So the", entropies={"Bonn": 9.0})
    method = default(threshold=0.01, search_first=True, max_searches=1)
    result, _, retriever = run(method, [doubtful, " So the answer is Bonn."], NUMBERED, look=None)
    assert len(retriever.queries) == 1
    assert result.trace.decisions[1].why == "in doubt, but 1 searches are the most"


@pytest.mark.parametrize("variant", ["dragin", "dragin_paper"])
def test_a_count_of_tokens_searches_with_what_was_attended_to(variant):
    method = default(variant=variant, trigger="every_tokens", every_tokens=3, max_tokens=9)
    endless = Reply(" Bonn lies here", ends=False)
    _, _, retriever = run(method, lambda shown, key: endless, NUMBERED, look=None)
    queries = [query for query in retriever.queries if query != SEATS.text]
    assert len(queries) == 2
    assert all(queries)


@pytest.mark.parametrize("variant", ["dragin", "dragin_paper"])
def test_a_count_of_tokens_ends_with_the_sentence_that_states_the_answer(variant):
    method = default(variant=variant, trigger="every_tokens", query="question", every_tokens=9)
    reply = Reply(" So the answer is Bonn. But then it went on", ends=False)
    result, _, _ = run(method, lambda shown, key: reply, NUMBERED, look=None)
    assert result.answer.text == "So the answer is Bonn."
    assert result.trace.decisions[-1].why == "the answer is stated"


def test_one_token_generations():
    result, _, _ = run(default(threshold=0.0, max_rounds=4), lambda shown, key: " Bonn", look=None)
    assert result.answer.text == "Bonn"


def test_a_passage_found_twice_is_shown_once():
    _, model, _ = run(
        default(search_first=True), [" So the answer is Bonn."], (ARENA, KANSAS, ARENA), look=None
    )
    assert model.prompts[0].count(ARENA.text) == 1


@pytest.mark.parametrize("variant", usable("dragin_paper", "dragin_authors"))
def test_a_proxy_that_would_not_be_asked_is_refused(variant):
    models = {"answer": ScriptedModel(), "attend": ScriptedModel()}
    with pytest.raises(MissingAbility, match="no model in the role attend"):
        asyncio.run(ask(SEATS, dragin(variant), models, ScriptedRetriever()))
