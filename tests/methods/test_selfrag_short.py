"""Self-RAG's short form on models with reflection tokens: its prompts, decisions, scores and votes."""

import pytest

from askance.configuration.methods import make_method
from askance.core.errors import ParameterError
from askance.core.types import Demo, Question
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.prompts import OWN_INSTRUCTIONS, Instructions
from askance.methods.selfrag.tokens import (
    CONTINUE,
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    PARTIALLY_SUPPORTED,
    RELEVANT,
    RETRIEVAL,
)
from tests.laboratory import usable
from tests.methods.reflecting import (
    ARNO,
    BARE,
    IN_ARNO,
    IN_PO,
    IN_TIBER,
    PO,
    QUESTION,
    TIBER,
    cited,
    found,
    native,
    relevant,
    run,
    said,
    slow_score,
    supported,
    tried,
)
from tests.tolerances import near

WANTS = said(RETRIEVAL, {RETRIEVAL: 0.7, NO_RETRIEVAL: 0.2, CONTINUE: 0.05})
GOOD = said(
    "[Relevant]The Arno.[Fully supported][Utility:5]",
    {RELEVANT: 0.9, IRRELEVANT: 0.05},
    supported(0.8, 0.1, 0.05),
    {"[Utility:5]": 0.6, "[Utility:4]": 0.2, "[Utility:1]": 0.1},
)
POOR = said(
    "[Irrelevant]The Po.[Utility:2]",
    {IRRELEVANT: 0.6, RELEVANT: 0.3},
    {"[Utility:2]": 0.5, "[Utility:3]": 0.3},
    sureness=0.8,
)
REPLIES = {"### Response:\n": WANTS, IN_ARNO: GOOD, IN_PO: POOR, NO_RETRIEVAL: "A river.[Utility:3]"}
RELEVANCE_ALONE = {"mode": "always", "w_rel": 2.0, "w_sup": 0, "w_use": 0, "use_seqscore": False}
"""A candidate's score is twice its share of [Relevant]."""


def choice(*options):
    return Question("q", QUESTION.text, "choice", options)


def test_an_answer_for_each_passage_and_the_best_is_taken():
    result, prompts, queries = run(Selfrag(), native(REPLIES))
    assert prompts == [BARE, BARE + found(ARNO), BARE + found(PO)]
    assert queries == [QUESTION.text]
    assert (result.answer.text, result.answer.short) == ("The Arno.", "The Arno.")
    assert cited(result.answer) == [(1, "a", "The Arno.")]
    decision = result.trace.decisions[0]
    assert (decision.outcome, decision.signal, decision.threshold) == ("search", "share of [Retrieval]", 0.2)
    assert decision.numbers == near({RETRIEVAL: 0.7, NO_RETRIEVAL: 0.2, CONTINUE: 0.05, "share": 0.7 / 0.9})


@pytest.mark.parametrize(
    ("parameters", "slow"),
    [
        ({}, {}),
        ({"use_seqscore": False}, {"use": 0}),
        ({"w_rel": 0.3, "w_sup": 2.0, "w_use": 1.0}, {"rel": 0.3, "sup": 2.0, "util": 1.0}),
        ({"w_sup": 0}, {"sup": 0}),
    ],
)
def test_scores_are_those_of_a_slow_sum(parameters, slow):
    result, _, _ = run(Selfrag(**parameters), native(REPLIES))
    nodes = tried(result)
    assert nodes["0.1"].numbers["score"] == near(slow_score(GOOD, **slow))
    assert nodes["0.2"].numbers["score"] == near(slow_score(POOR, **slow))


