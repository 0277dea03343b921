"""Self-RAG's long form on models with reflection tokens: what paths see, search for, score and cite."""

import asyncio

import pytest

from askance.ask import ask
from askance.core.errors import RetrieverFailure
from askance.core.trace import Expanded, Failed, Generated, Trace
from askance.core.types import Passage
from askance.methods.reflection_tokens import (
    ALL_TOKENS,
    FULLY,
    IRRELEVANT,
    KEEP_USING,
    NO_SEARCH,
    RELEVANT,
    SEARCH,
    UTILITIES,
)
from askance.methods.selfrag import Selfrag
from askance.methods.selfrag_citing import cited as cited_text
from askance.methods.selfrag_long import path_score
from askance.methods.selfrag_segments import Path, Segment
from askance.models.scripted import ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from tests.methods.reflecting import (
    ARNO,
    BARE,
    IN_ARNO,
    IN_PO,
    PO,
    QUESTION,
    TIBER,
    by_ending,
    cited,
    found,
    native,
    run,
    said,
    slow_score,
    supported,
    tried,
)

ASKS = QUESTION.text
ONE_A, ONE_P = "[Relevant]One a.[Fully supported]", "[Relevant]One p.[Partially supported]"
DECIDE = said(SEARCH, {SEARCH: 0.7, NO_SEARCH: 0.2})
FIRST_A = said(ONE_A + SEARCH, {RELEVANT: 0.9, IRRELEVANT: 0.1}, supported(0.8, 0.1, 0.1))
FIRST_P = said(ONE_P + SEARCH, {RELEVANT: 0.6, IRRELEVANT: 0.2}, supported(0.3, 0.4, 0.1))
REPLIES = {
    "### Response:\n": DECIDE,
    IN_ARNO: FIRST_A,
    IN_PO: FIRST_P,
    ONE_A + found(ARNO): "[Relevant]Two aa.[Fully supported][Utility:5]",
    ONE_A + found(PO): "[Irrelevant]Two ap.[Utility:2]",
    ONE_P + found(ARNO): "[Relevant]Two pa.[No support / Contradictory][Utility:4]",
    ONE_P + found(PO): "[Relevant]Two pp.[Fully supported]",
}


def long(**knobs):
    return Selfrag(form="long", **knobs)


def grades(**weights):
    """Probabilities of grades, as u5=0.6."""
    return {f"[Utility:{name[1:]}]": value for name, value in weights.items()}


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
    method = long(path_power=0.7, w_rel=0.8, w_sup=1.3, w_use=0.4)
    result, _, _ = run(method, native(replies))
    weights = {"rel": 0.8, "sup": 1.3, "util": 0, "whole": False}
    nodes = tried(result)
    first = {"0.1": slow_score(FIRST_A, **weights), "0.2": slow_score(FIRST_P, **weights)}
    for name, score in first.items():
        assert nodes[name].numbers["score"] == pytest.approx(score, abs=1e-6)
    second = {
        "0.1.1": (said(REPLIES[ONE_A + found(ARNO)]), 1.0),
        "0.1.2": (said(REPLIES[ONE_A + found(PO)]), -0.5),
        "0.2.1": (said(REPLIES[ONE_P + found(ARNO)]), 0.5),
    }
    totals = result.trace.decisions[-1].numbers
    for name, (reply, utility) in second.items():
        score = slow_score(reply, **weights)
        assert nodes[name].numbers["score"] == pytest.approx(score, abs=1e-6)
        assert totals[name] == pytest.approx((first[name[:3]] + score) / 2**0.7 + 0.4 * utility, abs=1e-6)
    ended = slow_score(said(REPLIES[ONE_P + found(PO)]), **weights | {"whole": True})
    useless = (0.7 * -1 + 0.1 * -0.5) / 0.8
    assert totals["0.2.2"] == pytest.approx((first["0.2"] + ended) / 2**0.7 + 0.4 * useless, abs=1e-6)


@pytest.mark.parametrize(
    ("power", "scores", "total"),
    [
        (0.5, (2.6,), 2.6),
        (0, (2.6, 2.4, 2.5), 7.5),
        (1, (2.6, 2.4, 2.5), 2.5),
        (0.5, (2.0, 2.0), 2 * 2**0.5),
        (1, (), 0),
    ],
)
def test_the_power_of_the_number_of_segments(power, scores, total):
    assert path_score(Selfrag(path_power=power), Path(scores=scores)) == pytest.approx(total)


