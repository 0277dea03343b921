"""The measurements of a finished Self-RAG model: its tokens on rows not seen, and the form of its answers."""

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from askance_lab.training.selfrag.acceptance import accept
from askance_lab.training.selfrag.rows import SelfRagRow
from tests.methods.reflecting import native, said

PASSAGE = "<paragraph>Ulm\nIt is in Ulm.</paragraph>"
ROW = SelfRagRow(
    "1", "nq", "Where is it?", "", f"[Retrieval]{PASSAGE}[Relevant]In Ulm.[Fully supported][Utility:5]"
)
GOOD = "[Relevant]In Ulm.[Fully supported][Utility:5]"


@pytest.mark.parametrize(
    ("written", "is_good"),
    [
        (GOOD, True),
        ("[Irrelevant]In Ulm.[Utility:5]", True),
        ("[Relevant]In Ulm.[Fully supported]It is old.[Utility:5]", True),
        ("[Relevant]In Ulm.[Fully supported][Continue to Use Evidence]Yes.[Utility:5]", True),
        ("[Relevant]In Ulm.[Fully supported][Retrieval]", True),
        ("[Relevant]In Ulm.[Utility:5]", False),
        ("[Irrelevant]In Ulm.[Fully supported][Utility:5]", False),
        ("[Relevant][Fully supported][Utility:5]", False),
        ("In Ulm.[Utility:5]", False),
        ("[Relevant]In Ulm.[Fully supported]", False),
        ("[Relevant]In Ulm.[Fully supported]" + "It is. " * 200, None),
        ("", False),
    ],
)
def test_the_form_of_an_answer_with_a_passage(written, is_good):
    model = native(lambda prompt, key: said(written) if key[0] == "write" else said("[Relevant]"))
    accepted = asyncio.run(accept(model, [ROW], Counter(), 10))
    if is_good is None:
        assert (accepted.num_written, accepted.num_unfinished) == (0, 1)
    else:
        assert accepted.well_formed == is_good


@pytest.mark.parametrize(
    ("written", "share"),
    [
        ("[No Retrieval]In Ulm.[Utility:5]", 1.0),
        ("[Retrieval]", 1.0),
        ("[Continue to Use Evidence]In Ulm.[Utility:5]", 0.0),
    ],
)
def test_the_form_of_an_answer_without_a_passage(written, share):
    row = replace(ROW, output="[No Retrieval]In Ulm.[Utility:5]")
    accepted = asyncio.run(accept(native(lambda prompt, key: said(written)), [row], Counter(), 10))
    assert (accepted.num_written, accepted.well_formed) == (1, share)


def test_tokens_are_measured_and_limited():
    rows = [replace(ROW, id=f"{number}", instruction=f"Where is it {number}?") for number in range(6)]
    wrong = [replace(row, output=row.output.replace("[Relevant]", "[Irrelevant]")) for row in rows[3:]]
    rows = [*rows[:3], *wrong, replace(ROW, learned="tokens"), replace(ROW, id="again", learned="tokens")]

    def reply(prompt, key):
        if key[0] == "write" or not prompt.endswith("</paragraph>"):
            return said(GOOD)
        return said("[Relevant]", {"[Relevant]": 0.8, "[Irrelevant]": 0.1})

    accepted = asyncio.run(accept(native(reply), rows, Counter({"[Relevant]": 9}), 100))
    assert accepted.num_written == 6, "a row with a wrong text says nothing of the form"
    relevance = accepted.results["relevance"]
    assert (relevance.num_cases, relevance.accuracy) == (7, 4 / 7), "equal cases count once"
    assert relevance.area.area == 0.5, "one distribution for all cases separates none"
    assert asyncio.run(accept(native(reply), rows, Counter(), 2)).results["relevance"].num_cases == 2
    long = replace(ROW, output=ROW.output.replace("It is in Ulm.", "word " * 5000))
    for nothing in ([], [long]):
        accepted = asyncio.run(accept(native(reply), nothing, Counter(), 10))
        assert (accepted.results, accepted.num_written) == ({}, 0), "a row beyond the window is not measured"
