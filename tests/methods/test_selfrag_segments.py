"""Segments of Self-RAG's long form: where they end, which are candidates, which are rejected."""

import pytest

from askance.core.types import Passage, Span
from askance.methods.selfrag.tokens import CONTINUE, IRRELEVANT, NO_RETRIEVAL, RELEVANT, RETRIEVAL
from askance.models.scripted import ScriptedModel
from tests.methods.reflecting import (
    ARNO,
    BARE,
    IN_ARNO,
    IN_PO,
    PO,
    found,
    native,
    run,
    said,
    slow_score,
    tried,
)
from tests.methods.reflecting_long import (
    ASKS,
    DECIDE,
    FIRST_A,
    ONE_A,
    ONE_P,
    REPLIES,
    continued,
    grades,
    long,
)
from tests.tolerances import near


def test_a_segment_that_the_length_cuts_ends_with_its_last_whole_sentence():
    replies = {
        IN_ARNO: "[Relevant]One is. Two is.[Fully supported] Three is broken off.",
        "Two is.[Fully supported]": said(RETRIEVAL, {RETRIEVAL: 0.4, NO_RETRIEVAL: 0.3}),
        f"Two is.[Fully supported]{found(PO)}": "[Relevant]Three is.[Fully supported][Utility:5]",
        "### Response:\n": DECIDE,
    }
    search_passages = {ASKS: [ARNO], f"{ASKS} One is. Two is.": [PO]}
    result, prompts, queries = run(long(max_tokens=8), native(replies), search_passages)
    kept = "[Relevant]One is. Two is.[Fully supported]"
    assert prompts == [
        BARE,
        BARE + found(ARNO),
        BARE + found(ARNO) + kept,
        f"{BARE}[Retrieval]{kept}{found(PO)}",
    ]
    assert queries == list(search_passages)
    assert result.answer.text == "One is. Two is. Three is."
    node = tried(result)["0.1"]
    assert node.text == "One is. Two is."
    assert node.distributions["retrieve"] == near({RETRIEVAL: 0.4, NO_RETRIEVAL: 0.3, CONTINUE: 0})
    assert node.numbers["support"] == 1, "what was judged of the last whole sentence stays"
    assert node.numbers["sequence"] == near(0.99), "what was cut off does not count"


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
    model = ScriptedModel(control=["[Relevant]", "[Fully supported]"])
    replies = {
        "### Response:\n": DECIDE,
        IN_ARNO: said(written, ends=False),
        kept: NO_RETRIEVAL,
        NO_RETRIEVAL: "",
    }
    num_tokens = len(model.tokenize([Span(written)]))
    _, prompts, _ = run(long(max_tokens=num_tokens), native(replies), (ARNO,))
    assert prompts[2] == BARE + found(ARNO) + kept


def test_a_segment_that_is_complete_when_the_length_is_reached_needs_no_reading():
    """Its retrieve token is the last one that fits."""
    replies = {
        "### Response:\n": DECIDE,
        IN_ARNO: "[Relevant]One.[No Retrieval]",
        NO_RETRIEVAL: "Two.[Utility:5]",
    }
    result, prompts, _ = run(long(max_tokens=3), native(replies), (ARNO,))
    assert prompts == [BARE, BARE + found(ARNO), f"{BARE}[Retrieval][Relevant]One.[No Retrieval]"]
    assert result.answer.text == "One. Two."


@pytest.mark.parametrize(("follows", "utility"), [("[Utility:4]", 0.5), ("", 0.0)])
def test_a_cut_segment_behind_which_the_answer_ends_is_the_last(follows, utility):
    replies = {"### Response:\n": DECIDE, IN_ARNO: said(ONE_A, ends=False), IN_ARNO + ONE_A: follows}
    result, prompts, _ = run(long(max_tokens=4), native(replies), (ARNO,))
    assert prompts[:3] == [BARE, BARE + found(ARNO), BARE + found(ARNO) + ONE_A]
    assert len(prompts) == (3 if follows else 4), "an end without a grade leaves the grade to be read"
    assert tried(result)["0.1"].numbers["utility"] == utility
    assert result.answer.text == "One a."


