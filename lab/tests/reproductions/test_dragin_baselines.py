"""The baselines of the DRAGIN paper in the reading of its authors' code, on scripted models."""

import asyncio

import pytest

from askance.ask import ask
from askance.core.errors import ParameterError
from askance.core.types import Passage, Question
from askance.methods.common.prompts import PromptTemplate
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.reproductions.baselines import (
    ClosedBookAuthors,
    FixedLengthAuthors,
    FixedSentenceAuthors,
    FlareToken,
    SingleAuthors,
    mask,
)

QUESTION = Question("q", "Which river flows through Pisa?")
ARNO = Passage("a", "Arno", "The Arno flows\nthrough Pisa.")
BARE = PromptTemplate(demos=(), instruction="Go on.")
CASE = "Question: Which river flows through Pisa?\nAnswer:"
BLOCK = "Context:\n[1] The Arno flows through Pisa.\nGo on.\n"


def run(method, replies, found=(ARNO,)):
    model, retriever = ScriptedModel(replies), ScriptedRetriever(list(found))
    result = asyncio.run(ask(QUESTION, method, {"answer": model}, retriever))
    assert result.trace.committed.strip() == result.answer.text.strip()
    assert result.usage.searches == len(retriever.queries)
    return result, model, retriever


def test_closed_book_keeps_all_that_was_written():
    result, model, _ = run(
        ClosedBookAuthors(ask_short_answer=False, prompts=BARE), [" The Arno.\n\nQuestion: next"]
    )
    assert model.prompts == [CASE]
    assert result.answer.text == " The Arno.\n\nQuestion: next<|end|>"


def test_single_shows_bodies_of_passages_and_an_instruction():
    result, model, retriever = run(
        SingleAuthors(ask_short_answer=False, passages=1, prompts=BARE), [" The Arno."]
    )
    assert retriever.queries == [QUESTION.text]
    assert model.prompts == [BLOCK + CASE]
    assert result.answer.text == " The Arno.<|end|>"


def test_fewer_passages_leave_empty_lines():
    _, model, _ = run(SingleAuthors(ask_short_answer=False, passages=3, prompts=BARE), [" The Arno."])
    assert "through Pisa.\n[2] \n[3] \nGo on." in model.prompts[0]


def test_fixed_length_asks_with_the_last_chunk():
    method = FixedLengthAuthors(
        ask_short_answer=False, every_tokens=2, passages=1, max_tokens=4, prompts=BARE
    )
    result, model, retriever = run(method, [" one two three", " three four", " five six"])
    assert retriever.queries == [QUESTION.text, "one two", "three four"]
    assert model.prompts[0] == f"{BLOCK}{CASE} ", "the authors' code leaves a space behind"
    assert model.prompts[1] == f"{BLOCK}{CASE}  one two"
    assert model.prompts[2] == f"{BLOCK}{CASE} one two three four"
    assert result.answer.text == "one two three four five six"
    assert "more than 4 tokens" in result.trace.decisions[-1].why


def test_fixed_length_searches_once_more_after_an_empty_chunk():
    method = FixedLengthAuthors(ask_short_answer=False, every_tokens=1, prompts=BARE)
    result, _, retriever = run(method, [Reply("\n", ends=False)] * 2)
    assert retriever.queries == [QUESTION.text, ""]
    assert result.answer.text == " "
    assert "did not grow" in result.trace.decisions[-1].why


def test_fixed_sentence_asks_with_the_last_sentence():
    method = FixedSentenceAuthors(ask_short_answer=False, passages=1, prompts=BARE)
    replies = [" One is here. Two", " Two is there. Three", " So the answer is two. Next"]
    result, model, retriever = run(method, replies)
    assert retriever.queries == [QUESTION.text, "One is here.", "Two is there."]
    assert model.prompts[1] == f"{BLOCK}{CASE}  One is here."
    assert result.answer.text == "One is here. Two is there. So the answer is two."
    assert result.answer.short == "two"


