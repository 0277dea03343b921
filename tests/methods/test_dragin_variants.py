"""What tells DRAGIN's readings apart: what a query is taken from, how heads are summed up, which words are in
doubt, where an answer ends, and what a threshold is held against.
"""

import asyncio
import re

import numpy as np
import pytest

from askance.ask import Engine, ask
from askance.configuration.methods import make_method
from askance.core.errors import InputError
from askance.core.types import Passage, Question
from askance.evaluation.choose.calibrate import calibrate
from askance.evaluation.choose.goals import SearchesGoal
from askance.evaluation.datasets import Example
from askance.methods.common.prompts import DEMOS, PLAIN, PromptTemplate
from askance.methods.dragin.attention_map import AttentionMap, query_of
from askance.methods.dragin.method import Dragin
from askance.methods.dragin.paper import DraginPaper
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.text.answers import sentences
from askance.text.linguistics import OWN, Linguistics
from askance.text.spacy_pipeline import load_linguistics
from tests.laboratory import usable
from tests.methods.dragins import dragin
from tests.tolerances import near

ASKED = Question("q", "Which river crosses Bremen?", options=("Weser", "Elbe"))
FOUND = Passage("p", "Aller", "The Aller is a tributary.")
ANSWER = " So the answer is Weser."


def run(method, replies, *, question=ASKED, found=(FOUND,), look=None):
    model, retriever = ScriptedModel(replies, attention=look), ScriptedRetriever(list(found))
    result = asyncio.run(ask(question, method, {"answer": model}, retriever))
    return result, model, retriever


def paper(**parameters):
    return DraginPaper(ask_short_answer=False, **parameters)


# What a query is taken from.


def in_doubt_twice(**parameters):
    """The second search is made with passages in the prompt; attention goes to its other parts most."""

    def look(pieces):
        known = {" river", " Bremen?", " crosses", " port"}
        return [1.0 if piece in known else 5.0 for piece in pieces]

    replies = [
        Reply(" The port lies there now. So the", entropies={"lies": 900.0}),
        Reply(" stands at Vegesack today. So the", entropies={"Vegesack": 900.0}),
        ANSWER,
        ANSWER,
    ]
    return run(paper(threshold=1.0, **parameters), replies, look=look)


def test_a_query_in_the_papers_reading_has_words_of_question_and_answer_only():
    _, model, retriever = in_doubt_twice(query_top=25)
    assert retriever.queries == [
        "Which river crosses Bremen? The port",
        "Which river crosses Bremen? The port stands at",
    ]
    assert "Options: Weser; Elbe" in model.prompts[1]
    assert FOUND.text in model.prompts[1]


def test_the_whole_prompt_is_a_named_option():
    _, _, retriever = in_doubt_twice(query_top=12, query_context="whole_prompt")
    assert all("Carmen" in query for query in retriever.queries), "a word of the first example"


def test_the_top_tokens_are_the_top_ones_of_question_and_answer():
    _, _, retriever = in_doubt_twice(query_top=3)
    assert len(retriever.queries[0].split()) == 3


@pytest.mark.parametrize("name", ["llama", "qwen"])
def test_real_tokenizers_give_words_of_question_and_answer_only(name, request):
    model = request.getfixturevalue(name)
    retriever = ScriptedRetriever([FOUND])
    method = paper(
        trigger="every_tokens",
        every_tokens=4,
        max_tokens=12,
        query_top=100,
        prompts=PromptTemplate(demos=DEMOS[:1]),
    )
    result = asyncio.run(ask(ASKED, method, {"answer": model}, retriever))
    assert len(retriever.queries) > 1
    for query in retriever.queries[1:]:
        assert query.startswith(ASKED.text)
        words = [word.strip("\ufffd") for word in query.removeprefix(ASKED.text).split()]
        assert all(word in result.answer.text for word in words), "the last one may be a part of a word"


# Where an answer has been stated.


