"""Assembly of rows from annotations: which passage is chosen, and that no sentence is lost."""

import pytest

from askance.methods.selfrag.tokens import ALL_TOKENS, TOKEN
from askance_lab.training.selfrag.annotations import AnnotatedSentence, Annotation, JudgedPassage
from askance_lab.training.selfrag.assembly import RULES, assembled_rows
from askance_lab.training.selfrag.rows import SelfRagRow, parse_output, written_segments
from askance_lab.training.selfrag.settings import SelfRagSettings

FULL = JudgedPassage("Full", "All of it.", "[Relevant]", "[Fully supported]")
PART = JudgedPassage("Part", "Half of it.", "[Relevant]", "[Partially supported]")
NONE = JudgedPassage("None", "Beside the point.", "[Relevant]", "[No support / Contradictory]")
OTHER = JudgedPassage("Other", "Something else.", "[Irrelevant]", "[No support / Contradictory]")
UNKNOWN = JudgedPassage("Unknown", "No label.", "", "")
NUMBER = 400


def annotation(
    *sentences, id="r", dataset="made", retrieve="[Retrieval]", utility="[Utility:5]", output="A."
):
    return Annotation(SelfRagRow(id, dataset, "Why?", "", output), retrieve, utility, None, sentences)


def sentence(*passages, text="So it is.", retrieve="[Retrieval]"):
    return AnnotatedSentence(text, retrieve, passages=passages)


def output_of(*sentences, **changed):
    """Return the output of one annotation, and what it lacked."""
    settings = {name: changed.pop(name) for name in list(changed) if name.endswith("_kept")}
    rows, lacking = assembled_rows([annotation(*sentences, **changed)], SelfRagSettings(**settings))
    return (rows[0].output if rows else None), lacking


def is_about(found, share):
    """Return whether a share of `NUMBER` draws is within five standard deviations of the expected one."""
    deviation = (share * (1 - share) / NUMBER) ** 0.5
    return share - 5 * deviation < found < share + 5 * deviation


def shares(*passages, dataset="made", **settings):
    """Return how often each passage is chosen in many rows."""
    many = [annotation(sentence(*passages), id=f"r{number}", dataset=dataset) for number in range(NUMBER)]
    rows, _ = assembled_rows(many, SelfRagSettings(**settings))
    titles = [(written_segments(row.output)[0][0].passage or UNKNOWN.passage).title for row in rows]
    return {title: titles.count(title) / len(titles) for title in set(titles)}


@pytest.mark.parametrize(
    ("sentences", "changed", "output"),
    [
        (
            [
                sentence(OTHER, FULL),
                sentence(text="Thus.", retrieve="[Continue to Use Evidence]"),
                AnnotatedSentence("Ok.", is_short=True),
                sentence(text="I think so.", retrieve="[No Retrieval]"),
            ],
            {},
            "[Retrieval]<paragraph>Full\nAll of it.</paragraph>[Relevant]So it is.[Fully supported]"
            "[Continue to Use Evidence]Thus. Ok.[No Retrieval]I think so.[Utility:5]",
        ),
        # An irrelevant passage is followed by the sentence without support.
        (
            [sentence(OTHER)],
            {},
            "[Retrieval]<paragraph>Other\nSomething else.</paragraph>[Irrelevant]So it is.[Utility:5]",
        ),
        # One word is enough for a claim; more of it must be useful.
        (
            [sentence(FULL, text="True")],
            {"utility": "[Utility:1]", "output": "True"},
            "[Retrieval]<paragraph>Full\nAll of it.</paragraph>[Relevant]True[Fully supported][Utility:5]",
        ),
        ([], {"retrieve": "[No Retrieval]", "no_retrieval_kept": 1.0}, "[No Retrieval]A.[Utility:5]"),
        # No sentence is lost for want of a label, a passage, or evidence to continue with.
        ([sentence()], {}, "[No Retrieval]So it is.[Utility:5]"),
        ([sentence(UNKNOWN)], {}, "[No Retrieval]So it is.[Utility:5]"),
        ([sentence(retrieve="")], {}, "[No Retrieval]So it is.[Utility:5]"),
        ([sentence(retrieve="[Continue to Use Evidence]")], {}, "[No Retrieval]So it is.[Utility:5]"),
    ],
)
def test_the_output_of_an_annotation(sentences, changed, output):
    found, lacking = output_of(*sentences, **changed)
    assert found == output
    assert sum(lacking.values()) == (output == "[No Retrieval]So it is.[Utility:5]")
    assert not parse_output(found).is_cut


def test_what_a_sentence_lacks_is_named():
    for bare, what in ((sentence(), "a passage"), (sentence(retrieve=""), "a label of retrieve")):
        assert [*output_of(bare)[1]] == [f"sentences with [No Retrieval] for want of {what}"]


def test_the_best_passage_and_its_chances():
    assert shares(OTHER, PART, FULL) == {"Full": 1.0}
    part = shares(OTHER, PART, NONE)
    assert set(part) == {"Part", "Other"}
    assert is_about(part["Part"], 0.7)
    none = shares(NONE, OTHER)
    assert is_about(none["None"], 0.25)
    assert shares(OTHER, PART, partial_kept=0.0) == {"Other": 1.0}
    assert shares(PART, partial_kept=0.0) == {"Part": 1.0}, "a sentence keeps a passage if there is one"
    assert shares(NONE, unsupported_kept=0.0) == {"None": 1.0}


def test_rules_of_sources():
    assert set(RULES) == {"nq", "fever", "wow"}
    nq = shares(FULL, OTHER, dataset="nq")
    assert is_about(nq["Other"], 0.25)
    assert shares(NONE, dataset="fever") == {"None": 1.0}
    output, _ = output_of(sentence(NONE), dataset="wow")
    assert "[Irrelevant]So it is.[Utility" in output, "unsupported counts as irrelevant"


def test_answers_that_need_no_search():
    many = [annotation(id=f"r{number}", retrieve="[No Retrieval]") for number in range(NUMBER)]
    rows, lacking = assembled_rows(many, SelfRagSettings())
    assert is_about(len(rows) / NUMBER, 0.4)
    assert sum(lacking.values()) == NUMBER - len(rows)
    again, _ = assembled_rows(many[::-1], SelfRagSettings())
    assert set(again) == set(rows), "a row is drawn by its id, not by its place"


def test_missing_labels_of_a_row():
    for lacking_one in ({"retrieve": ""}, {"utility": ""}):
        output, left_out = output_of(sentence(FULL), **lacking_one)
        assert output is None
        (name,) = lacking_one
        assert list(left_out) == [f"rows left out: the critic gave no label of {name}"]
    output, left_out = output_of()
    assert (output, list(left_out)) == (None, ["rows left out: no text to judge"])


def test_tokens_in_answers_are_text():
    output, _ = output_of(sentence(FULL, text="Say [Relevant] or </paragraph>."))
    assert " ".join(TOKEN.findall(output)) == (
        "[Retrieval] <paragraph> </paragraph> [Relevant] [Fully supported] [Utility:5]"
    )
    bare, _ = output_of(retrieve="[No Retrieval]", output="[Utility:1]", no_retrieval_kept=1.0)
    assert [each for each in TOKEN.findall(bare) if each in ALL_TOKENS] == ["[No Retrieval]", "[Utility:5]"]
