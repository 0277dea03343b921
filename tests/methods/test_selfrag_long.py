"""Self-RAG's long form on models with reflection tokens: what paths see, search for and score."""

import pytest

from askance.core.trace import Generated
from askance.methods.selfrag.tokens import CONTINUE, IRRELEVANT, NO_RETRIEVAL, RELEVANT, RETRIEVAL
from tests.methods.reflecting import (
    ARNO,
    BARE,
    IN_ARNO,
    IN_PO,
    PO,
    cited,
    found,
    native,
    run,
    said,
    slow_score,
    supported,
    tried,
)
from tests.methods.reflecting_long import (
    ASKS,
    FIRST_A,
    FIRST_P,
    ONE_A,
    ONE_P,
    REPLIES,
    continued,
    grades,
    long,
)
from tests.tolerances import near


def test_each_path_sees_its_own_segments_and_the_passage_at_hand_and_nothing_else():
    result, prompts, queries = run(
        long(), native(REPLIES | {ONE_P + found(PO) + "[Relevant]Two pp.[Fully supported]": "[Utility:1]"})
    )
    assert sorted(prompts) == sorted(
        [
            BARE,
            BARE + found(ARNO),
            BARE + found(PO),
            f"{BARE}[Retrieval]{ONE_A}{found(ARNO)}",
            f"{BARE}[Retrieval]{ONE_A}{found(PO)}",
            f"{BARE}[Retrieval]{ONE_P}{found(ARNO)}",
            f"{BARE}[Retrieval]{ONE_P}{found(PO)}",
            f"{BARE}[Retrieval]{ONE_P}{found(PO)}[Relevant]Two pp.[Fully supported]",
        ]
    )
    assert queries == [ASKS, f"{ASKS} One a.", f"{ASKS} One p."]
    assert result.answer.text == result.answer.short == "One a. Two aa."
    assert cited(result.answer) == [(1, "a", "One a."), (1, "a", "Two aa.")]


def test_scores_are_those_of_a_slow_sum():
    last = said("[Utility:1]", grades(u1=0.7, u2=0.1))
    replies = REPLIES | {ONE_P + found(PO) + "[Relevant]Two pp.[Fully supported]": last}
    method = long(w_rel=0.8, w_sup=1.3, w_use=0.4)
    result, _, _ = run(method, native(replies))
    weights = {"rel": 0.8, "sup": 1.3, "util": 0, "whole": False}
    nodes = tried(result)
    first = {"0.1": slow_score(FIRST_A, **weights), "0.2": slow_score(FIRST_P, **weights)}
    for name, score in first.items():
        assert nodes[name].numbers["score"] == near(score)
    second = {
        "0.1.1": (said(REPLIES[ONE_A + found(ARNO)]), 1.0),
        "0.1.2": (said(REPLIES[ONE_A + found(PO)]), -0.5),
        "0.2.1": (said(REPLIES[ONE_P + found(ARNO)]), 0.5),
    }
    totals = result.trace.decisions[-1].numbers
    for name, (reply, utility) in second.items():
        score = slow_score(reply, **weights)
        assert nodes[name].numbers["score"] == near(score)
        assert totals[name] == near((first[name[:3]] + score) / 2 + 0.4 * utility)
    ended = slow_score(said(REPLIES[ONE_P + found(PO)]), **weights | {"whole": True})
    useless = (0.7 * -1 + 0.1 * -0.5) / 0.8
    assert totals["0.2.2"] == near((first["0.2"] + ended) / 2 + 0.4 * useless)


def test_a_mean_favours_stopping_early():
    replies = {
        BARE + found(ARNO): said(ONE_A + RETRIEVAL, {RELEVANT: 0.7, IRRELEVANT: 0.3}),
        BARE + found(PO): "[Relevant]One p.[Fully supported][Utility:5]",
        ONE_A + found(ARNO): said(
            "[Relevant]Two.[Fully supported][Utility:5]", {RELEVANT: 0.7, IRRELEVANT: 0.3}
        ),
        ONE_A + found(PO): RETRIEVAL,
    }
    result, _, _ = run(long(mode="always"), native(replies))
    assert result.answer.text == "One p."


def test_many_segments_that_nothing_supports_do_not_beat_one_that_something_does():
    so_far, replies = BARE, {BARE + found(PO): "[Relevant]One p.[Fully supported][Utility:5]"}
    for each in ("One a.", "Two.", "Three.", "Four."):
        told = f"{each}[No support / Contradictory]"
        end = "[Utility:3]" if each == "Four." else RETRIEVAL
        replies[so_far + found(ARNO)] = said(f"[Relevant]{told}{end}", supported(0.05, 0.1, 0.8))
        replies.setdefault(so_far + found(PO), RETRIEVAL)
        so_far = told
    result, _, _ = run(long(mode="always", w_use=0), native(replies))
    assert result.answer.text == "One p."


@pytest.mark.parametrize(("w_use", "text"), [(0.0, "The Po."), (1.0, "The Arno.")])
def test_utility_decides_between_whole_answers(w_use, text):
    replies = {
        IN_ARNO: said("[Relevant]The Arno.[Utility:5]", {RELEVANT: 0.7, IRRELEVANT: 0.3}),
        IN_PO: said("[Relevant]The Po.[Utility:1]", {RELEVANT: 0.9, IRRELEVANT: 0.1}),
    }
    result, _, _ = run(long(mode="always", w_use=w_use), native(replies))
    assert result.answer.text == text


