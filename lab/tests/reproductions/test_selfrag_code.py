"""Self-RAG in the variant of its authors' code, where recorded cases say nothing.

Scores, decisions and trees are compared with what the authors' functions computed in `test_selfrag_authors`.
"""

import asyncio
import math

import pytest

from askance.core.errors import MissingAbility
from askance.core.types import Generation, Passage, Question, Token, untrusted
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.tokens import (
    ALL_TOKENS,
    CONTINUE,
    FULLY_SUPPORTED,
    NO_RETRIEVAL,
    RELEVANT,
    RETRIEVAL,
    SCORED_TOKENS,
    ReflectionVocabulary,
)
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.reproductions.selfrag import SelfragAuthors
from askance_lab.reproductions.selfrag_outputs import (
    ParsedSegment,
    alce_answer,
    is_rewritten,
    log_retrieval_share,
    parse_segment,
)
from tests.asking import ask
from tests.tolerances import near

OPEN = Question("q", "Which river flows through Pisa?")
CLAIM = Question("q", "The Arno flows through Pisa.", task="choice", options=("true", "false"))
ARNO = Passage("a", "Arno", "The Arno flows through Pisa.")
PO = Passage("p", "Po", "The Po flows through Turin.")
TIBER = Passage("t", "Tiber", "The Tiber flows through Rome.")


def run(method, reply, found=(ARNO, PO), question=OPEN):
    """Run a question; `reply` gets the name of a call, such as "decide", "passage.1" or "0.2.1"."""
    prompts = {}

    def script(prompt, key):
        place = ".".join(map(str, key[2:])).removeprefix("segment.")
        prompts[place] = prompt
        return reply(place)

    retriever = ScriptedRetriever(list(found))
    model = ScriptedModel(script, control=ALL_TOKENS)
    result = asyncio.run(ask(question, method, {"answer": model}, retriever))
    assert result.trace.committed == result.answer.text
    return result, prompts, retriever.queries


def drafting(probability):
    """A draft that begins with [Retrieval], which shares all probability with [No Retrieval]."""
    beside = {RETRIEVAL: {NO_RETRIEVAL: 1 - probability}}
    return Reply(f"{RETRIEVAL}Pisa lies on it.", doubts={RETRIEVAL: probability}, beside=beside)


@pytest.mark.parametrize(
    ("probability", "searches", "searches_by_default"),
    [(0.05, True, False), (0.5, True, True), (0.75, False, True), (0.95, False, True)],
)
def test_the_surer_of_retrieval_the_less_it_searches(probability, searches, searches_by_default):
    for method, expected in ((SelfragAuthors(), searches), (Selfrag(), searches_by_default)):
        _, _, queries = run(method, lambda place: drafting(probability) if place == "decide" else "The Arno.")
        assert queries == [OPEN.text] * expected


def test_the_share_of_logarithms():
    assert log_retrieval_share({RETRIEVAL: 0.7244, NO_RETRIEVAL: 0.2756}) > 0.2
    assert log_retrieval_share({RETRIEVAL: 0.7246, NO_RETRIEVAL: 0.2754}) < 0.2
    assert log_retrieval_share({RETRIEVAL: math.exp(-25)}) == near(0.2), "a missing one counts -100"
    assert log_retrieval_share({RETRIEVAL: 1.0, NO_RETRIEVAL: 1.0}) == 0, "theirs divides by zero"


@pytest.mark.parametrize(
    ("search", "continues", "threshold", "expected"),
    [
        (0.1, 0.0, 0.2, False),
        (0.3, 0.0, 0.2, True),
        (0.1, 0.3, 0.2, True),
        (0.0, 0.6, 0.9, True),
        (0.0, 0.6, 1.0, False),
        (0.0, 0.0, 0.0, True),
        (0.0, 0.0, 1e-40, False),
        (0.6, 0.0, None, False),
    ],
)
def test_no_retrieval_may_be_read_as_retrieval(search, continues, threshold, expected):
    probs = {RETRIEVAL: search, CONTINUE: continues, NO_RETRIEVAL: 1 - search - continues}
    assert is_rewritten(probs, threshold) is expected


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (("A: x", "B: y", "C: z", "D: w", "E: v"), "\nA: x\nB: y\nC: z\nD: w\n\n###"),
        (("A: x", "B: y", "C: z"), "\nA: x\nB: y\nC: z\nD: \n\n###"),
        (("x", "y", "z"), "\nA: x\nB: y\nC: z\nD: \n\n###"),
        (("A: x", "B: y"), "\nA: x\nB: y\n\n###"),
    ],
)
def test_options_are_four_for_their_script(options, shown):
    choice = Question("q", "Which?", task="choice", options=options)
    assert shown in run(SelfragAuthors(mode="never"), lambda place: "A", question=choice)[1]["none"]


@pytest.mark.parametrize(
    ("question", "form", "separator"),
    [
        (CLAIM, "short", "\n\n## Input:\n\n"),
        (Question("q", "Which?", task="choice", options=("Arno", "Po")), "short", "\n\n### Input:\n"),
        (CLAIM, "long", "## Input:\n\n"),
    ],
)
def test_their_scripts_part_instruction_and_question_in_other_ways(question, form, separator):
    method = SelfragAuthors(form=form, mode="never")
    _, prompts, _ = run(method, lambda place: "Arno", question=question)
    before, _, _ = prompts["none"].partition(question.text)
    assert before.endswith(separator)
    assert not before.removesuffix(separator).endswith("\n")


