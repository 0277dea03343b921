"""Self-RAG with models without reflection tokens: which model is asked which question, about which text."""

import math
from dataclasses import replace

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


RIVER = " The Arno is a river. It flows"
SENTENCES = {
    WITH_ARNO: RIVER,
    WITH_PO: " The Po is one. It",
    f"{WITH_ARNO} The Arno is a river.": " So the answer is the Arno. And",
    f"{WITH_PO} The Arno is a river.": " So the answer is the Po. And",
    f"{CASE} The Arno is a river.": " So the answer is a river.",
}
UNSTATED = {
    WITH_ARNO: " The Arno\n flows there.",
    f"{WITH_ARNO} The Arno\n flows there. So the answer is": " Arno.",
}
CUT = {
    CASE: Reply(" One two three four", ends=False),
    f"{CASE} One two three": " four five six.",
    f"{CASE} One two three four five six.": "",
}
ZEROS = ScriptedScorer(
    lambda so_far: {RETRIEVAL: 0.0, NO_RETRIEVAL: 0.0, CONTINUE: 0.0},
    lambda passage: {RELEVANT: 0.0, IRRELEVANT: 0.0},
    lambda sentence, passage: {FULLY_SUPPORTED: 0.0, PARTIALLY_SUPPORTED: 0.0, NO_SUPPORT: 0.0},
    lambda answer: dict.fromkeys(UTILITIES, 0.0),
)
CONTINUES = ScriptedScorer(lambda so_far: {CONTINUE: 0.5, RETRIEVAL: 0.4} if so_far else {RETRIEVAL: 1.0})
SEARCHES_ONCE = ScriptedScorer(lambda so_far: {NO_RETRIEVAL: 1.0} if so_far else {RETRIEVAL: 1.0})
NOTHING = ScriptedScorer()
BOTH, ONE = (ARNO, PO), (ARNO,)
LONG = {"form": "long"}
UNASKED = {"ask_short_answer": False}
ROWS = {
    # the parameters, scorer, replies and passages; the prompts, the number of searches, the short answer
    "the short form": ({}, LIKES_ARNO, ANSWERS, BOTH, [WITH_ARNO, WITH_PO], 1, "the Arno"),
    "always": ({"mode": "always"}, LIKES_ARNO, ANSWERS, BOTH, [WITH_ARNO, WITH_PO], 1, "the Arno"),
    "never": ({"mode": "never"}, LIKES_ARNO, ANSWERS, BOTH, [CASE], 0, "some river"),
    "a share at the threshold": ({"threshold": 0.6}, LIKES_ARNO, ANSWERS, BOTH, [CASE], 0, "some river"),
    "the likeliest": ({"threshold": None}, LIKES_ARNO, ANSWERS, BOTH, [WITH_ARNO, WITH_PO], 1, "the Arno"),
    "no passage": ({"mode": "always"}, LIKES_ARNO, ANSWERS, (), [CASE], 1, "some river"),
    "no passage, long": (LONG | {"mode": "always"}, LIKES_ARNO, ANSWERS, (), None, 2, "some river"),
    "one passage, long": (LONG, LIKES_ARNO, ANSWERS, ONE, None, None, "the Arno"),
    "all zeros start no search": ({}, ZEROS, ANSWERS, BOTH, [CASE], 0, "some river"),
    "all zeros start no search in the long form": (LONG, ZEROS, ANSWERS, BOTH, None, 0, "some river"),
    "after a forced search all score the same, and nothing is rejected": (
        {"mode": "always", "reject_unsupported": True}, ZEROS, ANSWERS, BOTH,
        [WITH_ARNO, WITH_PO], 1, "the Arno",
    ),
    "the same in the long form": (
        LONG | {"mode": "always", "reject_unsupported": True}, ZEROS, ANSWERS, BOTH, None, None, "the Arno",
    ),
    "the long form writes sentence by sentence": (
        LONG | {"beam_width": 1}, LIKES_ARNO, SENTENCES, BOTH,
        [WITH_ARNO, WITH_PO, f"{WITH_ARNO} The Arno is a river.", f"{WITH_PO} The Arno is a river."],
        2, "the Arno",
    ),
    "a segment that continues keeps the passage in the prompt": (
        LONG, CONTINUES, SENTENCES, ONE, [WITH_ARNO, f"{WITH_ARNO} The Arno is a river."], 1, "the Arno",
    ),
    "without retrieval, no passage is in the prompt": (
        LONG, SEARCHES_ONCE, SENTENCES, ONE, [WITH_ARNO, f"{CASE} The Arno is a river."], 1, "a river",
    ),
    "an unstated answer is asked for behind the text as it was written": (
        {"mode": "always"}, NOTHING, UNSTATED, ONE, list(UNSTATED), 1, "Arno",
    ),
    "or is not asked for": ({"mode": "always"} | UNASKED, NOTHING, UNSTATED, ONE, [WITH_ARNO], 1, ""),
    "a sentence that the length cuts is continued": (
        LONG | UNASKED | {"mode": "never", "max_tokens": 3}, NOTHING, CUT, (), list(CUT), 0, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_prompts_and_answers_in_words(name):
    parameters, scorer, replies, passages, prompts, num_searches, short = ROWS[name]
    result, shown, queries = run(Judged(selfrag(**parameters), scorer), plain(replies), passages)
    assert result.answer.short == short
    assert prompts is None or shown == prompts
    assert num_searches is None or len(queries) == num_searches


def test_numbers_queries_and_citations_in_words():
    result, _, queries = run(Judged(selfrag(), LIKES_ARNO), plain())
    assert (queries, result.answer.text) == ([ASKS], "The Arno flows there. So the answer is the Arno.")
    assert [each[:2] for each in cited(result.answer)] == [(1, "a"), (1, "a")]
    numbers = {"sequence": 0.99, "relevance": 0.9, "support": 1 / 1.5, "utility": 0.5}
    assert tried(result)["0.1"].numbers == near(numbers | {"score": 0.99 + 0.9 + 1 / 1.5 + 0.25})
    asked = []
    scorer = replace(LIKES_ARNO, retrieves=lambda so_far: asked.append(so_far) or {RETRIEVAL: 0.9})
    result, _, queries = run(Judged(selfrag(form="long", beam_width=1), scorer), plain(SENTENCES))
    assert queries == [ASKS, f"{ASKS} The Arno is a river."]
    assert asked == ["", "The Arno is a river."], "only behind what is continued"
    assert result.answer.text == "The Arno is a river. So the answer is the Arno."
    result, _, _ = run(Judged(selfrag(form="long"), CONTINUES), plain(SENTENCES), ONE)
    assert [each.action for each in tried(result).values()] == ["retrieve", "continue"]
    assert [each[:2] for each in cited(result.answer)] == [(1, "a"), (1, "a")]


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