def test_the_utility_of_answers_that_are_not_finished_is_read_at_their_end():
    replies = {
        IN_ARNO: ONE_A + RETRIEVAL,
        IN_PO: ONE_P + RETRIEVAL,
        ONE_A: said("[Utility:1]", grades(u1=0.9)),
        ONE_P: said("[Utility:5]", grades(u5=0.9)),
    }
    result, prompts, _ = run(long(mode="always", max_segments=1), native(replies))
    assert prompts[-2:] == [BARE + found(ARNO) + ONE_A, BARE + found(PO) + ONE_P]
    assert result.answer.text == "One p."
    read = [event for event in result.trace.events if isinstance(event, Generated)][-1]
    assert (read.key, read.generated_tokens) == (("0", "2", "utility"), 1)
    _, prompts, _ = run(long(mode="always", max_segments=1, w_use=0), native(replies))
    assert len(prompts) == 2, "nobody reads it"


def test_going_on_leaves_the_passage_where_it_was_found():
    result, prompts, queries = run(
        long(),
        native(
            continued(f"{' More.'}[Retrieval]")
            | {f"More.{found(PO)}": "[Relevant]Last.[Fully supported][Utility:5]"}
        ),
        {ASKS: [ARNO], f"{ASKS} More.": [PO]},
    )
    assert prompts == [
        BARE,
        BARE + found(ARNO),
        BARE + found(ARNO) + ONE_A + CONTINUE,
        f"{BARE}[Retrieval]{ONE_A}{CONTINUE} More.{found(PO)}",
    ]
    assert queries == [ASKS, f"{ASKS} More."]
    assert result.answer.text == "One a. More. Last."
    assert cited(result.answer) == [(1, "a", "One a."), (1, "a", "More."), (2, "p", "Last.")]
    node = tried(result)["0.1.1"]
    assert (node.action, node.passage.passage) == ("continue", ARNO)


def test_going_on_is_not_scored():
    result, _, _ = run(long(), native(continued("[Relevant]More.[Utility:5]")), (ARNO,))
    alone = slow_score(said(ONE_A), whole=False)
    assert result.trace.decisions[-1].numbers == near({"0.1.1": alone + 0.5})


def test_going_on_needs_a_passage():
    """Before the first search no passage is in use, so the share of the other two tokens decides."""
    nothing = said(CONTINUE, {CONTINUE: 0.9, NO_RETRIEVAL: 0.05, RETRIEVAL: 0.001})
    replies = {"### Response:\n": nothing, NO_RETRIEVAL: "A river.[Utility:5]"}
    _, prompts, queries = run(long(), native(replies))
    assert (prompts, queries) == ([BARE, BARE + NO_RETRIEVAL], [])


def test_without_retrieval_the_whole_answer_is_returned():
    replies = {NO_RETRIEVAL: "One.[No Retrieval]", "One.[No Retrieval]": "Two.", "Two.": "[Utility:4]"}
    result, prompts, queries = run(long(mode="never"), native(replies))
    assert (prompts[:2], queries) == ([BARE + NO_RETRIEVAL, f"{BARE}[No Retrieval]One.[No Retrieval]"], [])
    assert (result.answer.text, result.answer.citations) == ("One. Two.", ())


def test_a_decision_against_a_search_is_made_again_for_each_segment():
    replies = {
        "### Response:\n": said(NO_RETRIEVAL, {NO_RETRIEVAL: 0.9, RETRIEVAL: 0.1}),
        BARE + NO_RETRIEVAL: said("One.[Retrieval]", {RETRIEVAL: 0.5, NO_RETRIEVAL: 0.1}),
        IN_ARNO: said("[Relevant]Two.[Fully supported][No Retrieval]", {NO_RETRIEVAL: 0.8, RETRIEVAL: 0.1}),
        "Two.[Fully supported][No Retrieval]": "Three.[Utility:5]",
    }
    result, prompts, queries = run(long(), native(replies), (ARNO,))
    assert prompts == [
        BARE,
        BARE + NO_RETRIEVAL,
        f"{BARE}[No Retrieval]One.{found(ARNO)}",
        f"{BARE}[No Retrieval]One.[Retrieval][Relevant]Two.[Fully supported][No Retrieval]",
    ]
    assert queries == [f"{ASKS} One."]
    assert result.answer.text == "One. Two. Three."
    assert cited(result.answer) == [(1, "a", "Two.")]
    assert [each.outcome for each in result.trace.decisions if each.name == "retrieve"] == [
        "keep",
        "search",
        "keep",
    ]


def test_a_first_word_before_the_decision_is_kept_and_no_part_of_the_query():
    replies = {"### Response:\n": "Well, then[Retrieval]", IN_ARNO: "[Relevant]One.[Utility:5]"}
    result, prompts, queries = run(long(threshold=None), native(replies), (ARNO,))
    assert (prompts, queries) == ([BARE, f"{BARE}Well, then{found(ARNO)}"], [ASKS])
    assert result.answer.text == "Well, then One."
    assert cited(result.answer) == [(1, "a", "One.")]
    assert tried(result)["0.1"].text == "One."
