"""fixed_length and fixed_sentence on our own prompt: what they ask, what they keep, when they end."""

import asyncio

import pytest

from askance.ask import ask
from askance.core.errors import ParameterError
from askance.core.trace import Generated
from askance.core.types import Passage, Question, Token
from askance.methods.baselines import FixedLength, FixedSentence
from askance.methods.common.prompts import PromptTemplate
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.answers import AnswerEnd

QUESTION = Question("q", "Which river flows through Pisa?")
ARNO = Passage("a", "Arno", "The Arno flows\nthrough Pisa.")
PO = Passage("p", "Po", "The Po flows through Turin.")
BARE = PromptTemplate(demos=())
CASE = "Question: Which river flows through Pisa?\nAnswer:"


def run(method, replies, found=(ARNO,), **abilities):
    model = ScriptedModel(replies, **abilities)
    retriever = ScriptedRetriever(found if isinstance(found, dict) else list(found))
    result = asyncio.run(ask(QUESTION, method, {"answer": model}, retriever))
    assert result.trace.committed.strip() == result.answer.text
    assert result.usage.searches == len(retriever.queries)
    return result, model, retriever


def of_length(**parameters):
    return FixedLength(**{"prompts": BARE, "ask_short_answer": False, **parameters})


def of_sentence(**parameters):
    return FixedSentence(**{"prompts": BARE, "ask_short_answer": False, **parameters})


def endless(text):
    return Reply(text, ends=False)


def test_sentences_ask_for_the_next():
    replies = [" One is here. Two", " Two is there. Three", " So the answer is two. Next"]
    result, model, retriever = run(of_sentence(), replies)
    assert retriever.queries == [QUESTION.text, "One is here.", "Two is there."]
    block = "Context:\n[1] Arno: The Arno flows through Pisa.\n\n"
    assert model.prompts == [
        block + CASE + text for text in ("", " One is here.", " One is here. Two is there.")
    ]
    assert result.answer.text == "One is here. Two is there. So the answer is two."
    assert result.answer.short == "two"
    generated = [event for event in result.trace.events if isinstance(event, Generated)]
    assert [event.generated_tokens - len(event.tokens) for event in generated] == [1, 1, 1]


def test_lengths_ask_with_the_last_tokens_of_the_answer():
    method = of_length(every_tokens=2, query_last_tokens=3, max_tokens=6)
    replies = [endless(f" {words}") for words in ("one two", "three four", "five six")]
    result, model, retriever = run(method, replies)
    assert retriever.queries == [QUESTION.text, "one two", "two three four"]
    assert [prompt.rpartition("Answer:")[2] for prompt in model.prompts] == [
        "",
        " one two",
        " one two three four",
    ]
    assert result.answer.text == "one two three four five six"


def test_the_last_piece_is_as_long_as_the_limit_lets_it():
    result, _, _ = run(of_length(every_tokens=4, max_tokens=6), lambda shown, key: endless(" so" * 9))
    assert [len(e.tokens) for e in result.trace.events if isinstance(e, Generated)] == [4, 2]
    assert result.trace.decisions[-1].why == "the answer has 6 tokens"


def test_a_stated_answer_ends_a_piece_early_and_only_when_it_is_whole():
    replies = [endless(" So the answer is Georges"), endless(" Bizet of Paris. He was one of")]
    result, _, _ = run(of_length(every_tokens=5), replies)
    assert result.answer.short == "Georges Bizet of Paris"
    assert result.answer.text.endswith("Paris.")
    assert result.trace.decisions[-1].why == "the answer is stated"
    generated = [event for event in result.trace.events if isinstance(event, Generated)]
    assert generated[-1].generated_tokens == 4, "nothing is generated but the word that shows it"


def test_an_answer_that_ends_with_a_piece():
    result, model, _ = run(of_length(every_tokens=5), [endless(" So the answer is Bonn."), endless(" It is")])
    assert (result.answer.text, len(model.prompts)) == ("So the answer is Bonn.", 2)
    assert result.trace.decisions[-1].why == "the answer is stated"


BOTH = pytest.mark.parametrize("make", [of_length, of_sentence])


@BOTH
@pytest.mark.parametrize(
    ("reply", "text", "why"),
    [
        (" One fact.", "One fact.", "the model ended its answer"),
        ("", "", "the model ended its answer"),
        (" One.\n\nQuestion: who", "One.", "a blank line"),
        ("\nQuestion: who", "", "a blank line"),
        (" So THE ANSWER IS five. And", "So THE ANSWER IS five.", "the answer is stated"),
    ],
)
def test_it_ends(make, reply, text, why):
    result, model, _ = run(make(), [reply])
    assert (result.answer.text, len(model.prompts)) == (text, 1)
    assert result.trace.decisions[-1].why.startswith(why)


