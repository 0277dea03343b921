"""The baselines of the DRAGIN paper as its authors' code has them: searches, prompts, texts, answers."""

import pytest
from lab.tests.reproductions.scripted import ARNO, BARE, BLOCK, CASE, METHODS, QUESTION, run

from askance.core.errors import ParameterError
from askance.core.trace import Generated
from askance.core.types import Demo
from askance.methods.common.prompts import PromptTemplate
from askance.models.scripted import Reply
from askance_lab.reproductions.baselines import (
    ClosedBookAuthors,
    FixedLengthAuthors,
    FixedSentenceAuthors,
    FlareToken,
    SingleAuthors,
    mask,
)

QUIET = {"ask_short_answer": False, "prompts": BARE}
UNSURE = Reply(" Bonn it is.", {"Bonn": 0.1})
SCENARIOS = {
    "closed book keeps all that was written": (
        ClosedBookAuthors(**QUIET),
        [" The Arno.\n\nQuestion: next"],
        [],
        [CASE],
        " The Arno.\n\nQuestion: next<|end|>",
    ),
    "fixed length asks with the last chunk, and leaves a space behind the case": (
        FixedLengthAuthors(**QUIET, every_tokens=2, passages=1, max_tokens=4),
        [" one two three", " three four", " five six"],
        [QUESTION.text, "one two", "three four"],
        [f"{BLOCK}{CASE} ", f"{BLOCK}{CASE}  one two", f"{BLOCK}{CASE} one two three four"],
        "one two three four five six",
    ),
    "queries keep their last tokens, without an end token, which counts all the same": (
        FixedSentenceAuthors(**QUIET, passages=1, query_tokens=3),
        [" One is here", " So the answer is one."],
        [" flows through Pisa?", " is here"],
        [f"{BLOCK}{CASE} ", f"{BLOCK}{CASE}  One is here<|end|>"],
        "One is here<|end|> So the answer is one.",
    ),
    "flare masks at the end what it does not find, and writes all the rest again": (
        FlareToken(**QUIET, passages=1, threshold=0.5),
        [UNSURE, " The Arno. It is. So the answer is Arno."],
        ["Bonn it is it is."],
        [f"{CASE} ", f"{BLOCK}{CASE}  "],
        "  The Arno. It is. So the answer is Arno.<|end|>",
    ),
}


@pytest.mark.parametrize(
    ("method", "replies", "queries", "prompts", "text"), SCENARIOS.values(), ids=SCENARIOS
)
def test_queries_prompts_and_text(method, replies, queries, prompts, text):
    result, model, retriever = run(method, replies)
    assert retriever.queries == queries
    assert model.prompts == prompts
    assert result.answer.text == text


@pytest.mark.parametrize(
    ("method", "reply", "why"),
    [
        (FixedLengthAuthors(every_tokens=1), Reply("\n", ends=False), "did not grow"),
        (FixedLengthAuthors(max_tokens=2), Reply(" one two three", ends=False), "more than 2 tokens"),
        (FixedSentenceAuthors(max_tokens=1), Reply("\n", ends=False), "no sentence was written"),
        (FixedLengthAuthors(max_rounds=3), " one. Two", "3 rounds"),
        (FixedSentenceAuthors(max_rounds=3), " one. Two", "3 rounds"),
    ],
)
def test_the_reason_of_the_end_is_recorded(method, reply, why):
    result, _, retriever = run(method, lambda shown, key: reply)
    assert why in " ".join(decision.why for decision in result.trace.decisions)
    assert len(retriever.queries) <= 3


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


def test_demonstrations_and_the_sentence_before_the_question_stand_as_the_authors_put_them():
    demos = (Demo("Is ice cold?", "It is. So the answer is yes."), Demo("Is fire wet?", "No."))
    template = PromptTemplate(demos, "Found:", "Reply just as above.", "Think in steps.\n\n")
    shown = (
        "Question: Is ice cold?\nAnswer: It is. So the answer is yes.\nQuestion: Is fire wet?\nAnswer: No.\n"
    )
    _, model, _ = run(ClosedBookAuthors(prompts=template), [" So the answer is yes."])
    assert model.prompts == [f"{shown}Think in steps.\n\n{CASE}"]
    _, model, _ = run(SingleAuthors(prompts=template, passages=1), [" So the answer is yes."])
    block = "Found:\n[1] The Arno flows through Pisa.\nReply just as above.\n"
    assert model.prompts == [f"{shown}{block}Think in steps.\n\n{CASE}"]