def test_the_trace_shows_each_candidate():
    result, _, _ = run(Selfrag(), native(REPLIES))
    good, poor = tried(result).values()
    assert (good.action, good.text, good.passage.passage, good.rejected) == (
        "retrieve",
        "The Arno.",
        ARNO,
        "",
    )
    assert good.distributions["relevance"] == near({RELEVANT: 0.9, IRRELEVANT: 0.05})
    assert good.distributions["support"] == near(supported(0.8, 0.1, 0.05))
    assert good.numbers["utility"] == near((0.6 + 0.1 - 0.1) / 0.9)
    assert poor.passage.passage == PO
    assert poor.distributions.keys() == {"relevance", "utility"}, "an irrelevant passage supports nothing"
    assert (poor.numbers["relevance"], poor.numbers["support"]) == (near(1 / 3), 0)


def test_always_asks_no_one():
    result, prompts, _ = run(Selfrag(mode="always"), native(REPLIES))
    assert prompts == [BARE + found(ARNO), BARE + found(PO)]
    assert result.trace.decisions[0].why == "mode=always"
    assert result.answer.text == "The Arno."


def test_never_writes_the_whole_answer_without_retrieval():
    result, prompts, queries = run(Selfrag(mode="never"), native(REPLIES))
    assert (prompts, queries) == ([BARE + NO_RETRIEVAL], [])
    assert (result.answer.text, result.answer.short, result.answer.citations) == ("A river.", "A river.", ())
    assert tried(result)["0.1"].action == "none"


def test_a_decision_against_a_search_gives_the_whole_answer():
    replies = REPLIES | {"### Response:\n": said(NO_RETRIEVAL, {NO_RETRIEVAL: 0.9, RETRIEVAL: 0.1})}
    result, prompts, queries = run(Selfrag(), native(replies))
    assert (prompts, queries) == ([BARE, BARE + NO_RETRIEVAL], [])
    assert result.answer.text == "A river."
    assert result.trace.decisions[0].outcome == "keep"
    assert result.trace.decisions[0].why == "the share of [Retrieval] is 0.10, not above 0.2"


@pytest.mark.parametrize(
    ("threshold", "probs", "searches"),
    [
        (0.2, {NO_RETRIEVAL: 0.6, RETRIEVAL: 0.3}, 1),
        (0.4, {NO_RETRIEVAL: 0.6, RETRIEVAL: 0.3}, 0),
        (0.0, {NO_RETRIEVAL: 0.9, RETRIEVAL: 0.0}, 0),
        (0.0, {NO_RETRIEVAL: 0.9, RETRIEVAL: 0.01}, 1),
        (0.2, {CONTINUE: 0.9, RETRIEVAL: 0.01, NO_RETRIEVAL: 0.01}, 1),
        (None, {NO_RETRIEVAL: 0.6, RETRIEVAL: 0.3}, 0),
        (None, {RETRIEVAL: 0.4, NO_RETRIEVAL: 0.3}, 1),
        (None, {CONTINUE: 0.5, RETRIEVAL: 0.4}, 0),
    ],
)
def test_the_threshold(threshold, probs, searches):
    replies = REPLIES | {"### Response:\n": said(next(iter(probs)), probs)}
    _, _, queries = run(Selfrag(threshold=threshold), native(replies))
    assert len(queries) == searches


@pytest.mark.parametrize(("threshold", "searches"), [(0.2, 1), (0.8, 0), (None, 0)])
def test_a_text_that_begins_without_a_token_is_decided_where_it_begins(threshold, searches):
    """Nothing is searched without a threshold: the most likely token is none of the three."""
    replies = REPLIES | {
        "### Response:\n": said("The Arno.", {"The": 0.4, RETRIEVAL: 0.3, NO_RETRIEVAL: 0.1})
    }
    _, prompts, queries = run(Selfrag(threshold=threshold), native(replies))
    assert len(queries) == searches
    assert prompts[-1] == BARE + (found(PO) if searches else NO_RETRIEVAL)


