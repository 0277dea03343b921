"""Self-RAG with models without reflection tokens: which model is asked which question, about which text."""

import math

import pytest

from askance.core.types import Passage, Question
from askance.methods.common.prompts import PromptTemplate
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.tokens import (
    CONTINUE,
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    PARTIALLY_SUPPORTED,
    RELEVANT,
    RETRIEVAL,
    UTILITIES,
)
from askance.models.scripted import Reply, ScriptedModel
from tests.methods.reflecting import (
    ARNO,
    BARE,
    IN_ARNO,
    IN_PO,
    PO,
    QUESTION,
    Judged,
    ScriptedScorer,
    by_ending,
    cited,
    found,
    native,
    relevant,
    run,
    said,
    tried,
)
from tests.tolerances import near

ASKS = QUESTION.text
PLAIN = PromptTemplate(demos=(), system="")
CASE = f"Question: {ASKS}\nAnswer:"
WITH_ARNO = f"Context:\n[1] Arno: {ARNO.text}\n\n{CASE}"
WITH_PO = f"Context:\n[1] Po: {PO.text}\n\n{CASE}"
ANSWERS = {
    CASE: " Some river. So the answer is some river.",
    WITH_ARNO: " The Arno flows there. So the answer is the Arno.",
    WITH_PO: " The Po flows there. So the answer is the Po.",
    " Some river.": " So the answer is some river.",
    " The Arno flows there.": " So the answer is the Arno.",
    " The Po flows there.": " So the answer is the Po.",
}
LIKES_ARNO = ScriptedScorer(
    retrieves=lambda so_far: {RETRIEVAL: 0.6, NO_RETRIEVAL: 0.4},
    relevances=lambda passage: {RELEVANT: 0.9 if "Arno" in passage else 0.05, IRRELEVANT: 0.1},
    supports=lambda sentence, passage: {FULLY_SUPPORTED: float("Arno" in sentence), NO_SUPPORT: 0.5},
    utilities=lambda answer: {"[Utility:4]": 1.0},
)


def plain(replies=ANSWERS, **settings):
    return ScriptedModel(by_ending(replies) if isinstance(replies, dict) else replies, **settings)


def selfrag(**parameters):
    return Selfrag(**{"prompts": PLAIN, **parameters})


def test_the_short_form_in_words():
    result, prompts, queries = run(Judged(selfrag(), LIKES_ARNO), plain())
    assert prompts == [WITH_ARNO, WITH_PO]
    assert queries == [ASKS]
    assert result.answer.text == "The Arno flows there. So the answer is the Arno."
    assert result.answer.short == "the Arno"
    assert [each[:2] for each in cited(result.answer)] == [(1, "a"), (1, "a")]
    numbers = tried(result)["0.1"].numbers
    assert numbers == near(
        {
            "score": 0.99 + 0.9 + 1 / 1.5 + 0.25,
            "sequence": 0.99,
            "relevance": 0.9,
            "support": 1 / 1.5,
            "utility": 0.5,
        }
    )


@pytest.mark.parametrize(
    ("parameters", "prompts", "num_searches"),
    [
        ({"mode": "always"}, [WITH_ARNO, WITH_PO], 1),
        ({"mode": "never"}, [CASE], 0),
        ({"threshold": 0.6}, [CASE], 0),
        ({"threshold": None}, [WITH_ARNO, WITH_PO], 1),
    ],
)
def test_modes(parameters, prompts, num_searches):
    result, shown, queries = run(Judged(selfrag(**parameters), LIKES_ARNO), plain())
    assert (shown, len(queries)) == (prompts, num_searches)
    assert result.answer.short == ("some river" if prompts == [CASE] else "the Arno")


@pytest.mark.parametrize("form", ["short", "long"])
@pytest.mark.parametrize("passages", [(), (ARNO,)])
def test_no_passage_and_one(form, passages):
    result, _, _ = run(Judged(selfrag(form=form, mode="always"), LIKES_ARNO), plain(), passages)
    assert result.answer.short == ("the Arno" if passages else "some river")