@BOTH
def test_rounds_are_limited(make):
    method = make(max_rounds=3, **({"every_tokens": 2} if make is of_length else {}))
    result, _, retriever = run(method, lambda shown, key: " one. Two")
    assert len(retriever.queries) <= 3
    assert result.trace.decisions[-1].why in ("there were 3 rounds", "the model ended its answer")
    assert result.trace.decisions[-1].outcome == "stop"


@BOTH
def test_rounds_end_an_endless_answer(make):
    method = make(max_rounds=2, max_tokens=60)
    result, _, retriever = run(method, lambda shown, key: endless(" one more. And" + " so" * 99))
    assert len(retriever.queries) == 2
    assert result.trace.decisions[-1].why == "there were 2 rounds"


@BOTH
def test_a_model_that_never_ends_a_sentence_is_bounded(make):
    result, _, _ = run(make(max_tokens=30), lambda shown, key: endless(" so" * 99))
    assert len(result.answer.text.split()) == 30
    assert result.trace.decisions[-1].why == "the answer has 30 tokens"


def test_one_token_at_a_time():
    replies = [endless(text) for text in ("\n", " one", " two", " three")]
    result, _, retriever = run(of_length(every_tokens=1, query_last_tokens=1, max_tokens=4), replies)
    assert retriever.queries == [QUESTION.text, "one", "two"], "white space asks nothing"
    assert result.answer.text == "one two three"


@BOTH
def test_one_token_is_the_least(make):
    result, _, _ = run(make(max_tokens=1), [endless(" one")])
    assert result.answer.text == "one"
    with pytest.raises(ParameterError, match="max_tokens=0"):
        make(max_tokens=0)


@BOTH
def test_passages_stay_until_others_replace_them(make):
    replies = [
        endless(f" {words}") for words in ("One here. Two", "Two there. So", "Then three. So", "Over. So")
    ]
    parameters = {"every_tokens": 2, "query_last_tokens": 2} if make is of_length else {"max_rounds": 4}
    found = {QUESTION.text: [ARNO], "Two there.": [PO]}
    _, model, retriever = run(make(passages=1, max_tokens=8, **parameters), replies, found)
    assert retriever.queries == [QUESTION.text, "One here.", "Two there.", "Then three."]
    assert ["Arno" in prompt for prompt in model.prompts] == [True, True, False, False]
    assert ["Turin" in prompt for prompt in model.prompts] == [False, False, True, True]


@BOTH
def test_without_any_passage_there_is_no_block(make):
    result, model, _ = run(make(), [" So the answer is x."], ())
    assert model.prompts == [CASE]
    assert result.answer.citations == ()


@BOTH
def test_fewer_passages_than_asked_and_the_same_one_twice_is_shown_once(make):
    _, model, _ = run(make(passages=5), [" So the answer is x."], (ARNO, ARNO, PO))
    assert "[1] Arno" in model.prompts[0]
    assert "[2] Po" in model.prompts[0]
    assert "[3]" not in model.prompts[0]


@BOTH
def test_citations_name_what_was_shown(make):
    result, _, _ = run(make(), [" The Arno flows through Pisa."])
    assert [citation.passage.id for citation in result.answer.citations] == ["a"]


@BOTH
def test_a_model_that_only_chats_will_do(make):
    _, model, _ = run(make(), ["It is."], capabilities=frozenset({"chat", "continuation"}))
    assert model.prompts[0].endswith("<|assistant|>")


@BOTH
def test_nothing_but_a_retriever_is_needed(make):
    needs = make().needs
    assert (needs.capabilities, needs.signals, needs.retriever) == (frozenset(), frozenset(), True)
    assert make().needs.choice == "raw or chat with continuation"
    assert make(layout="raw").needs.choice == "raw"


@pytest.mark.parametrize(
    ("before", "pieces", "kept"),
    [
        ("", [" So", " the", " answer", " is", " Bonn", ".", " It"], 6),
        ("So the answer is", [" Bonn", ".", " It"], 2),
        ("So the answer is Bonn.", [" It"], 0),
        ("", [" So", " the", " answer", " is", " Bonn", "."], None),
        ("", [" One", ".", " It"], None),
        ("One. The answer is St", [".", " Mary", ".", " So"], 3),
    ],
)
def test_where_an_answer_ends(before, pieces, kept):
    tokens, at = [], 0
    for piece in pieces:
        tokens.append(Token(0, piece, at, at + len(piece)))
        at += len(piece)
    cut = AnswerEnd(before)(tokens)
    assert (cut and cut.keep_tokens) == kept