@pytest.mark.parametrize(
    "method",
    [
        FixedSentenceAuthors(ask_short_answer=False, query_tokens=3, prompts=BARE),
        FixedLengthAuthors(ask_short_answer=False, query_tokens=3, prompts=BARE),
    ],
)
def test_queries_are_searched_for_without_an_end_token_which_counts_all_the_same(method):
    result, model, retriever = run(method, [" One is here", " So the answer is one."])
    assert [each.query for each in result.trace.decisions[:2]] == [QUESTION.text, "One is here<|end|>"]
    assert retriever.queries == [" flows through Pisa?", " is here"]
    assert model.prompts[1].endswith(f"{CASE}  One is here<|end|>")


def test_fixed_sentence_ends_without_a_sentence():
    result, _, retriever = run(
        FixedSentenceAuthors(ask_short_answer=False, max_tokens=1), [Reply("\n", ends=False)]
    )
    assert len(retriever.queries) == 1
    assert result.trace.decisions[-1].why == "no sentence was written"


@pytest.mark.parametrize(
    "method",
    [
        FixedLengthAuthors(ask_short_answer=False, max_rounds=3),
        FixedSentenceAuthors(ask_short_answer=False, max_rounds=3),
    ],
)
def test_rounds_are_limited(method):
    result, _, retriever = run(method, lambda shown, key: " one. Two")
    assert len(retriever.queries) <= 3
    assert result.trace.decisions[-1].name == "end"


def test_flare_token_keeps_a_probable_draft():
    result, _, retriever = run(FlareToken(prompts=BARE), [" It is so. The rest the answer is x."])
    assert retriever.queries == []
    assert result.answer.text == " It is so. The rest the answer is x.<|end|>"


def test_flare_token_masks_and_writes_all_the_rest_again():
    """With tokens that begin with a space the first stands for the sentence; not found, it masks the end."""
    method = FlareToken(prompts=BARE, passages=1, threshold=0.5)
    replies = [Reply(" Bonn it is.", {"Bonn": 0.1}), " The Arno. It is. So the answer is Arno."]
    result, model, retriever = run(method, replies)
    assert retriever.queries == ["Bonn it is it is."]
    assert model.prompts == [f"{CASE} ", f"{BLOCK}{CASE}  "]
    assert result.answer.text == "  The Arno. It is. So the answer is Arno.<|end|>"


def test_flare_token_writes_later_drafts_again_with_the_answers_leading_space():
    """Only where the first draft was kept whole does the answer begin with one."""
    method = FlareToken(prompts=BARE, passages=1, threshold=0.5, max_tokens=50)
    replies = [" It is so.", Reply(" Bonn it is.", {"Bonn": 0.1}), " So the answer is Arno."]
    _, model, _ = run(method, replies)
    assert model.prompts[1:] == [f"{CASE}  It is so.<|end|>", f"{BLOCK}{CASE}  It is so.<|end|> "]


def test_flare_token_may_ask_with_all_before_the_sentence():
    method = FlareToken(prompts=BARE, threshold=0.5, query="forward_all")
    replies = [Reply(" Bonn it is.", {"Bonn": 0.1}), " So the answer is Arno."]
    _, _, retriever = run(method, replies)
    assert retriever.queries == [QUESTION.text]


@pytest.mark.parametrize(
    ("sentence", "texts", "values", "masked"),
    [
        ("It is Bonn.", ["It", "is", "Bonn", "."], [0, 0, 1, 0], "It is [xxx]."),
        ("It is Bonn.", ["It", "is", "Bonn", "."], [1, 0, 1, 0], "[xxx] is [xxx]."),
        # The token too many is not found: the mask overwrites what stands before where it was looked for.
        ("It is Bonn.", ["It", "is", "Bonn", ".", "So"], [0, 0, 0, 0, 1], "It is Bonn[xxx]"),
        ("ab", [], [], "ab"),
    ],
)
def test_masks_fall_where_the_code_puts_them(sentence, texts, values, masked):
    assert mask(sentence, texts, values, 0.5) == masked


def test_the_authors_code_shows_a_number_of_passages():
    with pytest.raises(ParameterError, match="passages=0 of method single_authors"):
        SingleAuthors(passages=0)