@pytest.mark.parametrize(("power", "text"), [(1.0, "One p."), (0.0, "One a. Two.")])
def test_a_mean_favours_stopping_early(power, text):
    replies = {
        BARE + found(ARNO): said(ONE_A + SEARCH, {RELEVANT: 0.7, IRRELEVANT: 0.3}),
        BARE + found(PO): "[Relevant]One p.[Fully supported][Utility:5]",
        ONE_A + found(ARNO): said(
            "[Relevant]Two.[Fully supported][Utility:5]", {RELEVANT: 0.7, IRRELEVANT: 0.3}
        ),
        ONE_A + found(PO): SEARCH,
    }
    result, _, _ = run(long(mode="always", path_power=power), native(replies))
    assert result.answer.text == text


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
        IN_ARNO: ONE_A + SEARCH,
        IN_PO: ONE_P + SEARCH,
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


def continued(text=" More."):
    return {
        "### Response:\n": DECIDE,
        IN_ARNO: said(ONE_A + KEEP_USING, {KEEP_USING: 0.5, SEARCH: 0.3, NO_SEARCH: 0.1}),
        KEEP_USING: text,
    }


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
        BARE + found(ARNO) + ONE_A + KEEP_USING,
        f"{BARE}[Retrieval]{ONE_A}{KEEP_USING} More.{found(PO)}",
    ]
    assert queries == [ASKS, f"{ASKS} More."]
    assert result.answer.text == "One a. More. Last."
    assert cited(result.answer) == [(1, "a", "One a."), (1, "a", "More."), (2, "p", "Last.")]
    node = tried(result)["0.1.1"]
    assert (node.action, node.passage.passage) == ("continue", ARNO)


def test_going_on_is_not_scored():
    result, _, _ = run(long(), native(continued("[Relevant]More.[Utility:5]")), (ARNO,))
    alone = slow_score(said(ONE_A), whole=False)
    assert result.trace.decisions[-1].numbers == pytest.approx({"0.1.1": alone + 0.5}, abs=1e-6)


def test_going_on_needs_a_passage():
    """Before the first search there is nothing to go on with: the share of the other two decides."""
    nothing = said(KEEP_USING, {KEEP_USING: 0.9, NO_SEARCH: 0.05, SEARCH: 0.001})
    replies = {"### Response:\n": nothing, NO_SEARCH: "A river.[Utility:5]"}
    _, prompts, queries = run(long(), native(replies))
    assert (prompts, queries) == ([BARE, BARE + NO_SEARCH], [])


def test_without_retrieval_the_whole_answer_is_returned():
    replies = {
        NO_SEARCH: "One.[No Retrieval]",
        "One.[No Retrieval]": "Two.",
        "Two.": "[Utility:4]",
    }
    result, prompts, queries = run(long(mode="never"), native(replies))
    assert (prompts[:2], queries) == ([BARE + NO_SEARCH, f"{BARE}[No Retrieval]One.[No Retrieval]"], [])
    assert (result.answer.text, result.answer.citations) == ("One. Two.", ())