# Short answers are read by a call of their own, which adds nothing to the text.


@pytest.mark.parametrize("method", METHODS)
def test_a_short_answer_is_asked_for_unless_it_is_stated(method):
    def script(shown, key):
        return " Arno. Then" if key[2] == "elicit" else " The Arno. So"

    result, model, _ = run(method(prompts=BARE, max_tokens=3), script)
    without, _, _ = run(method(prompts=BARE, max_tokens=3, ask_short_answer=False), script)
    assert (result.answer.text, without.answer.short) == (without.answer.text, "")
    assert result.answer.short == "Arno"
    assert model.prompts[-1] == f"{CASE} {result.answer.text.strip()} So the answer is "
    assert result.trace.decisions[-1].outcome == "elicit"
    stated, model, _ = run(method(prompts=BARE), [" So the answer is Po."])
    assert (stated.answer.short, len(model.prompts)) == ("Po", 1)


@pytest.mark.parametrize(
    ("replies", "asked", "short"),
    [
        # An invention behind the answer is cut; right at the start it stays; asked for, it is none.
        (
            [" The Arno. Note: Question:", " Arno. Question: no"],
            " The Arno.  So the answer is ",
            "Arno",
        ),
        (["Note: this.", " x"], " Note: this.<|end|> So the answer is ", "x"),
        (["Note: x Question: y", " x"], " Note: x  So the answer is ", "x"),
        ([" The Arno.", "Note: Po."], " The Arno.<|end|> So the answer is ", ""),
        ([" The Answer is Po.", " Arno."], " The Answer is Po.<|end|> So the answer is ", "Arno"),
    ],
)
def test_what_is_asked_with_and_what_is_read(replies, asked, short):
    result, model, _ = run(ClosedBookAuthors(prompts=BARE), replies)
    assert model.prompts[1] == f"{CASE}{asked}"
    assert result.answer.short == short


def test_an_end_token_is_one_again():
    result, _, _ = run(ClosedBookAuthors(prompts=BARE), [" The Arno.", " Arno."])
    first, second = [event for event in result.trace.events if isinstance(event, Generated)]
    # " The", " Arno.", the end, and the phrase's four with a space behind.
    assert second.prompt_tokens - first.prompt_tokens == 8


def test_a_full_window_leaves_the_answer_as_it_is():
    replies = [Reply(" one two three", ends=False), " Arno."]
    alone, _, _ = run(ClosedBookAuthors(max_tokens=3, ask_short_answer=False), replies)
    room = alone.usage.prompt_tokens + 20
    result, model, _ = run(ClosedBookAuthors(max_tokens=3), replies, context_tokens=room)
    assert (result.answer.text, len(model.prompts)) == (" one two three", 1)
    assert "has no room" in result.trace.decisions[-1].why


# Markers of citations that a model copies stay in the text; neither the short answer nor a query has them.


@pytest.mark.parametrize("method", METHODS)
def test_markers_stay_in_the_text_and_leave_the_short_answer(method):
    text = "The Arno flows there [1]. So the answer is Arno [1]."

    def going_on(shown, key):
        at = next(end for end in range(len(text), -1, -1) if shown.endswith(text[:end]))
        return text[at:]

    result, _, _ = run(method(), going_on)
    assert "Arno [1]." in result.answer.text
    assert result.answer.short == "Arno"
    cited = {result.answer.text[each.start : each.end] for each in result.answer.citations}
    assert cited <= {"The Arno flows there [1].", "So the answer is Arno [1]."}
    assert all(each.passage == ARNO for each in result.answer.citations)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("text", ["\x07", "\x00\x1b\x9b", "\u202e\u2067", "\x1c\x85", "\u00ad\u200b"])
def test_an_answer_of_control_characters_only_breaks_nothing(method, text):
    result, _, _ = run(method(), lambda shown, key: text)
    assert result.answer.short.strip() == ""