def test_open_questions_take_the_greatest_score_not_the_greatest_sum():
    replies = {
        IN_ARNO: relevant(0.45, "The Po."),
        IN_PO: relevant(0.6, "The Arno."),
        IN_TIBER: relevant(0.3, "The Po."),
    }
    result, _, _ = run(Selfrag(**RELEVANCE_ALONE), native(replies), (ARNO, PO, TIBER))
    assert result.answer.text == "The Arno."
    assert [round(each.numbers["score"], 6) for each in tried(result).values()] == [0.9, 1.2, 0.6]


def test_ties_go_to_the_better_passage():
    replies = {
        IN_ARNO: relevant(0.6, "One."),
        IN_PO: relevant(0.75, "Two."),
        IN_TIBER: relevant(0.75, "Three."),
    }
    result, _, _ = run(Selfrag(**RELEVANCE_ALONE), native(replies), (ARNO, PO, TIBER))
    assert result.answer.text == "Two."


def vote(options, *answers, **parameters):
    """Return the chosen option, given (share of relevance, text) for each passage."""
    endings = (IN_ARNO, IN_PO, IN_TIBER)
    replies = {ending: relevant(*answer) for ending, answer in zip(endings, answers, strict=False)}
    passages = (ARNO, PO, TIBER)[: len(answers)]
    question = options if isinstance(options, Question) else choice(*options)
    result, _, _ = run(Selfrag(**RELEVANCE_ALONE | parameters), native(replies), passages, question)
    return result.answer.short


def test_options_win_by_the_sum_of_their_scores():
    answers = (0.45, "true"), (0.6, "false"), (0.3, "true")
    assert vote(("true", "false"), *answers) == "true"


@pytest.mark.parametrize(
    ("options", "answers", "won"),
    [
        (("Rome", "Pisa"), [(0.5, "Rome"), (0.25, "Pisa"), (0.25, "Pisa")], "Pisa"),
        (("Rome", "Pisa"), [(0.5, "Pisa"), (0.5, "Rome")], "Rome"),
        (("Rome", "Pisa"), [(0.9, "Turin"), (0.9, "Turin"), (0.25, "Pisa")], "Pisa"),
        (("Rome", "Pisa"), [(0.9, "Turin"), (0.5, "Milan")], ""),
    ],
)
def test_ties_and_answers_that_name_no_option(options, answers, won):
    """Ties go to more passages, then to the order of the options. Other texts win only if no option was
    named.
    """
    assert vote(options, *answers) == won


def test_without_any_option_the_text_of_the_best_group_is_the_answer():
    replies = {
        IN_ARNO: relevant(0.5, "Turin."),
        IN_PO: relevant(0.6, "Milan."),
        IN_TIBER: relevant(0.5, "turin"),
    }
    question = choice("Rome", "Pisa")
    result, _, _ = run(Selfrag(**RELEVANCE_ALONE), native(replies), (ARNO, PO, TIBER), question)
    assert (result.answer.text, result.answer.short) == ("Turin.", "")


@pytest.mark.parametrize(
    "text", ["B", "(B)", "B.", "B: Pisa", "Pisa", "the city of Pisa", "The answer is B."]
)
def test_an_option_is_named_by_letter_or_text(text):
    assert vote(("Rome", "Pisa"), (0.9, text)) == "Pisa"


@pytest.mark.parametrize("text", ["A dog", "Best", "E", "Be.", "XB"])
def test_a_letter_must_stand_alone(text):
    assert vote(("Rome", "Pisa"), (0.9, text)) == ""


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("SUPPORTS", "True"), ("REFUTES.", "False"), ("true", "True"), ("False: it is not", "False")],
)
def test_verdicts(text, verdict):
    assert vote(("True", "False"), (0.9, text)) == verdict


@pytest.mark.parametrize(("text", "polarity"), [("true", "yes"), ("No: it is not", "no"), ("perhaps", "")])
def test_yes_and_no(text, polarity):
    assert vote(Question("q", "Is it so?", "yes_no"), (0.9, text)) == polarity


