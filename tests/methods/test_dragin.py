"""What all variants of DRAGIN share, what their parameters read, and words that spaCy cuts otherwise.

The case studies of the paper and single decisions are in `tests/scenarios/dragin.jsonl`.
"""

import asyncio
import re
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

from askance.ask import Engine
from askance.configuration.methods import make_method
from askance.core.errors import InputError
from askance.core.trace import Attended
from askance.core.types import Generation, Passage, Question, Sampling
from askance.evaluation.choose.calibrate import calibrate
from askance.evaluation.choose.goals import SearchesGoal
from askance.evaluation.datasets import Example
from askance.methods.common.generation_state import SHORT_ANSWER_TOKENS
from askance.methods.common.prompts import DEMOS, STOPS, PromptTemplate
from askance.methods.common.search import QueryMode, TriggerMode
from askance.methods.dragin.attention_map import AttentionMap, token_offsets
from askance.methods.dragin.paper import DraginPaper
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.answers import sentences
from askance.text.linguistics import Linguistics
from askance.text.spacy_pipeline import load_linguistics
from tests.asking import ask
from tests.laboratory import usable
from tests.text.pieces import tokens_of
from tests.tolerances import near

SEATS = Question("q", "How many people can the home arena of the Lewiston Maineiacs seat?")
ARENA = Passage("a", "Colisée", "It has a capacity of 4,000 (3,677 seated).")
FIRST = " The Lewiston Maineiacs played at home in the Androscoggin Bank Colisée."
DRAFT = Reply(
    f"{FIRST} It has a seating capacity of 4,250. So the answer is 4,250.", entropies={"4,250": 3.0}
)
TELLING = {" seat?", " Androscoggin", " Bank", " Colisée.", " seating", " capacity"}
BREMEN = Question("q", "Which river crosses Bremen?", demos=())
ALLER = Passage("p", "Aller", "The Aller is a tributary.")
ANSWER = " So the answer is Weser."


def looks_from(*pieces_before):
    """Return attention of these pieces to what the number is about, and of all others to the number."""

    def look(pieces):
        if pieces[-1] in pieces_before:
            return [9.0 if piece in TELLING else 0.1 for piece in pieces]
        return [1000.0 if piece == " 4,250." else 0.1 for piece in pieces]

    return look


def run(method, replies, found=(ARENA,), question=SEATS, look=looks_from(" 4,250.")):
    model, retriever = ScriptedModel(replies, attention=look), ScriptedRetriever(list(found))
    result = asyncio.run(ask(question, method, {"answer": model}, retriever))
    return result, model, retriever


def paper(**parameters):
    return DraginPaper(**{"ask_short_answer": False, **parameters})


def searches(result):
    return [decision for decision in result.trace.decisions if decision.outcome == "search"]


def seats():
    """Return the first case study of the paper, in which a doubtful number is searched for."""
    replies = [
        f"{FIRST} It has",
        Reply(" It has a seating capacity of 4,250. So the", entropies={"4,250": 3.0}),
        " 3,677. So the",
        " So the answer is 3,677.",
    ]
    return run(make_method("dragin(search_first=false, query_top=6)"), replies, look=looks_from(" of"))


@pytest.mark.parametrize("variant", usable("dragin", "dragin_paper", "dragin_authors"))
@pytest.mark.parametrize("query", get_args(QueryMode))
@pytest.mark.parametrize("trigger", get_args(TriggerMode))
def test_every_pair_of_trigger_and_query_ends(variant, query, trigger):
    limits = {"threshold": 0.3, "max_tokens": 24, "every_tokens": 6, "max_rounds": 12}
    method = make_method(variant, {"trigger": trigger, "query": query, **limits})
    result, _, retriever = run(method, None, question=BREMEN, look=None)
    assert len(retriever.queries) == result.usage.searches
    assert result.trace.committed.strip() == result.answer.text.strip()
    attends = [event for event in result.trace.events if isinstance(event, Attended)]
    assert not attends or variant == "dragin_authors"


@pytest.mark.parametrize("name", ["llama", "qwen"])
def test_real_tokenizers_give_words_of_question_and_answer_only(name, request):
    """Neither of the example in the prompt, nor of the passages."""
    model, retriever = request.getfixturevalue(name), ScriptedRetriever([ALLER])
    prompts = PromptTemplate(demos=DEMOS[:1])
    method = paper(trigger="every_tokens", every_tokens=4, max_tokens=12, query_top=100, prompts=prompts)
    question = Question("q", BREMEN.text)
    result = asyncio.run(ask(question, method, {"answer": model}, retriever))
    assert len(retriever.queries) > 1
    for query in retriever.queries[1:]:
        assert query.startswith(BREMEN.text)
        words = [word.strip("\ufffd") for word in query.removeprefix(BREMEN.text).split()]
        assert all(word in result.answer.text for word in words), "the last one may be a part of a word"