@pytest.mark.parametrize("form", ["short", "long"])
def test_a_scorer_that_can_tell_nothing(form):
    """All zeros start no search; after a forced search all passages score the same."""
    zeros = ScriptedScorer(
        lambda so_far: {RETRIEVAL: 0.0, NO_RETRIEVAL: 0.0, CONTINUE: 0.0},
        lambda passage: {RELEVANT: 0.0, IRRELEVANT: 0.0},
        lambda sentence, passage: {FULLY_SUPPORTED: 0.0, PARTIALLY_SUPPORTED: 0.0, NO_SUPPORT: 0.0},
        lambda answer: dict.fromkeys(UTILITIES, 0.0),
    )
    result, _, queries = run(Judged(selfrag(form=form), zeros), plain())
    assert (result.answer.short, queries) == ("some river", [])
    hard = selfrag(form=form, mode="always", reject_unsupported=True)
    result, _, _ = run(Judged(hard, zeros), plain())
    assert result.answer.short == "the Arno", "the first, and what was not judged is not rejected"


def test_the_long_form_writes_sentence_by_sentence():
    replies = {
        WITH_ARNO: " The Arno is a river. It flows",
        WITH_PO: " The Po is one. It",
        f"{WITH_ARNO} The Arno is a river.": " So the answer is the Arno. And",
        f"{WITH_PO} The Arno is a river.": " So the answer is the Po. And",
        f"{CASE} The Arno is a river.": " So the answer is a river.",
    }
    asked = []

    def retrieves(so_far):
        asked.append(so_far)
        return {RETRIEVAL: 0.9, NO_RETRIEVAL: 0.1}

    scorer = ScriptedScorer(retrieves, LIKES_ARNO.relevances, LIKES_ARNO.supports, LIKES_ARNO.utilities)
    method = Judged(selfrag(form="long", beam_width=1), scorer)
    result, prompts, queries = run(method, plain(replies))
    assert prompts == [WITH_ARNO, WITH_PO, *(f"{each} The Arno is a river." for each in (WITH_ARNO, WITH_PO))]
    assert queries == [ASKS, f"{ASKS} The Arno is a river."]
    assert asked == ["", "The Arno is a river."], "not behind what is not gone on with"
    assert result.answer.text == "The Arno is a river. So the answer is the Arno."
    assert result.answer.short == "the Arno"


def test_going_on_keeps_the_passage_in_the_prompt():
    replies = {
        WITH_ARNO: " The Arno is a river. It flows",
        f"{WITH_ARNO} The Arno is a river.": " So the answer is the Arno.",
    }
    scorer = ScriptedScorer(lambda so_far: {CONTINUE: 0.5, RETRIEVAL: 0.4} if so_far else {RETRIEVAL: 1.0})
    result, prompts, queries = run(Judged(selfrag(form="long"), scorer), plain(replies), (ARNO,))
    assert prompts == [WITH_ARNO, f"{WITH_ARNO} The Arno is a river."]
    assert queries == [ASKS]
    assert [each.action for each in tried(result).values()] == ["retrieve", "continue"]
    assert [each[:2] for each in cited(result.answer)] == [(1, "a"), (1, "a")]


def test_without_retrieval_no_passage_is_in_the_prompt():
    replies = {
        WITH_ARNO: " The Arno is a river. It flows",
        f"{CASE} The Arno is a river.": " So the answer is a river.",
    }
    scorer = ScriptedScorer(lambda so_far: {NO_RETRIEVAL: 1.0} if so_far else {RETRIEVAL: 1.0})
    result, prompts, _ = run(Judged(selfrag(form="long"), scorer), plain(replies), (ARNO,))
    assert prompts == [WITH_ARNO, f"{CASE} The Arno is a river."]
    assert [each[:2] for each in cited(result.answer)] == [(1, "a")]