def test_the_instruction_of_a_choice_shows_letters_and_that_of_a_claim_names_its_words():
    result, prompts, _ = run(
        Selfrag(mode="never"), native({NO_RETRIEVAL: "B"}), question=choice("Rome", "Pisa")
    )
    assert prompts[0] == (
        "### Instruction:\nWhich of the options answers the question best? Answer with its letter alone."
        "## Input:\n\nWhich river flows through Pisa?\nA: Rome\nB: Pisa\n\n### Response:\n[No Retrieval]"
    )
    assert (result.answer.text, result.answer.short) == ("B", "Pisa")
    _, prompts, _ = run(
        Selfrag(mode="never"),
        native({NO_RETRIEVAL: "true"}),
        question=choice("true", "false"),
    )
    assert prompts[0] == (
        "### Instruction:\nDecide whether the statement below is correct. Answer with one word, true or "
        "false.## Input:\n\nWhich river flows through Pisa?\n\n### Response:\n[No Retrieval]"
    )


@pytest.mark.parametrize("reading", usable("selfrag", "selfrag_authors"))
def test_a_question_of_a_data_set_with_a_task_of_its_own_is_recognised(reading):
    asqa = Question("q", "Who wrote Tosca?", genre="ambiguous")
    life = Question("q", "Tell me of Elly Ney.", genre="biography")
    for question, instruction in ((asqa, OWN_INSTRUCTIONS.ambiguous), (life, "")):
        method = make_method(reading, {"form": "long", "mode": "never"})
        _, prompts, _ = run(method, native({NO_RETRIEVAL: "Puccini.[Utility:5]"}), question=question)
        separator = "## Input:\n\n" if instruction else ""
        assert prompts[0].startswith(f"### Instruction:\n{instruction}{separator}{question.text}\n\n###")
    _, prompts, _ = run(
        Selfrag(mode="never", task="question"), native({NO_RETRIEVAL: "Puccini."}), question=asqa
    )
    assert prompts[0].startswith("### Instruction:\nWho wrote Tosca?\n")


def test_instructions_are_replaced():
    method = Selfrag(mode="never", instructions=Instructions(claim="Is it so?", question="Be brief."))
    for question, begins in (
        (choice("true", "false"), "Is it so?## Input:\n\nWhich"),
        (Question("q", "Why?"), "Be brief.## Input:\n\nWhy?"),
        (choice("Rome", "Pisa"), OWN_INSTRUCTIONS.choice),
    ):
        _, prompts, _ = run(method, native({NO_RETRIEVAL: "true"}), question=question)
        assert prompts[0].startswith(f"### Instruction:\n{begins}")
    assert f"instructions={method.instructions!r}" in repr(method)
    assert str(OWN_INSTRUCTIONS) == "own"
    assert repr(Instructions(claim="Is it so?")) != repr(OWN_INSTRUCTIONS)


def test_earlier_turns_stand_before_the_question():
    question = Question("q", "And Turin?", history=(Demo("Which river flows through Pisa?", "The Arno."),))
    _, prompts, _ = run(Selfrag(mode="never"), native({NO_RETRIEVAL: "The Po."}), question=question)
    assert prompts[0].endswith(
        "## Input:\n\nUser: Which river flows through Pisa?\nAssistant: The Arno.\nUser: And Turin?"
        "\n\n### Response:\n[No Retrieval]"
    )


CONTRADICTS = relevant(0.99, "The Po.[No support / Contradictory][Utility:5]", supported(0.1, 0.2, 0.7))