@pytest.mark.parametrize(
    ("method", "of_query", "read", "threshold"),
    [
        ("dragin", "max", "max", 1.0),
        ("dragin(heads=mean, threshold=0.5)", "mean", "mean", 0.5),
        ("dragin(query_heads=mean)", "mean", "heads", 1.0),
        ("dragin(trigger=token_probability)", "max", "max", 0.2),
        ("dragin(trigger=token_probability, threshold=0.7)", "max", "max", 0.7),
        ("dragin(trigger=every_sentence)", "max", "max", float("inf")),
        ("dragin_paper", "mean", "heads", 1.0),
        ("dragin_paper(heads=mean)", "mean", "mean", 1.0),
        ("dragin_paper(query_heads=max)", "max", "max", 1.0),
        ("dragin_paper(query=question)", "mean", "max", 1.0),
        ("dragin_paper(trigger=every_sentence)", "mean", "mean", float("inf")),
        ("dragin_paper(trigger=every_sentence, query=question)", "mean", None, float("inf")),
    ],
)
def test_heads_that_trigger_and_query_read_and_the_threshold_in_use(method, of_query, read, threshold):
    made = make_method(method)
    assert (made.qfs_heads, made.attention, made.theta) == (of_query, read, threshold)


@pytest.mark.parametrize("variant", usable("dragin_authors"))
def test_the_authors_code_has_a_threshold_of_its_own_for_probabilities(variant):
    assert make_method(variant, {"trigger": "token_probability"}).theta == 0.08


class Watched(ScriptedModel):
    """Keeps the sampling options of each call."""

    async def generate(self, request):
        self.samplings = [*getattr(self, "samplings", []), request.sampling]
        return await super().generate(request)


@pytest.mark.parametrize("variant", ["dragin", "dragin_paper"])
@pytest.mark.parametrize(
    ("settings", "sampled"),
    [({}, (0.0, 1.0, 0)), ({"temperature": 0.6, "top_p": 0.9, "top_k": 50}, (0.6, 0.9, 50))],
)
def test_the_answer_is_sampled_as_asked_and_the_short_answer_greedily(variant, settings, sampled):
    model, retriever = Watched([" It is there.", " Weser."]), ScriptedRetriever([ALLER])
    asyncio.run(ask(BREMEN, make_method(variant, settings), {"answer": model}, retriever))
    assert model.samplings == [
        Sampling(128, *sampled, stop=STOPS),
        Sampling(SHORT_ANSWER_TOKENS, stop=STOPS),
    ]


class TwoHeads(ScriptedModel):
    """One head looks at " river" most, both look at " crosses" a little less."""

    def _attention_row(self, ids, query):
        looks = {" river": (5.0, 0.1), " crosses": (4.0, 4.0)}
        seen = [looks.get(piece, (0.01, 0.03)) for piece in self.pieces(ids[: query + 1])]
        rows = np.array(seen, dtype=np.float32).T
        return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("variant", ["dragin_paper", "dragin(search_first=false)"])
def test_how_the_query_sums_heads_up_leaves_the_trigger_alone(variant):
    words, queries = {}, {}
    for heads in ("max", "mean"):
        replies = [Reply(" It flows by Minden slowly now. So the", entropies={"slowly": 9e9}), ANSWER, ANSWER]
        model, retriever = TwoHeads(replies), ScriptedRetriever([ALLER])
        method = make_method(variant, {"query_heads": heads, "ask_short_answer": False, "query_top": 1})
        result = asyncio.run(ask(Question("q", BREMEN.text), method, {"answer": model}, retriever))
        words[heads], queries[heads] = result.trace.decisions[0].words, retriever.queries
    assert words["max"] == words["mean"]
    assert queries == {"max": ["river"], "mean": ["crosses"]}