@pytest.mark.parametrize("variant", ["dragin", "dragin_paper"])
@pytest.mark.parametrize("trigger", ["rind", "token_probability"])
def test_nothing_behind_the_line_that_states_the_answer_is_searched_for(variant, trigger):
    """Small models go on with notes of their own."""
    reply = Reply(
        " So the answer is Bonn\nNote: Berlin lies there now. It is",
        {"Berlin": 0.01},
        entropies={"Berlin": 900.0},
    )
    method = dragin(variant, trigger=trigger, ask_short_answer=False, search_first=False)
    result, _, retriever = run(method, [reply, ANSWER])
    assert retriever.queries == []
    assert result.answer.short == "Bonn"


def test_the_statement_may_have_begun_before_a_search():
    replies = [
        Reply(" So the answer is Berlin.", entropies={"answer": 900.0}),
        Reply(" answer is Bonn\nNote: Berlin lies there now. It is", entropies={"Berlin": 900.0}),
    ]
    result, _, retriever = run(paper(threshold=1.0), replies)
    assert retriever.queries == ["Which river crosses Bremen? So the"]
    assert result.answer.short == "Bonn"


# How heads are summed up.


def look_of_two_heads():
    """The token " x" looks at " a" with one head and at " b" and " c" with both."""
    texts = ["Q:", " a", " b", " c", "\nA:", " x"]
    ends = np.cumsum([len(text) for text in texts])
    offsets = tuple(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))
    row = np.array([[0, 0.9, 0, 0.1, 0, 0], [0, 0, 0.6, 0.4, 0, 0]], dtype=np.float32)
    return AttentionMap("".join(texts), ((2, 8), (11, 11)), 11, offsets, (*[None] * 5, row))


def test_heads_are_summed_up_as_they_are_asked_for():
    look = look_of_two_heads()
    assert query_of(look.most_attended_words(5, 2, "max", whole=False)) == "a b"
    assert query_of(look.most_attended_words(5, 1, "mean", whole=False)) == "a"
    by_mean = dict(look.attended_words_before(0, OWN, "mean"))
    by_max = dict(look.attended_words_before(0, OWN, "max"))
    assert by_max == near({"b": 0.6, "c": 0.4}, number_format="float32")
    assert by_mean == near({"b": 0.3, "c": 0.25}, number_format="float32")


@pytest.mark.parametrize(
    ("parameters", "of_query", "read"),
    [
        ({"variant": "dragin_paper"}, "mean", "heads"),
        ({"variant": "dragin_paper", "heads": "mean"}, "mean", "mean"),
        ({"variant": "dragin_paper", "query_heads": "max"}, "max", "max"),
        ({"variant": "dragin_paper", "query": "question"}, "mean", "max"),
        ({"variant": "dragin_paper", "trigger": "every_sentence"}, "mean", "mean"),
        ({"variant": "dragin_paper", "trigger": "every_sentence", "query": "question"}, "mean", None),
        ({}, "max", "max"),
        ({"heads": "mean"}, "mean", "mean"),
        ({"query_heads": "mean"}, "mean", "heads"),
    ],
)
def test_trigger_and_query_sum_heads_up_each_for_itself(parameters, of_query, read):
    method = dragin(**parameters)
    assert (method.qfs_heads, method.attention) == (of_query, read)


class TwoHeads(ScriptedModel):
    """One head looks at " river" most, both look at " crosses" a little less."""

    def _attention_row(self, ids, query):
        looks = {" river": (5.0, 0.1), " crosses": (4.0, 4.0)}
        pieces = self.pieces(ids[: query + 1])
        seen = [looks.get(piece, (0.01, 0.03)) for piece in pieces]
        rows = np.array(seen, dtype=np.float32).T
        return rows / rows.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("variant", ["dragin_paper", "dragin"])