def test_the_hard_constraint():
    good = said("[Relevant]The Arno.[Partially supported][Utility:4]", sureness=0.5)
    replies = {IN_ARNO: good, IN_PO: CONTRADICTS, NO_RETRIEVAL: "A river."}
    words_alone = {"mode": "always", "w_rel": 0, "w_sup": 0, "w_use": 0}
    assert run(Selfrag(**words_alone), native(replies))[0].answer.text == "The Po."
    result, _, _ = run(Selfrag(**words_alone, reject_unsupported=True), native(replies))
    assert result.answer.text == "The Arno."
    assert [each.rejected for each in tried(result).values()] == [
        "",
        "its passage does not support it",
    ]
    result, prompts, _ = run(Selfrag(**words_alone, reject_unsupported=True), native(replies), (PO,))
    assert (result.answer.text, result.answer.citations) == ("A river.", ())
    assert prompts[-1] == BARE + NO_RETRIEVAL
    assert result.trace.decisions[-1].why == "every answer with a passage was rejected"


def test_a_soft_constraint_rejects_nothing():
    replies = {IN_ARNO: relevant(0.6, "The Arno."), IN_PO: CONTRADICTS}
    result, _, _ = run(Selfrag(mode="always", w_sup=0), native(replies))
    assert result.answer.text == "The Po."
    assert result.answer.citations == (), "what its passage contradicts is not cited"


@pytest.mark.parametrize("passages", [(), (ARNO,)])
def test_no_passage_and_one(passages):
    result, prompts, queries = run(Selfrag(mode="always"), native(REPLIES), passages)
    assert queries == [QUESTION.text]
    assert result.answer.text == ("The Arno." if passages else "A river.")
    assert prompts == [BARE + (found(ARNO) if passages else NO_RETRIEVAL)]


@pytest.mark.parametrize("empty", ["", " \n", "[Relevant]", "[Relevant][Fully supported][Utility:5]"])
def test_empty_answers_are_passed_over(empty):
    result, _, _ = run(Selfrag(), native(REPLIES | {IN_ARNO: empty}))
    assert result.answer.text == "The Po."
    assert [each.rejected for each in tried(result).values()] == ["it is empty", ""]
    result, _, _ = run(Selfrag(), native(REPLIES | {IN_ARNO: empty, IN_PO: empty}))
    assert result.answer.text == "A river."
    result, _, _ = run(Selfrag(), native(REPLIES | {IN_ARNO: empty, IN_PO: empty, NO_RETRIEVAL: empty}))
    assert (result.answer.text, result.answer.short, result.answer.citations) == ("", "", ())


def test_control_tokens_line_breaks_and_a_first_mark_go():
    reply = "[Relevant]: The\nArno,[Continue to Use Evidence] too.[Fully supported]</paragraph>[Utility:5]"
    result, _, _ = run(Selfrag(mode="always"), native({IN_ARNO: reply}), (ARNO,))
    assert result.answer.text == "The Arno, too."
    assert result.answer.short == "The Arno, too."


def test_a_candidate_without_judgement_scores_its_words_alone():
    result, _, _ = run(Selfrag(mode="always"), native({IN_ARNO: "The Arno."}), (ARNO,))
    numbers = tried(result)["0.1"].numbers
    assert (numbers["relevance"], numbers["support"], numbers["utility"]) == (0, 0, 0)
    assert numbers["score"] == numbers["sequence"] == near(0.99)


def test_support_and_utility_are_those_that_come_first():
    reply = said(
        "[Relevant]One.[Partially supported]Two.[Fully supported][Utility:4]Three.[Utility:1]",
        {FULLY_SUPPORTED: 1.0},
        {PARTIALLY_SUPPORTED: 1.0},
    )
    result, _, _ = run(Selfrag(mode="always"), native({IN_ARNO: reply}), (ARNO,))
    numbers = tried(result)["0.1"].numbers
    assert (numbers["support"], numbers["utility"]) == (0.5, 0.5)
    assert NO_SUPPORT in tried(result)["0.1"].distributions["support"]


def test_parameters_are_checked():
    with pytest.raises(ParameterError, match=r"beam_width=0"):
        Selfrag(beam_width=0)
    with pytest.raises(ParameterError, match=r"threshold=1\.5"):
        Selfrag(threshold=1.5)