def test_an_answer_that_is_not_stated_is_asked_for_behind_the_text_as_it_was_written():
    replies = {
        CASE: " Some river.",
        WITH_ARNO: " The Arno\n flows there.",
        f"{WITH_ARNO} The Arno\n flows there. So the answer is": " Arno.",
    }
    scorer = ScriptedScorer()
    result, prompts, _ = run(Judged(selfrag(mode="always"), scorer), plain(replies), (ARNO,))
    assert prompts[-1] == f"{WITH_ARNO} The Arno\n flows there. So the answer is"
    assert result.answer.text == "The Arno flows there. So the answer is Arno."
    assert result.answer.short == "Arno"
    result, prompts, _ = run(
        Judged(selfrag(mode="always", ask_short_answer=False), scorer), plain(replies), (ARNO,)
    )
    assert (len(prompts), result.answer.short) == (1, "")


def test_options():
    question = Question("q", ASKS, "choice", ("the Po", "the Arno"))
    block = "\nOptions: the Po; the Arno\nAnswer:"
    replies = {f"{ARNO.text}\n\nQuestion: {ASKS}{block}": " It is the Arno.", block: " The Po."}
    result, _, _ = run(Judged(selfrag(mode="always"), LIKES_ARNO), plain(replies), question=question)
    assert result.answer.short == "the Arno"


LABELS = {"search": -0.5, "unneeded": -1.5, "continue": -3.0, "relevant": -0.2, "irrelevant": -1.2}
LABELS |= {
    "fully": -0.1,
    "partially": -2.1,
    "not": -3.1,
    **{str(grade): -1.0 * (6 - grade) for grade in range(1, 6)},
}


def judge(**settings):
    """Return a model that gives label words these log-probabilities, and records what it was asked about."""
    asked = []

    def score(prompt, option):
        asked.append(prompt)
        return LABELS[option.strip()]

    model = ScriptedModel(scores=score, name="judge", **settings)
    model.asked = asked
    return model


def shares(*logprobs):
    weights = [math.exp(each) for each in logprobs]
    return [weight / sum(weights) for weight in weights]


def test_any_model_is_asked_in_words():
    critic = judge(capabilities=frozenset({"raw", "score"}))
    result, _, _ = run(selfrag(), {"answer": plain(), "critic": critic}, (ARNO,))
    node = tried(result)["0.1"]
    assert result.trace.decisions[0].numbers["share"] == near(shares(-0.5, -1.5)[0])
    assert list(node.distributions["relevance"].values()) == near(shares(-0.2, -1.2))
    assert list(node.distributions["support"].values()) == near(shares(-0.1, -2.1, -3.1))
    assert list(node.distributions["utility"].values()) == near(shares(-5, -4, -3, -2, -1))
    first = critic.asked[0]
    assert first.startswith(f"Question: {ASKS}\n\nDoes the next sentence of the answer need a search?")
    assert first.endswith("if it needs no facts.\n\nAnswer so far:\nJudgement:")
    supports = next(prompt for prompt in critic.asked if "back the sentence" in prompt)
    assert supports.startswith(f"Question: {ASKS}\nPassage: Arno: {ARNO.text}\n\nHow far")
    assert supports.endswith("\n\nSentence: The Arno flows there. So the answer is the Arno.\nJudgement:")


def test_what_nobody_reads_is_not_asked():
    critic = judge()
    run(selfrag(mode="always", w_rel=0, w_use=0), {"answer": plain(), "critic": critic}, (ARNO,))
    assert len(critic.asked) == 3, "the three labels of support"
    critic = judge()
    run(selfrag(mode="never", w_use=0), {"answer": plain(), "critic": critic})
    assert critic.asked == []