def test_how_the_query_sums_heads_up_leaves_the_trigger_alone(variant):
    def ran(query_heads):
        parameters = {"search_first": False, "query_top": 1}
        replies = [Reply(" It flows by Minden slowly now. So the", entropies={"slowly": 9e9}), ANSWER, ANSWER]
        model, retriever = TwoHeads(replies), ScriptedRetriever([FOUND])
        question = Question("q", "Which river crosses Bremen?")
        method = dragin(variant, query_heads=query_heads, ask_short_answer=False, **parameters)
        result = asyncio.run(ask(question, method, {"answer": model}, retriever))
        return result.trace.decisions[0].words, retriever.queries

    (words, of_max), (same, of_mean) = ran("max"), ran("mean")
    assert words == same
    assert (of_max, of_mean) == (["river"], ["crosses"])


# Which words are in doubt.


@pytest.mark.parametrize(
    ("query", "expected"), [("masked", "It by today."), ("current_wo_wrong", "It  by   today.")]
)
def test_all_words_above_the_threshold_are_masked(query, expected):
    doubts = {"runs": 0.3, "Celle": 0.2, "perhaps": 0.4}
    replies = [Reply(" It runs by Celle perhaps today. So the", doubts), " flows by Bremen. So the", ANSWER]
    result, _, retriever = run(paper(trigger="token_probability", query=query, threshold=0.5), replies)
    assert retriever.queries == [expected]
    (search,) = [decision for decision in result.trace.decisions if decision.outcome == "search"]
    assert [word.text for word in search.words if word.is_hit] == ["runs", "Celle", "perhaps"]
    assert result.answer.text.startswith("It flows by Bremen."), "the text is cut before the first of them"


def test_a_word_with_one_doubtful_token_is_masked_whole(llama):
    method = paper(
        trigger="token_probability", query="masked", threshold=0.0, max_tokens=6, max_rounds=1, prompts=PLAIN
    )
    result = asyncio.run(ask(ASKED, method, {"answer": llama}, ScriptedRetriever([FOUND])))
    assert all(word.is_hit for word in result.trace.decisions[0].words)


# Where an answer ends.


def test_an_answer_does_not_end_inside_a_sentence_that_goes_on_like_an_earlier_one():
    """Both sentences are cut, and what follows each cut is the same."""
    replies = [
        Reply(" Minden lies on it now. So the", entropies={"lies": 9.0}),
        " flows north. So the",
        Reply(" Bremen lies on it now. So the", entropies={"lies": 9.0}),
        " flows north. So the",
        ANSWER,
    ]
    found = [Passage(name, "", f"{name}.") for name in "abcdefgh"]
    method = Dragin(threshold=0.5, search_first=False, passages=1, kept_passages=0, ask_short_answer=False)
    look = lambda pieces: [50.0 if piece == " lies" else 0.1 for piece in pieces]  # noqa: E731
    result, _, _ = run(method, replies, found=found, look=look)
    assert result.answer.text == "Minden flows north. Bremen flows north. So the answer is Weser."


def test_a_sentence_that_repeats_an_earlier_one_after_a_cut_is_written_to_its_end():
    replies = [
        " Minden flows north. So the",
        Reply(" Minden lies on it now. So the", entropies={"lies": 9.0}),
        " flows north. So the",
        ANSWER,
    ]
    method = Dragin(threshold=0.5, search_first=False, ask_short_answer=False)
    look = lambda pieces: [50.0 if piece == " lies" else 0.1 for piece in pieces]  # noqa: E731
    result, _, _ = run(method, replies, look=look)
    assert result.answer.text == "Minden flows north. Minden flows north."
    assert "word for word" in result.trace.decisions[-1].why


# What a threshold is held against.


@pytest.mark.parametrize("variant", usable("dragin", "dragin_paper", "dragin_authors"))
def test_the_trigger_of_probabilities_searches_with_its_own_default(variant):
    method = dragin(variant, trigger="token_probability", query="question", search_first=False)
    replies = [Reply(" It is the Aller. So the", {"Aller": 0.3}), " It is the Weser. So the", ANSWER, ANSWER]
    result, _, retriever = run(method, replies)
    assert retriever.queries == [ASKED.text]
    (search,) = [decision for decision in result.trace.decisions if decision.outcome == "search"]
    assert search.threshold == method.theta