def test_empty_segments_are_no_candidates():
    replies = REPLIES | {IN_ARNO: "[Relevant][Retrieval]", ONE_P + found(PO): "[Relevant]Two.[Utility:5]"}
    result, _, _ = run(long(), native(replies))
    nodes = tried(result)
    assert nodes["0.1"].rejected == "it is empty"
    assert result.answer.text == "One p. Two."


def test_where_all_are_empty_the_path_goes_on_without_retrieval_and_then_ends():
    empty = {"### Response:\n": DECIDE, IN_ARNO: RETRIEVAL, IN_PO: " ", NO_RETRIEVAL: "A river.[Utility:3]"}
    result, prompts, _ = run(long(), native(empty))
    assert prompts[-1] == BARE + NO_RETRIEVAL
    assert result.answer.text == "A river."
    assert tried(result)["0.3"].action == "none"
    result, _, _ = run(long(), native(empty | {NO_RETRIEVAL: "[Utility:5]"}))
    assert (result.answer.text, result.answer.citations) == ("", ())
    assert [each.rejected for each in tried(result).values()] == ["it is empty"] * 3


def test_a_path_that_can_not_go_on_ends_with_what_it_has():
    replies = {
        IN_ARNO: FIRST_A,
        ONE_A + found(ARNO): RETRIEVAL,
        ONE_A + NO_RETRIEVAL: "",
        found(ARNO) + ONE_A: said("[Utility:4]", grades(u4=1.0)),
    }
    result, prompts, _ = run(long(mode="always"), native(replies), (ARNO,))
    assert prompts[-2:] == [f"{BARE}[Retrieval]{ONE_A}[No Retrieval]", BARE + found(ARNO) + ONE_A]
    assert result.answer.text == "One a."


def test_a_grade_alone_ends_the_answer_with_that_grade():
    replies = {IN_ARNO: FIRST_A, ONE_A + found(ARNO): said("[Utility:4]", grades(u4=0.5, u5=0.5))}
    result, _, _ = run(long(mode="always"), native(replies), (ARNO,))
    assert result.answer.text == "One a."
    assert result.trace.decisions[-1].numbers == near({"0.1": slow_score(FIRST_A, whole=False) + 0.5 * 0.75})


def test_equal_segments_with_the_same_passage_take_one_place():
    again = Passage("a", "Arno", "Arno is the name of the river of Pisa.")
    replies = {
        IN_ARNO: ONE_A + RETRIEVAL,
        f"{again.text}</paragraph>": ONE_A + RETRIEVAL,
        IN_PO: said(ONE_P + RETRIEVAL, {RELEVANT: 0.5, IRRELEVANT: 0.5}),
        ONE_A: "[Utility:5]",
        ONE_P: "[Utility:5]",
    }
    result, _, _ = run(long(mode="always", max_segments=1), native(replies), (ARNO, again, PO))
    assert result.trace.decisions[-1].numbers.keys() == {"0.1", "0.3"}


def test_a_beam_of_one():
    result, _, queries = run(long(mode="always", beam_width=1, w_use=0), native(REPLIES))
    assert queries == [ASKS, f"{ASKS} One a."]
    assert result.answer.text == "One a. Two aa."


def test_no_more_segments_than_allowed():
    more = f"[Relevant]More.{found(ARNO)}"
    replies = {
        IN_ARNO: "[Relevant]More.[Retrieval]",
        more: "[Relevant]And more.[Retrieval]",
        f"[Relevant]And more.{found(ARNO)}": "[Relevant]Most.[Retrieval]",
        "Most.": "[Utility:5]",
    }
    result, _, queries = run(long(mode="always", max_segments=3), native(replies), (ARNO,))
    assert len(queries) == 3
    assert result.answer.text == "More. And more. Most."
    assert list(tried(result)) == ["0.1", "0.1.1", "0.1.1.1"]