@pytest.mark.parametrize(
    ("written", "share"),
    [
        ("Search.", 1.0),
        (" I would say: unneeded", 0.0),
        ("no idea", 0.0),
        ("", 0.0),
        ("search or unneeded", 1.0),
    ],
)
def test_a_judge_that_can_not_score_writes_its_label(written, share):
    def reply(prompt, key):
        return written if key[2] == "decide" else "5"

    critic = ScriptedModel(reply, capabilities=frozenset({"raw", "chat"}), name="judge")
    result, _, queries = run(selfrag(), {"answer": plain(), "critic": critic}, (ARNO,))
    assert result.trace.decisions[0].numbers["share"] == share
    assert len(queries) == share


def test_likelihoods_of_nothing_are_a_distribution_of_zeros():
    critic = ScriptedModel(scores=lambda prompt, option: -math.inf, name="judge")
    result, _, queries = run(selfrag(), {"answer": plain(), "critic": critic})
    assert queries == []
    assert set(result.trace.decisions[0].numbers.values()) == {0.0}


def test_the_model_that_answers_is_its_own_judge():
    model = plain(scores=lambda prompt, option: LABELS[option.strip()])
    result, _, queries = run(selfrag(), model, (ARNO,))
    assert (result.answer.short, queries) == ("the Arno", [ASKS])


def test_a_critic_with_tokens_beside_a_writer_without():
    """The critic reads the text in its own layout, and predicts the token that follows."""
    text = "The Arno flows there. So the answer is the Arno."
    critic = native(
        {
            "### Response:\n": said(RETRIEVAL, {RETRIEVAL: 0.7, NO_RETRIEVAL: 0.1}),
            IN_ARNO: relevant(0.8, "x"),
            f"{RELEVANT}{text}": said(PARTIALLY_SUPPORTED, {PARTIALLY_SUPPORTED: 0.5, FULLY_SUPPORTED: 0.3}),
            f"{NO_RETRIEVAL}{text}": said("[Utility:5]", {"[Utility:5]": 0.4, "[Utility:1]": 0.4}),
        }
    )
    result, _, _ = run(selfrag(), {"answer": plain(), "critic": critic}, (ARNO,))
    assert sorted(critic.prompts) == sorted(
        [BARE, BARE + found(ARNO), BARE + found(ARNO) + RELEVANT + text, BARE + NO_RETRIEVAL + text]
    )
    numbers = tried(result)["0.1"].numbers
    assert (numbers["relevance"], numbers["utility"]) == (near(0.8), 0)
    assert numbers["support"] == near((0.3 + 0.25) / 0.8)


def test_the_same_critic_where_the_answer_grows():
    replies = {
        WITH_ARNO: " One is. Two",
        f"{WITH_ARNO} One is.": " Two is. So",
        CASE: " So the answer is Arno.",
    }
    critic = native(
        lambda prompt, key: said(
            CONTINUE if prompt.endswith("One is.") and "onward" in key else RETRIEVAL,
            {CONTINUE: 0.9} if prompt.endswith("One is.") and "onward" in key else {RETRIEVAL: 0.9},
        )
    )
    method = selfrag(form="long", max_segments=2, ask_short_answer=False)
    result, prompts, _ = run(method, {"answer": plain(replies), "critic": critic}, (ARNO,))
    assert prompts == [WITH_ARNO, f"{WITH_ARNO} One is."]
    assert BARE + found(ARNO) + RELEVANT + "One is." in critic.prompts
    assert BARE + "[No Retrieval]One is. Two is." in critic.prompts, "the whole, for its utility"
    assert result.answer.text == "One is. Two is."