@pytest.mark.parametrize(
    ("parameters", "theta"),
    [
        ({}, 1.0),
        ({"threshold": 0.5}, 0.5),
        ({"trigger": "token_probability"}, 0.2),
        ({"trigger": "token_probability", "threshold": 0.7}, 0.7),
        ({"trigger": "every_sentence"}, float("inf")),
    ],
)
def test_each_trigger_has_a_default_on_its_own_scale(parameters, theta):
    assert dragin(**parameters).theta == theta


@pytest.mark.parametrize("variant", usable("dragin_authors"))
def test_the_authors_code_has_a_default_of_its_own_for_the_trigger_of_probabilities(variant):
    assert dragin(variant, trigger="token_probability").theta == 0.08


def test_calibration_begins_at_the_default_of_the_trigger():
    model = ScriptedModel(lambda shown, key: Reply(" It is the Aller. So the", {"Aller": 0.3}))
    settings = {"trigger": "token_probability", "query": "question", "max_rounds": 2, "search_first": False}
    engine = Engine(make_method("dragin", settings), {"answer": model}, ScriptedRetriever([FOUND]))
    work = calibrate(engine, [Example(ASKED, ())], SearchesGoal(1.0), max_trials=1)
    assert [row.value for row in asyncio.run(work).table] == [0.2]


def test_a_trigger_without_a_threshold_can_not_be_calibrated():
    settings = {"trigger": "every_sentence", "query": "question"}
    engine = Engine(make_method("dragin", settings), {"answer": ScriptedModel()}, ScriptedRetriever([FOUND]))
    work = calibrate(engine, [Example(ASKED, ())], SearchesGoal(1.0))
    with pytest.raises(InputError, match=r"=none .*trigger=every_sentence, .*: compared with no threshold"):
        asyncio.run(work)


# Words of one tokenisation, content of another.

TAGS = {"father": "NOUN", "law": "NOUN", "Boraqchin": "PROPN", "4,250": "NUM", "Who": "PRON", "ruled": "VERB"}
KHAN = Question("q", "Who was Boraqchin's father-in-law?")
SEATED = " It seats 4,250 and so on. He ruled. So the"


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


@pytest.fixture(params=["stub", "spacy"])
def foreign(request, tmp_path):
    return spacy_like() if request.param == "stub" else by_spacy(tmp_path / "pipeline")


def test_words_are_laid_over_foreign_ones_by_their_places(foreign):
    text = "Who was Boraqchin's father-in-law, and did 4,250 see?"
    words = [text[start:end] for start, end in foreign.content_words(text)]
    assert words == ["Boraqchin's", "father-in-law", "4,250"]
    assert [foreign.content_words(none) for none in ("", " \n", "and did")] == [(), (), ()]


def test_words_with_hyphens_possessives_and_commas_are_asked_for(foreign):
    method = make_method("dragin", {"linguistics": foreign, "search_first": False, "threshold": 0.5})
    replies = [
        " It seats 4,250 and so on. He ruled",
        Reply(" He ruled. So the", entropies={"ruled": 9.0}),
        " led. So the",
        ANSWER,
    ]
    look = lambda pieces: [50.0 if piece == " ruled." else 1.0 for piece in pieces]  # noqa: E731
    _, _, retriever = run(method, replies, question=KHAN, look=look)
    assert retriever.queries == ["Boraqchin's father-in-law 4,250"]


@pytest.mark.parametrize("word", ["Boraqchin's", "father-in-law", "4,250"])
def test_words_with_hyphens_possessives_and_commas_can_be_in_doubt(foreign, word):
    method = make_method("dragin", {"linguistics": foreign, "search_first": False, "threshold": 0.5})
    replies = [Reply(f" It was {word} who did. So the", entropies={word: 9.0}), " led. So the", ANSWER]
    look = lambda pieces: [50.0 if piece == f" {word}" else 1.0 for piece in pieces]  # noqa: E731
    result, _, _ = run(method, replies, question=KHAN, look=look)
    assert [each.text for each in result.trace.decisions[0].words if each.is_hit] == [word]
