"""Self-RAG in the variant of its authors' code: long answers."""

import pytest
from lab.tests.reproductions.reflecting_code import (
    ARNO,
    FOUND,
    GOOD,
    OPEN,
    PO,
    TIBER,
    by,
    candidates,
    code,
    judged,
    judged_then_search,
    run,
    scores,
)

from askance.core.answers import Citation
from askance.core.trace import Generated
from askance.core.types import Generation, Token, untrusted
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.tokens import (
    ALL_TOKENS,
    CONTINUE,
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    RELEVANT,
    RETRIEVAL,
    SCORED_TOKENS,
    UTILITIES,
    ReflectionVocabulary,
)
from askance.models.scripted import Reply, ScriptedModel
from askance_lab.reproductions.selfrag_outputs import ParsedSegment, alce_answer, is_rewritten, parse_segment
from tests.tolerances import near

# Long form: the decision.


@pytest.mark.parametrize(
    ("probe", "probability", "searches"),
    [
        (f"{RETRIEVAL} The Arno.", 0.5, True),
        (f"{RETRIEVAL} The Arno.", 0.1, False),
        (f"{NO_RETRIEVAL} The Arno.{RETRIEVAL}", 0.5, True),
        (f"{NO_RETRIEVAL} The Arno.\n\n{RETRIEVAL}", 0.5, False),
        (f"{NO_RETRIEVAL} The Arno.", 0.5, False),
        (f"{NO_RETRIEVAL} It{' and so' * 12}{RETRIEVAL}", 0.5, False),
    ],
)
def test_retrieval_must_be_written_soon_and_be_likely_at_once(probe, probability, searches):
    probs = {RETRIEVAL: probability, NO_RETRIEVAL: 1 - probability}
    beside = {RETRIEVAL: {NO_RETRIEVAL: 1 - probability}, NO_RETRIEVAL: {RETRIEVAL: probability}}
    draft = Reply(probe, doubts=probs, beside=beside)
    texts = {"decide": draft, "none": "The Arno.\n\nIt is long.", "0.1": "The Arno."}
    result, prompts, queries = run(code(form="long"), by(texts), (ARNO,))
    assert queries == [OPEN.text] * searches
    assert prompts.keys() == {"decide", "0.1" if searches else "none"}
    assert result.answer.text == "The Arno.", "the first paragraph"


# Long form: the tree.

LONG = {"form": "long", "mode": "always", "use_seqscore": False, "w_use": 0}


def test_scores_are_multiplied_along_a_path():
    replies = by(
        {
            "0.1": judged_then_search("A one.", 0.5, 1e-9),
            "0.2": judged_then_search("B one.", 0.9, 0.3),
            "0.1.1": judged("A two.", 0.95, 0.95),
            "0.1.2": judged("Weak.", 1e-9, 1e-9),
            "0.2.1": judged("B two.", 0.45, 0.45),
            "0.2.2": judged("Weak.", 1e-9, 1e-9),
        }
    )
    result, *_ = run(code(**LONG), replies)
    found = scores(result)
    assert (found["0.1.1"], found["0.2.1"]) == near((0.5 * 1.9, 1.2 * 0.9), "left out", "scripted")
    assert candidates(result)["0.1.1"].numbers["step"] == near(1.9, "left out", "scripted")
    assert result.answer.text == "B one. B two."
    assert run(Selfrag(**LONG), replies)[0].answer.text == "A one. A two."


def test_utility_weights_and_sequence_do_not_count():
    replies = by({"0.1": judged("Dull.", end=UTILITIES[0]), "0.2": judged("Good.", end=GOOD)})
    for parameters in ({}, {"w_rel": 0, "w_sup": 9, "w_use": 9, "use_seqscore": True}):
        result, *_ = run(code(**{**LONG, **parameters}), replies)
        assert scores(result) == {"0.1": near(1.0), "0.2": near(1.0)}
        assert result.answer.text == "Dull."
    assert run(Selfrag(**{**LONG, "w_use": 0.5}), replies)[0].answer.text == "Good."