def test_a_scorer_over_a_writer_with_tokens():
    """The model decides where segments end; the scorer decides everything else."""
    odd = "[Irrelevant]The Arno.[No support / Contradictory]"
    model = native(
        {
            IN_ARNO: odd + RETRIEVAL,
            IN_PO: "[Relevant]The Po.[Fully supported][Utility:5]",
            odd + found(ARNO): "[Irrelevant]It is.[Utility:1]",
            odd + found(PO): "[Relevant]It is not.[Utility:5]",
        }
    )
    supports = []
    scorer = ScriptedScorer(
        LIKES_ARNO.retrieves,
        LIKES_ARNO.relevances,
        lambda sentence, passage: supports.append((sentence, passage)) or {FULLY_SUPPORTED: 1.0},
        lambda answer: {"[Utility:5]": 1.0},
    )
    method = Judged(Selfrag(form="long", reject_unsupported=True), scorer, over_tokens=True)
    result, prompts, queries = run(method, model)
    assert prompts[0] == BARE + found(ARNO), "the decision is the scorer's, too"
    assert queries == [ASKS, f"{ASKS} The Arno."]
    assert result.answer.text == "The Arno. It is."
    assert tried(result)["0.1"].distributions["relevance"] == {RELEVANT: 0.9, IRRELEVANT: 0.1}
    assert ("The Arno.", ARNO.text) in supports


def test_a_critic_in_words_over_a_writer_with_tokens():
    replies = {IN_ARNO: "[Irrelevant]The Arno.[Utility:1]", "### Response:\n": "never asked"}
    critic = judge()
    result, prompts, _ = run(Selfrag(), {"answer": native(replies), "critic": critic}, (ARNO,))
    assert prompts == [BARE + found(ARNO)]
    assert tried(result)["0.1"].numbers["relevance"] == near(shares(-0.2, -1.2)[0])
    own = native(replies, scores=lambda prompt, option: LABELS[option.strip()])
    result, prompts, _ = run(Selfrag(scorer="prompted"), own, (ARNO,))
    assert prompts == [BARE + found(ARNO)]
    assert tried(result)["0.1"].numbers["relevance"] == near(shares(-0.2, -1.2)[0])


@pytest.mark.parametrize(
    "makes_critic", [judge, lambda **settings: native({"": said(RETRIEVAL, {RETRIEVAL: 0.9})}, **settings)]
)
def test_a_passage_beyond_the_judges_window_is_cut_for_it(makes_critic):
    huge = Passage("h", "Huge", "word " * 300)
    answers = {"Answer:": " So the answer is Arno."}
    critic = makes_critic(context_tokens=120)
    result, _, _ = run(selfrag(), {"answer": plain(answers), "critic": critic}, (huge,))
    assert result.answer.short == "Arno"
    cuts = [each for each in result.trace.decisions if each.outcome == "cut"]
    assert len(cuts) == 2, "for relevance and for support"
    assert cuts[0].why.startswith("the window of 120 tokens has room for ")
    assert "of 300 words" in cuts[0].why


def test_a_passage_beyond_the_writers_window_is_cut_in_each_form():
    huge = Passage("h", "Huge", "Arno " * 300)
    for form in ("short", "long"):
        model = plain({"Answer:": " So the answer is Arno."}, context_tokens=200)
        result, prompts, _ = run(Judged(selfrag(form=form), LIKES_ARNO), model, (huge,))
        (cut,) = [each for each in result.trace.decisions if each.outcome == "cut"]
        assert prompts[-1].count("Arno") == cut.numbers["words"] > 50
        assert result.answer.citations[0].passage == huge


def test_a_model_that_only_chats():
    model = ScriptedModel(
        lambda prompt, key: (
            " So the answer is Arno." if key[2] in ("passage", "none") else "relevant fully 5"
        ),
        capabilities=frozenset({"chat"}),
    )
    result, prompts, _ = run(selfrag(mode="always"), model, (ARNO,))
    assert result.answer.short == "Arno"
    assert prompts[0] == f"<|user|>Context:\n[1] Arno: {ARNO.text}\n\n{ASKS}<|end|><|assistant|>"


def test_a_sentence_that_the_length_cuts_is_gone_on_with():
    replies = {CASE: Reply(" One two three four", ends=False), f"{CASE} One two three": " four five six."}
    replies |= {f"{CASE} One two three four five six.": ""}
    method = Judged(
        selfrag(form="long", mode="never", max_tokens=3, ask_short_answer=False), ScriptedScorer()
    )
    result, _, _ = run(method, plain(replies))
    assert result.answer.text == "One two three four five six."