VOCABULARY = ReflectionVocabulary.of(ScriptedModel(control=ALL_TOKENS))
IDS = VOCABULARY.ids


def written(*pieces, control=(), shows=True):
    """Return a generation of these pieces; those of `control` are control tokens, which its text may hide."""
    tokens, text = [], ""
    for id, piece in enumerate(pieces, start=100):
        shown = piece if shows or piece not in control else ""
        probs = tuple(float(name == RETRIEVAL) for name in SCORED_TOKENS)
        id = IDS[piece] if piece in control else id
        tokens.append(Token(id, shown, len(text), len(text) + len(shown), probs=probs))
        text += shown
    return Generation(text, tuple(tokens))


HIDDEN = {"control": [RETRIEVAL, NO_RETRIEVAL], "shows": False}


@pytest.mark.parametrize(
    ("generation", "text", "behind", "searches"),
    [
        (written("One.", RETRIEVAL, "Two.", control=[RETRIEVAL]), "One.", ((100,),), True),
        (written("One.", "[Retr", "ieval]", "Two."), "One.", ((100,),), True),
        (written("One.", " x[Retr", "ieval]"), "One. x", ((100,), untrusted(" x")), True),
        (written("One.", RETRIEVAL, "Two.", **HIDDEN), "One.Two.", ((100, 102),), False),
        (written("One.", NO_RETRIEVAL, control=[NO_RETRIEVAL]), "One.", ((100,),), True),
        (written("One.", NO_RETRIEVAL, **HIDDEN), "One.", ((100,),), False),
        (
            written("One.", "[No Ret", "rieval]", " Two."),
            f"One.{NO_RETRIEVAL} Two.{NO_RETRIEVAL}",
            ((100, 101, 102, 103, IDS[NO_RETRIEVAL]),),
            False,
        ),
    ],
)
def test_names_are_looked_for_in_the_text_that_the_model_shows(generation, text, behind, searches):
    assert parse_segment(generation, False, VOCABULARY, 0.2) == ParsedSegment(text, behind, searches)


@pytest.mark.parametrize(
    ("segments", "text", "cited"),
    [
        # A text that stood before is left out, but counts.
        (
            [("One.", ARNO), (f"{RELEVANT}One.", PO), ("", PO), ("Two.", TIBER)],
            "One. Two.",
            [(1, ARNO, "One."), (4, TIBER, "Two.")],
        ),
        # What continues with a passage is cited as the first of all.
        (
            [("One.", ARNO), (f"Two.{FULLY_SUPPORTED}{CONTINUE}Three.{FULLY_SUPPORTED}", PO)],
            "One. Two. Three.",
            [(1, ARNO, "One."), (1, ARNO, "Two."), (2, PO, "Three.")],
        ),
        # The last character becomes a full stop, and full stops part words.
        ([("No stop", ARNO)], "No sto.", [(1, ARNO, "No sto.")]),
        ([("It is 3.14 in the U.S. now.", PO)], "It is 3. 14 in the U. S. now.", None),
    ],
)
def test_the_text_and_citations_of_segments(segments, text, cited):
    found, citations = alce_answer(segments)
    assert found == text
    if cited:
        assert [(each.number, each.passage, found[each.start : each.end]) for each in citations] == cited


def test_biographies_are_whole_and_cite_nothing():
    replies = {"0.1": f"He ran.{RETRIEVAL}", "0.1.1": f"He ran.{RETRIEVAL}", "0.1.1.1": "And rested"}
    method = SelfragAuthors(form="long", mode="always", task="biography")
    result, *_ = run(method, lambda place: replies.get(place, ""), (ARNO,))
    assert (result.answer.text, result.answer.citations) == ("He ran. He ran. And rested", ())


@pytest.mark.parametrize("form", ["short", "long"])
@pytest.mark.parametrize("threshold", [0.2, None])
@pytest.mark.parametrize("mode", ["adaptive", "always", "never"])
@pytest.mark.parametrize("found", [(), (ARNO,), (ARNO, PO)])
@pytest.mark.parametrize("text", ["", "The Arno."])
def test_no_question_fails(form, threshold, mode, found, text):
    """Their code fails on some of these questions."""
    method = SelfragAuthors(form=form, threshold=threshold, mode=mode)
    result, *_ = run(method, lambda place: drafting(0.5) if place == "decide" else text, found)
    searches = mode == "always" or (mode == "adaptive" and not (form == "long" and threshold is None))
    ended = form == "long" and bool(searches and found)  # Their text of an end token is "</s>", a segment.
    assert result.answer.text == result.answer.short == (text or ("." if ended else ""))
    cited = found[-1:] if ended and not text else found[:1]  # Where the best path says nothing, the second.
    cites = bool(searches and found and text) or ended
    assert [each.passage for each in result.answer.citations] == list(cited if cites else ())


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ({"answer": ScriptedModel()}, r"selfrag_authors.*scripted does not have.*the method selfrag"),
        ({"answer": ScriptedModel(control=ALL_TOKENS, signals=frozenset({"logprob"}))}, "selfrag_authors"),
        ({"answer": ScriptedModel(control=ALL_TOKENS), "critic": ScriptedModel()}, "role critic"),
    ],
)
def test_other_models_are_refused(models, message):
    with pytest.raises(MissingAbility, match=message):
        asyncio.run(ask(OPEN, SelfragAuthors(), models, ScriptedRetriever([ARNO])))