def test_a_segment_whose_relevance_is_missing_is_the_best():
    unsure = Reply(
        f"{IRRELEVANT}Lost.{FULLY_SUPPORTED}{GOOD}",
        {FULLY_SUPPORTED: 0.5},
        beside={FULLY_SUPPORTED: {NO_SUPPORT: 0.5}},
    )
    replies = by({"0.1": judged("Sure.", 0.99), "0.2": unsure, "0.3": "Bare."})
    result, *_ = run(code(**LONG), replies, FOUND)
    found = scores(result)
    assert found["0.1"] == near(0.99 + 0.5)
    assert found["0.2"] == near(100 / 99.01 + 0.5)
    assert found["0.3"] == near(0.5), "both are missing"
    assert result.answer.text == "Lost."
    assert run(Selfrag(**LONG), replies, FOUND)[0].answer.text == "Sure."


def test_a_missing_irrelevance_costs():
    result, *_ = run(code(**LONG), by({"0.1": Reply(f"{RELEVANT}Sure.")}), (ARNO,))
    assert scores(result)["0.1"] == near(-0.99 / 99.01)


FAMILY = {"0.1": judged_then_search("One."), "0.2": judged_then_search("Two.", 0.4)} | {
    f"0.{parent}.{child}": judged_then_search(f"Grandchild {parent}{child}.")
    for parent in (1, 2)
    for child in (1, 2)
}


def test_all_segments_share_the_passages_for_the_question():
    _, prompts, queries = run(code(**LONG, max_segments=2), by(FAMILY))
    assert queries == [OPEN.text]
    assert [prompt.count("<paragraph>") for prompt in prompts.values()] == [1] * 6
    _, _, queries = run(Selfrag(**LONG, max_segments=2), by(FAMILY))
    assert queries == [OPEN.text, f"{OPEN.text} One.", f"{OPEN.text} Two."]


def test_a_segment_stands_in_for_the_parent_of_its_younger_sibling():
    _, prompts, _ = run(code(**LONG, max_segments=3), by(FAMILY))
    seen = {place: prompt.split(f"{RETRIEVAL}<paragraph>")[0] for place, prompt in prompts.items()}
    assert seen["0.1"] == seen["0.2"] == ""
    assert seen["0.1.1"] == f"{RELEVANT}One.{FULLY_SUPPORTED}"
    assert seen["0.2.1"] == f"{RELEVANT}One.{FULLY_SUPPORTED}{RELEVANT}Two.{FULLY_SUPPORTED}"
    assert seen["0.1.1.1"] == f"{RELEVANT}One.{FULLY_SUPPORTED}{RELEVANT}Grandchild 11.{FULLY_SUPPORTED}"
    parentless = f"{RELEVANT}Grandchild 11.{FULLY_SUPPORTED}{RELEVANT}Grandchild 12.{FULLY_SUPPORTED}"
    assert seen["0.1.2.1"] == parentless, "One is lost"
    _, prompts, _ = run(Selfrag(**LONG, max_segments=2), by(FAMILY))
    assert "One" not in prompts["0.2.1"]


def test_a_sibling_that_is_read_to_its_end_leaves_all_of_it():
    replies = FAMILY | {"0.1": f"{RELEVANT}One.{NO_RETRIEVAL}More.{GOOD}"}
    _, prompts, _ = run(code(**LONG, max_segments=2), by(replies))
    left = f"{RELEVANT}One.{NO_RETRIEVAL}More.{GOOD}<|end|>{NO_RETRIEVAL}"
    assert prompts["0.2.1"].startswith(f"{left}{RELEVANT}Two.{FULLY_SUPPORTED}{RETRIEVAL}")