def test_a_decision_against_a_search_is_made_again_for_each_segment():
    replies = {
        "### Response:\n": said(NO_SEARCH, {NO_SEARCH: 0.9, SEARCH: 0.1}),
        BARE + NO_SEARCH: said("One.[Retrieval]", {SEARCH: 0.5, NO_SEARCH: 0.1}),
        IN_ARNO: said("[Relevant]Two.[Fully supported][No Retrieval]", {NO_SEARCH: 0.8, SEARCH: 0.1}),
        "Two.[Fully supported][No Retrieval]": "Three.[Utility:5]",
    }
    result, prompts, queries = run(long(), native(replies), (ARNO,))
    assert prompts == [
        BARE,
        BARE + NO_SEARCH,
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


def test_one_search_for_all_segments():
    result, _, queries = run(long(mode="always", retrieval="static", w_use=0), native(REPLIES))
    assert queries == [ASKS]
    assert [each.outcome for each in result.trace.decisions[:-1]] == ["search", "reuse", "reuse"]
    assert result.answer.text == "One a. Two aa."


def test_one_search_where_two_paths_would_make_the_first_side_by_side():
    replies = {
        "### Response:\n": said(NO_SEARCH, {NO_SEARCH: 1.0}),
        BARE + NO_SEARCH: "One.[Retrieval]",
        f"One.{found(ARNO)}": "[Relevant]Two.[No Retrieval]",
        f"One.{found(PO)}": "[Irrelevant]Deux.[No Retrieval]",
        "]Two.[No Retrieval]": "Three.[Retrieval]",
        "]Deux.[No Retrieval]": "Trois.[Retrieval]",
        IN_ARNO: "[Relevant]Last.[Utility:5]",
        IN_PO: "[Relevant]Ultime.[Utility:5]",
    }
    _, _, queries = run(long(retrieval="static"), native(replies))
    assert queries == [ASKS]


def test_earlier_passages_stay_where_they_may():
    replies = REPLIES | {IN_ARNO: FIRST_A, found(ARNO) + ONE_A + found(PO): "[Relevant]Two.[Utility:5]"}
    found_for = {ASKS: [ARNO], f"{ASKS} One a.": [PO]}
    _, prompts, _ = run(long(evidence="keep_all"), native(replies), found_for)
    assert prompts[-1] == BARE + found(ARNO) + ONE_A + found(PO)
    _, prompts, _ = run(long(), native(replies), found_for)
    assert prompts[-1] == f"{BARE}[Retrieval]{ONE_A}{found(PO)}"


def test_a_full_window_drops_the_oldest_passage():
    first, second, third = (f"[Relevant]{word}.[Fully supported]" for word in ("One", "Two", "Three"))
    replies = {
        IN_ARNO: first + SEARCH,
        IN_PO: second + SEARCH,
        f"{found(TIBER)}": third + "[Utility:5]",
    }
    found_for = {ASKS: [ARNO], f"{ASKS} One.": [PO], f"{ASKS} Two.": [TIBER]}
    method, kept = long(mode="always", evidence="keep_all", max_tokens=4), BARE + found(ARNO) + first
    roomy = native(replies)
    result, prompts, _ = run(method, roomy, found_for)
    whole = kept + found(PO) + second + found(TIBER)
    assert prompts[-1] == whole
    assert "drop" not in [each.outcome for each in result.trace.decisions]
    small = native(replies, context_tokens=len(roomy.token_ids(whole)) + 3)
    result, prompts, _ = run(method, small, found_for)
    assert prompts[-1] == f"{BARE}[Retrieval]{first}{found(PO)}{second}{found(TIBER)}"
    dropped = [each for each in result.trace.decisions if each.outcome == "drop"]
    assert [each.why for each in dropped] == ["the window has no room for the oldest passage"]
    assert result.answer.text == "One. Two. Three."
    assert [each[:2] for each in cited(result.answer)] == [(1, "a"), (2, "p"), (3, "t")]


def test_the_passage_in_use_is_not_dropped_for_itself():
    passage = Passage("l", "Long", "word " * 50)
    replies = {"### Response:\n": DECIDE, "</paragraph>": ONE_A + KEEP_USING, KEEP_USING: "More.[Utility:5]"}
    model = native(replies, context_tokens=60)
    result, prompts, _ = run(long(evidence="keep_all", max_tokens=6), model, (passage,))
    assert "drop" not in [each.outcome for each in result.trace.decisions]
    assert prompts[-1].count("<paragraph>") == 1
    assert [each.outcome for each in result.trace.decisions].count("cut") == 2


def test_a_segment_that_the_length_cuts_ends_with_its_last_whole_sentence():
    replies = {
        IN_ARNO: "[Relevant]One is. Two is.[Fully supported] Three is broken off.",
        "Two is.[Fully supported]": said(SEARCH, {SEARCH: 0.4, NO_SEARCH: 0.3}),
        f"Two is.[Fully supported]{found(PO)}": "[Relevant]Three is.[Fully supported][Utility:5]",
        "### Response:\n": DECIDE,
    }
    found_for = {ASKS: [ARNO], f"{ASKS} One is. Two is.": [PO]}
    result, prompts, queries = run(long(max_tokens=8), native(replies), found_for)
    kept = "[Relevant]One is. Two is.[Fully supported]"
    assert prompts == [
        BARE,
        BARE + found(ARNO),
        BARE + found(ARNO) + kept,
        f"{BARE}[Retrieval]{kept}{found(PO)}",
    ]
    assert queries == list(found_for)
    assert result.answer.text == "One is. Two is. Three is."
    node = tried(result)["0.1"]
    assert node.text == "One is. Two is."
    assert node.distributions["retrieve"] == pytest.approx({SEARCH: 0.4, NO_SEARCH: 0.3, KEEP_USING: 0})
    assert node.numbers["support"] == 1, "what was judged of the last whole sentence stays"
    assert node.numbers["sequence"] == pytest.approx(0.99), "what was cut off does not count"


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
    replies = {"### Response:\n": DECIDE, IN_ARNO: said(written, ends=False), kept: NO_SEARCH, NO_SEARCH: ""}
    num_tokens = len(model.token_ids(written))
    _, prompts, _ = run(long(max_tokens=num_tokens), native(replies), (ARNO,))
    assert prompts[2] == BARE + found(ARNO) + kept


def test_a_segment_that_is_complete_when_the_length_is_reached_needs_no_reading():
    """Its retrieve token is the last that there is room for."""
    replies = {
        "### Response:\n": DECIDE,
        IN_ARNO: "[Relevant]One.[No Retrieval]",
        NO_SEARCH: "Two.[Utility:5]",
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
    empty = {"### Response:\n": DECIDE, IN_ARNO: SEARCH, IN_PO: " ", NO_SEARCH: "A river.[Utility:3]"}
    result, prompts, _ = run(long(), native(empty))
    assert prompts[-1] == BARE + NO_SEARCH
    assert result.answer.text == "A river."
    assert tried(result)["0.3"].action == "none"
    result, _, _ = run(long(), native(empty | {NO_SEARCH: "[Utility:5]"}))
    assert (result.answer.text, result.answer.citations) == ("", ())
    assert [each.rejected for each in tried(result).values()] == ["it is empty"] * 3


def test_a_path_that_can_not_go_on_ends_with_what_it_has():
    replies = {
        IN_ARNO: FIRST_A,
        ONE_A + found(ARNO): SEARCH,
        ONE_A + NO_SEARCH: "",
        found(ARNO) + ONE_A: said("[Utility:4]", grades(u4=1.0)),
    }
    result, prompts, _ = run(long(mode="always"), native(replies), (ARNO,))
    assert prompts[-2:] == [f"{BARE}[Retrieval]{ONE_A}[No Retrieval]", BARE + found(ARNO) + ONE_A]
    assert result.answer.text == "One a."


def test_a_grade_alone_ends_the_answer_with_that_grade():
    replies = {IN_ARNO: FIRST_A, ONE_A + found(ARNO): said("[Utility:4]", grades(u4=0.5, u5=0.5))}
    result, _, _ = run(long(mode="always"), native(replies), (ARNO,))
    assert result.answer.text == "One a."
    assert result.trace.decisions[-1].numbers == pytest.approx(
        {"0.1": slow_score(FIRST_A, whole=False) + 0.5 * 0.75}, abs=1e-6
    )


def test_equal_segments_with_the_same_passage_take_one_place():
    again = Passage("a", "Arno", "Arno is the name of the river of Pisa.")
    replies = {
        IN_ARNO: ONE_A + SEARCH,
        f"{again.text}</paragraph>": ONE_A + SEARCH,
        IN_PO: said(ONE_P + SEARCH, {RELEVANT: 0.5, IRRELEVANT: 0.5}),
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
    replies = {IN_ARNO: "[Relevant]More.[Retrieval]", "More.": "[Utility:5]"}
    result, _, queries = run(long(mode="always", max_segments=3), native(replies), (ARNO,))
    assert len(queries) == 3
    assert result.answer.text == "More.", "what was said before is not said again"
    assert list(tried(result)) == ["0.1", "0.1.1", "0.1.1.1"]


@pytest.mark.parametrize("passages", [(), (PO,)])
def test_no_passage_and_one(passages):
    replies = REPLIES | {NO_SEARCH: "A river.[Utility:3]", ONE_P + found(PO): "[Relevant]Two.[Utility:5]"}
    result, _, _ = run(long(), native(replies), passages)
    assert result.answer.text == ("One p. Two." if passages else "A river.")


WRONG = "[Relevant]One w.[No support / Contradictory]"


def test_a_contradictory_segment_is_rejected_while_searching():
    replies = REPLIES | {IN_ARNO: WRONG + SEARCH, ONE_P + found(PO): "[Relevant]Two.[Utility:5]"}
    result, _, queries = run(long(reject_unsupported=True), native(replies))
    assert tried(result)["0.1"].rejected == "its passage does not support it"
    assert queries == [ASKS, f"{ASKS} One p."]
    assert result.answer.text == "One p. Two."
    _, _, queries = run(
        long(), native(replies | {f"{WRONG}{found(each)}": "[Utility:1]" for each in (ARNO, PO)})
    )
    assert f"{ASKS} One w." in queries


def test_where_all_are_rejected_the_path_goes_on_without_retrieval():
    replies = {"### Response:\n": DECIDE, IN_ARNO: WRONG + SEARCH, NO_SEARCH: "A river.[Utility:3]"}
    result, prompts, _ = run(long(reject_unsupported=True), native(replies), (ARNO,))
    assert prompts == [BARE, BARE + found(ARNO), BARE + NO_SEARCH]
    assert (result.answer.text, result.answer.citations) == ("A river.", ())


def test_going_on_may_be_rejected_too():
    replies = continued("More.[No support / Contradictory][Retrieval]") | {
        ONE_A + NO_SEARCH: "Enough.[Utility:4]"
    }
    result, prompts, _ = run(long(reject_unsupported=True), native(replies), (ARNO,))
    assert prompts[2:] == [
        BARE + found(ARNO) + ONE_A + KEEP_USING,
        f"{BARE}[Retrieval]{ONE_A}[No Retrieval]",
    ]
    assert result.answer.text == "One a. Enough."
    assert list(tried(result)) == ["0.1", "0.1.1", "0.1.2"]


def test_an_answer_of_a_low_grade_is_none_whoever_gave_it():
    best = said("[Relevant]The Arno.[Utility:2]", {RELEVANT: 0.9, IRRELEVANT: 0.1})
    replies = {IN_ARNO: best, IN_PO: said(ONE_P, {RELEVANT: 0.6, IRRELEVANT: 0.4}), ONE_P: "[Utility:4]"}
    result, _, _ = run(long(mode="always", least_utility=3), native(replies))
    assert tried(result)["0.1"].rejected == "its utility is 2, less than 3"
    assert result.answer.text == "One p."
    replies |= {IN_ARNO: said(ONE_A, sureness=0.9), ONE_A: "[Utility:4]", ONE_P: "[Utility:1]"}
    result, _, _ = run(long(mode="always", least_utility=3, w_use=0), native(replies))
    assert result.trace.decisions[-1].numbers.keys() == {"0.1"}
    replies |= {ONE_A: "[Utility:1]"}
    result, _, _ = run(long(mode="always", least_utility=3, w_use=0), native(replies))
    assert result.trace.decisions[-1].numbers.keys() == {"0.1", "0.2"}, "better than no answer"


def segments(*pieces):
    """A path of (text, action, passage, labels)."""
    path = Path()
    for number, (text, action, passage, *labels) in enumerate(pieces, start=1):
        hit = (
            None if passage is None else next(iter(asyncio.run(ScriptedRetriever([passage]).search("x", 1))))
        )
        path = path.then(Segment(text, action, hit, labels=frozenset(labels)), number)
    return path


@pytest.mark.parametrize(
    ("which", "sentences"),
    [
        ("each_sentence", [(1, "a", "It is long."), (1, "a", "It is old.")]),
        ("last_sentence", [(1, "a", "It is old.")]),
    ],
)
def test_sentences_of_a_segment_cite_its_passage(which, sentences):
    text, citations = cited_text(
        segments((" It is long. It is old.", "retrieve", ARNO, RELEVANT, FULLY)), which
    )
    assert [(each.number, each.passage.id, text[each.start : each.end]) for each in citations] == sentences


def test_numbers_are_those_of_the_passages_in_order_whatever_is_left_out():
    path = segments(
        ("In short:", "lead", None),
        (" One.", "retrieve", PO, RELEVANT),
        (" Two.", "retrieve", TIBER, IRRELEVANT),
        (" One.", "retrieve", TIBER, RELEVANT),
        (" Three.", "none", None),
        (" Four.", "retrieve", ARNO, RELEVANT),
        (" Five.", "continue", ARNO),
        (" Six.", "retrieve", TIBER, RELEVANT, "[No support / Contradictory]"),
        (" Seven.", "retrieve", PO, RELEVANT, "[Partially supported]"),
    )
    text, citations = cited_text(path, "each_sentence")
    assert text == "In short: One. Two. Three. Four. Five. Six. Seven."
    shown = [(each.number, each.passage.id, text[each.start : each.end]) for each in citations]
    assert shown == [(1, "p", "One."), (2, "a", "Four."), (2, "a", "Five."), (1, "p", "Seven.")]


class SlowModel(ScriptedModel):
    """Waits before it answers some prompts, and counts who waits and who went away."""

    def __init__(self, replies, slow, **settings):
        super().__init__(by_ending(replies), **settings)
        self.slow, self.num_waiting, self.num_left = slow, 0, 0

    async def generate(self, prompt, *args, **kwargs):
        if self.slow in self.decode(self.prompt_ids(prompt)):
            self.num_waiting += 1
            try:
                await asyncio.sleep(60)
            finally:
                self.num_left += 1
        return await super().generate(prompt, *args, **kwargs)


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
        async def generate(self, prompt, *args, **kwargs):
            await asyncio.sleep(len(self.decode(self.prompt_ids(prompt))) % 7 / 1000)
            return await super().generate(prompt, *args, **kwargs)

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
    assert tried(result)["0.1"].numbers["utility"] == pytest.approx(0.4 + 0.15 - 0.025 - 0.05)