def test_what_was_said_before_is_rejected_while_searching():
    """It is rejected before it can win with a better score than a segment that says something new."""
    replies = {
        IN_ARNO: said("[Relevant]One.[Retrieval]", {RELEVANT: 0.9, IRRELEVANT: 0.1}),
        f"One.{found(ARNO)}": said("[Relevant]One.[Utility:5]", {RELEVANT: 0.99, IRRELEVANT: 0.01}),
        f"One.{found(PO)}": said("[Relevant]Two.[Utility:5]", {RELEVANT: 0.6, IRRELEVANT: 0.4}),
        IN_PO: "[Irrelevant]Other.[Utility:1]",
    }
    result, _, _ = run(long(mode="always", beam_width=1), native(replies), (ARNO, PO))
    assert tried(result)["0.1.1"].rejected == "it says what an earlier one said"
    assert result.answer.text == "One. Two."
    replies = {
        IN_ARNO: "[Relevant]One.[Retrieval]",
        f"One.{found(ARNO)}": "[Relevant]One.[Utility:5]",
        NO_RETRIEVAL: "One.[Utility:2]",
        "One.": "[Utility:5]",
    }
    result, _, _ = run(long(mode="always"), native(replies), (ARNO,))
    assert [each.rejected != "" for each in tried(result).values()] == [False, True, True]
    assert result.answer.text == "One.", "nor is it written without a passage then"


@pytest.mark.parametrize("passages", [(), (PO,)])
def test_no_passage_and_one(passages):
    replies = REPLIES | {NO_RETRIEVAL: "A river.[Utility:3]", ONE_P + found(PO): "[Relevant]Two.[Utility:5]"}
    result, _, _ = run(long(), native(replies), passages)
    assert result.answer.text == ("One p. Two." if passages else "A river.")


WRONG = "[Relevant]One w.[No support / Contradictory]"


def test_a_contradictory_segment_is_rejected_while_searching():
    replies = REPLIES | {IN_ARNO: WRONG + RETRIEVAL, ONE_P + found(PO): "[Relevant]Two.[Utility:5]"}
    result, _, queries = run(long(reject_unsupported=True), native(replies))
    assert tried(result)["0.1"].rejected == "its passage does not support it"
    assert queries == [ASKS, f"{ASKS} One p."]
    assert result.answer.text == "One p. Two."
    _, _, queries = run(
        long(), native(replies | {f"{WRONG}{found(each)}": "[Utility:1]" for each in (ARNO, PO)})
    )
    assert f"{ASKS} One w." in queries


def test_where_all_are_rejected_the_path_goes_on_without_retrieval():
    replies = {"### Response:\n": DECIDE, IN_ARNO: WRONG + RETRIEVAL, NO_RETRIEVAL: "A river.[Utility:3]"}
    result, prompts, _ = run(long(reject_unsupported=True), native(replies), (ARNO,))
    assert prompts == [BARE, BARE + found(ARNO), BARE + NO_RETRIEVAL]
    assert (result.answer.text, result.answer.citations) == ("A river.", ())


def test_going_on_may_be_rejected_too():
    replies = continued("More.[No support / Contradictory][Retrieval]") | {
        ONE_A + NO_RETRIEVAL: "Enough.[Utility:4]"
    }
    result, prompts, _ = run(long(reject_unsupported=True), native(replies), (ARNO,))
    assert prompts[2:] == [BARE + found(ARNO) + ONE_A + CONTINUE, f"{BARE}[Retrieval]{ONE_A}[No Retrieval]"]
    assert result.answer.text == "One a. Enough."
    assert list(tried(result)) == ["0.1", "0.1.1", "0.1.2"]