@pytest.mark.parametrize(
    ("entropies", "values", "cut"),
    [
        # the space has 3.0 · 0.8 = 2.4, above the threshold, but belongs to no word
        ({2: 3.0, 3: 1.5}, {"It": 0, "has": 0, "42": 0.75, "seats.": 0}, None),
        ({2: 3.0, 3: 2.2, 4: 9.0}, {"It": 0, "has": 0, "42": 1.1, "seats.": 0}, " It has "),
        # "It" and "has" are stop words
        ({0: 9.0, 1: 9.0, 4: 12.0}, {"It": 0, "has": 0, "42": 1.2, "seats.": 0}, " It has 4"),
        ({5: 4.0}, {"It": 0, "has": 0, "42": 0, "seats.": 1.6}, " It has 42"),
    ],
)
def test_white_space_and_stop_words_of_the_paper_are_never_in_doubt_by_hand(entropies, values, cut):
    """A Llama 2 splits numbers into a space and digits; the trace has a word for each decision."""
    texts = [" It", " has", " ", "4", "2", " seats", ".", " So"]
    received = [0.9, 0.9, 0.8, 0.5, 0.1, 0.4]  # from every later token
    rows = [np.array([*received[:index], 0.0]) for index in range(7)]
    attention = AttentionMap("".join(texts), ((0, 0), (0, 0)), 0, token_offsets(texts, 24), (*rows, None))
    pairs = enumerate(tokens_of(texts[:-1]))
    tokens = tuple(replace(token, entropy=entropies.get(index, 0.0)) for index, token in pairs)
    written = Generation("".join(texts[:-1]), tokens)
    scored = paper()._score_words(written, attention, is_over=False, may_start=True)
    assert {word.text: word.value for word in scored.words} == near(values)
    is_due = cut is not None
    assert (scored.search_at is not None) == is_due == any(word.is_hit for word in scored.words)
    assert scored.kept == (cut if is_due else written.text)


def calibration(**settings):
    model = ScriptedModel(lambda shown, key: Reply(" It is the Aller. So the", {"Aller": 0.3}))
    method = make_method("dragin", {"query": "question", "max_rounds": 2, "search_first": False, **settings})
    engine = Engine(method, {"answer": model}, ScriptedRetriever([ALLER]))
    return asyncio.run(calibrate(engine, [Example(BREMEN, ())], SearchesGoal(1.0), max_trials=1))


def test_calibration_begins_at_the_default_of_the_trigger():
    assert [row.value for row in calibration(trigger="token_probability").table] == [0.2]
    with pytest.raises(InputError, match=r"=none .*trigger=every_sentence, .*: compared with no threshold"):
        calibration(trigger="every_sentence")


TAGS = {"father": "NOUN", "law": "NOUN", "Boraqchin": "PROPN", "4,250": "NUM", "Who": "PRON", "ruled": "VERB"}


def spacy_like():
    """Tokens as spaCy cuts English: hyphens and possessives stand alone, numbers with commas are whole."""
    token = re.compile(r"\d+(?:,\d+)*|'s|\w+|[^\w\s]")

    def spans(text):
        return tuple(each.span() for each in token.finditer(text) if TAGS.get(each.group(), "PRON") != "PRON")

    return Linguistics("like spaCy", sentences, spans)


def by_spacy(folder):
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    ruler = nlp.add_pipe("attribute_ruler")
    ruler.add([[{}]], {"POS": "X"})
    for form, tag in TAGS.items():
        ruler.add([[{"TEXT": form}]], {"POS": tag})
    nlp.to_disk(folder)
    return load_linguistics(f"spacy:{folder}")


@pytest.mark.parametrize("source", ["like spaCy", "spaCy"])
def test_words_with_hyphens_possessives_and_commas_are_whole_in_doubts_and_queries(source, tmp_path):
    foreign = by_spacy(tmp_path / "pipeline") if source == "spaCy" else spacy_like()
    text, words = (
        "Who was Boraqchin's father-in-law, and did 4,250 see?",
        ["Boraqchin's", "father-in-law", "4,250"],
    )
    assert [text[start:end] for start, end in foreign.content_words(text)] == words
    assert [foreign.content_words(none) for none in ("", " \n", "and did")] == [(), (), ()]
    method = make_method("dragin", {"linguistics": foreign, "search_first": False, "threshold": 0.5})
    for word in words:
        replies = [Reply(f" It was {word} who did. So the", entropies={word: 9.0}), " led. So the", ANSWER]
        look = lambda pieces, word=word: [50.0 if piece == f" {word}" else 1.0 for piece in pieces]  # noqa: E731
        result, _, retriever = run(method, replies, question=Question("q", text), look=look)
        assert [each.text for each in result.trace.decisions[0].words if each.is_hit] == [word]
        assert retriever.queries == [" ".join(words)]