def test_the_deepest_level_wins():
    replies = by({"0.1": judged("Whole.", 0.99, 0.99), "0.2": judged_then_search("Part.", 0.6, 0.1)})
    result, prompts, _ = run(code(**LONG), replies)
    assert prompts.keys() == {"0.1", "0.2", "0.2.1", "0.2.2"}
    assert result.answer.text == "Part. .", "the segment behind it is an end token, of which a stop is left"
    assert run(Selfrag(**LONG), replies)[0].answer.text == "Whole."


def test_a_segment_runs_on_to_the_next_search():
    more = f"One.{FULLY_SUPPORTED}{CONTINUE}Two.{NO_RETRIEVAL}Three."
    result, prompts, _ = run(code(**LONG, max_segments=1), by({"0.1": judged_then_search(more)}), (ARNO,))
    written = next(event for event in result.trace.events if isinstance(event, Generated))
    assert written.text.endswith("thrown away")
    assert candidates(result)["0.1"].text == f"One.{CONTINUE}Two.Three."
    assert prompts.keys() == {"0.1"}


@pytest.mark.parametrize(
    ("search", "goes_on", "threshold", "expected"),
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
def test_no_retrieval_may_be_read_as_retrieval(search, goes_on, threshold, expected):
    probs = {RETRIEVAL: search, CONTINUE: goes_on, NO_RETRIEVAL: 1 - search - goes_on}
    assert is_rewritten(probs, threshold) is expected
    beside = {NO_RETRIEVAL: {RETRIEVAL: search, CONTINUE: goes_on}}
    reply = Reply(f"One.{NO_RETRIEVAL}Tail.", doubts={NO_RETRIEVAL: probs[NO_RETRIEVAL]}, beside=beside)
    result, prompts, _ = run(code(**LONG, threshold=threshold), by({"0.1": reply}), (ARNO,))
    assert ("0.1.1" in prompts) is expected
    assert result.answer.text == ("One. ." if expected else "One. Tail.")


def written(*pieces, control=(), shows=True):
    """Return a generation of these pieces; those of `control` are control tokens, which its text may hide."""
    tokens, text = [], ""
    for id, piece in enumerate(pieces, start=100):
        shown = piece if shows or piece not in control else ""
        own = IDS[piece] if piece in control else id
        probs = tuple(float(name == RETRIEVAL) for name in SCORED_TOKENS)
        tokens.append(Token(own, shown, len(text), len(text) + len(shown), probs=probs))
        text += shown
    return Generation(text, tuple(tokens))


VOCABULARY = ReflectionVocabulary.of(ScriptedModel(control=ALL_TOKENS))
IDS = VOCABULARY.ids


@pytest.mark.parametrize(
    ("generation", "text", "behind", "searches"),
    [
        (written("One.", RETRIEVAL, "Two.", control=[RETRIEVAL]), "One.", ((100,),), True),
        (written("One.", "[Retr", "ieval]", "Two."), "One.", ((100,),), True),
        (written("One.", " x[Retr", "ieval]"), "One. x", ((100,), untrusted(" x")), True),
        (
            written("One.", RETRIEVAL, "Two.", control=[RETRIEVAL], shows=False),
            "One.Two.",
            ((100, 102),),
            False,
        ),
        (written("One.", NO_RETRIEVAL, control=[NO_RETRIEVAL]), "One.", ((100,),), True),
        (written("One.", NO_RETRIEVAL, control=[NO_RETRIEVAL], shows=False), "One.", ((100,),), False),
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


def test_a_level_keeps_as_many_nodes_as_the_beam_is_wide():
    replies = by({f"0.{n}": judged_then_search(f"Text {n}.", n / 10) for n in (1, 2, 3)})
    _, prompts, _ = run(code(**LONG, max_segments=2), replies, FOUND)
    assert prompts.keys() == {"0.1", "0.2", "0.3"} | {f"0.{p}.{c}" for p in (2, 3) for c in (1, 2, 3)}
    _, prompts, _ = run(code(**LONG, max_segments=2, beam_width=1), replies, FOUND)
    assert prompts.keys() == {"0.1", "0.2", "0.3", "0.3.1", "0.3.2", "0.3.3"}


def test_a_node_that_ends_at_once_ends_the_tree_with_the_next_level():
    replies = by({place: judged_then_search("More.", 0.1) for place in ("0.1", "0.1.1", "0.1.1.1")})
    _, prompts, _ = run(code(**LONG), replies)
    assert max(place.count(".") for place in prompts) == 2
    _, prompts, _ = run(code(**LONG), replies, (ARNO,))
    assert max(place.count(".") for place in prompts) == 4


def test_where_the_best_path_says_nothing_the_second_answers():
    result, *_ = run(code(**LONG), by({"0.2": judged("The Po.", 0.2, 0.2)}))
    assert max(scores(result), key=scores(result).get) == "0.1"
    assert result.answer.text == "The Po."


def test_unsupported_segments_go_from_the_finished_path_only():
    bad = f"{RELEVANT}Bad.{NO_SUPPORT}{RETRIEVAL}"
    replies = by({"0.1": bad, "0.1.1": judged_then_search("Good."), "0.1.1.1": bad})
    result, prompts, _ = run(code(**LONG, max_segments=3, reject_unsupported=True), replies, (ARNO,))
    assert "0.1.1.1" in prompts
    assert result.answer.text == "Good."
    assert [citation.number for citation in result.answer.citations] == [1]
    assert run(code(**LONG, max_segments=2), replies, (ARNO,))[0].answer.text == "Bad. Good."


# Long form: text and citations.


def test_every_segment_cites_its_passage_at_its_end():
    replies = by({"0.1": f"{IRRELEVANT}It is long. It is old.{RETRIEVAL}", "0.1.1": judged("It is wet.")})
    result, *_ = run(code(**LONG), replies, (ARNO,))
    assert result.answer.text == "It is long. It is old. It is wet."
    assert result.answer.citations == (Citation(1, ARNO, 12, 22), Citation(2, ARNO, 23, 33))
    assert not run(Selfrag(**LONG), by({"0.1": f"{IRRELEVANT}It is old."}), (ARNO,))[0].answer.citations


def test_a_text_that_stood_before_is_left_out_but_counts():
    text, citations = alce_answer([("One.", ARNO), (f"{RELEVANT}One.", PO), ("", PO), ("Two.", TIBER)])
    assert text == "One. Two."
    assert citations == (Citation(1, ARNO, 0, 4), Citation(4, TIBER, 5, 9))


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("No stop", "No sto."),
        ("Really?", "Really."),
        (f"One.{NO_RETRIEVAL}Two.", "One. Two."),
        ("It is 3.14 in the U.S. now.", "It is 3. 14 in the U. S. now."),
    ],
)
def test_the_last_character_becomes_a_full_stop_and_full_stops_part_words(written, text):
    assert alce_answer([(written, ARNO)])[0] == text


def test_what_goes_on_with_a_passage_is_cited_as_the_first_of_all():
    text, citations = alce_answer(
        [("One.", ARNO), (f"Two.{FULLY_SUPPORTED}{CONTINUE}Three.{FULLY_SUPPORTED}", PO)]
    )
    assert text == "One. Two. Three."
    assert [(each.number, each.passage, text[each.start : each.end]) for each in citations] == [
        (1, ARNO, "One."),
        (1, ARNO, "Two."),
        (2, PO, "Three."),
    ]
    assert alce_answer([(f"Two{CONTINUE}Three.", PO)])[0] == f"Two{CONTINUE}Three."


def test_biographies_are_whole_and_cite_nothing():
    replies = by(
        {
            "0.1": judged_then_search("He ran."),
            "0.1.1": judged_then_search("He ran."),
            "0.1.1.1": "And rested",
        }
    )
    result, *_ = run(code(**LONG, task="biography"), replies, (ARNO,))
    assert result.answer.text == "He ran. He ran. And rested"
    assert result.answer.citations == ()
