"""The sheet on which people judge answers, and what filled sheets say."""

import csv
import io
import math

import pytest

from askance.core.answers import Answer, Citation
from askance.core.errors import DatasetError, RunFolderError
from askance.core.types import Hit, Passage
from askance.evaluation.judging.judge_run import answer_hash
from askance.evaluation.report.sheet import ASKED, kappas, read_sheet, shares, sheet
from askance.methods.selfrag.method import Selfrag
from askance.methods.selfrag.tokens import IRRELEVANT, RELEVANT
from tests.evaluation.hand_made import answered, record, written
from tests.methods.reflecting import IN_ARNO, IN_PO, native, relevant, supported
from tests.methods.reflecting import run as reflect
from tests.tolerances import near

BONN = Passage("1", "Bonn", "Bonn is an old city.")
ULM, ROME = Passage("2", "Ulm", "Ulm is an old city."), Passage("3", "Rome", "Rome is an old city.")
YES_NO = {"y": "yes", "n": "no", "Y": " Yes ", "-": ""}


@pytest.fixture
def run(tmp_path):
    """Five answers: the first cites a passage, and the second looks like a formula."""
    texts = ["Bonn is old.", "=HYPERLINK(1)", "C.", "D.", "E."]
    cited = Answer(texts[0], "", (Citation(1, BONN, 0, 12),))
    answers = [cited, *map(Answer, texts[1:])]
    records = [record(number, text=text, id=f"@q{number}") for number, text in enumerate(texts, start=1)]
    return written(tmp_path / "run", records, list(map(answered, answers)))


def filled(run, path, **columns):
    """Write the sheet of a run with verdicts, a letter for each row."""
    rows = list(csv.DictReader(io.StringIO(sheet(run))))
    for name, letters in columns.items():
        for row, letter in zip(rows, letters, strict=True):
            row[name] = YES_NO.get(letter, letter)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_a_sheet_shows_answers_with_their_passages_and_no_formula(run):
    first, second, *others = csv.DictReader(io.StringIO(sheet(run)))
    assert [first[name] for name in ("id", "answer", "passages")] == [
        "'@q1",
        "Bonn is old [1].",
        "[1] Bonn Bonn is an old city.",
    ]
    assert second["answer"] == "'=HYPERLINK(1)"
    assert len(others) == 3
    assert all(row[name] == "" for row in (first, second, *others) for name in ASKED)
    cells = [cell for row in (first, second, *others) for cell in row.values()]
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


def test_the_tokens_are_those_of_the_answer_that_was_chosen(tmp_path):
    good = relevant(0.9, "The Arno.[Partially supported]", supported(0.1, 0.6, 0.3))
    poor = relevant(0.1, "The Po.")
    result, _, _ = reflect(Selfrag(mode="always"), native({IN_ARNO: good, IN_PO: poor}))
    run = written(tmp_path / "run", [record(1, text=result.answer.text)], [result.trace])
    (row,) = csv.DictReader(io.StringIO(sheet(run)))
    assert (row["relevance"], row["support"]) == ("[1] [Relevant]", "[1] [Partially supported]")
    unfinished = written(tmp_path / "new", [])
    with pytest.raises(RunFolderError, match="no finished question yet"):
        sheet(unfinished)


def test_each_cited_passage_has_its_tokens_after_its_number(tmp_path):
    """With the second passage, two segments were written; the last two candidates are empty and rejected."""
    texts = ["Bonn is old.", "Ulm is old.", "Ulm is new.", "Rome is old."]
    text, passages = " ".join(texts), (BONN, ULM, ULM, ROME)
    starts = [text.index(each) for each in texts]
    cited = [
        Citation(number, passage, start, start + len(each))
        for number, passage, start, each in zip((1, 2, 2, 3), passages, starts, texts, strict=True)
    ]
    trace = answered(Answer(text, "", tuple(cited)))
    for said, passage, token, rejected in (
        *zip(texts, passages, (RELEVANT, RELEVANT, IRRELEVANT, RELEVANT), [""] * 4, strict=True),
        ("", BONN, IRRELEVANT, ""),
        (texts[3], ROME, IRRELEVANT, "it says what an earlier one said"),
    ):
        probs = {"relevance": {RELEVANT: 0.5, IRRELEVANT: 0.5} | {token: 0.9}}
        hit = Hit(passage, 1.0, 1)
        trace.expand("0.1", "retrieve", said, passage=hit, distributions=probs, rejected=rejected)
    run = written(tmp_path / "run", [record(1, text=text)], [trace])
    (row,) = csv.DictReader(io.StringIO(sheet(run)))
    tokens = ["[1] [Relevant]", "[2] [Relevant], [Irrelevant]", "[3] [Relevant]"]
    assert (row["relevance"].split("\n"), row["support"]) == (tokens, "")


def test_no_spreadsheet_takes_the_hash_of_an_answer_for_a_number(tmp_path):
    numbers = ["6426473474906837", "23338328149895e7"]
    texts = ["Answer 1140.", "Answer 274."]
    assert [answer_hash(text)[:16] for text in texts] == numbers
    run = written(tmp_path / "run", [record(n, text=text) for n, text in enumerate(texts, start=1)])
    hashes = [row["answer_hash"] for row in csv.DictReader(io.StringIO(sheet(run)))]
    assert hashes == [f"h{number[:15]}" for number in numbers]
    with pytest.raises(ValueError, match="could not convert"):
        float(hashes[1])


def test_shares_and_agreement_by_hand(run, tmp_path):
    one = read_sheet(filled(run, tmp_path / "a.csv", plausible="yyYn-", supported="ynnyy"), run)
    found = shares(one)
    assert {name: (each.mean, each.num_questions) for name, each in found.items()} == {
        "plausible": (0.75, 4),
        "supported": (0.6, 5),
        "plausible_and_supported": (0.25, 4),
    }
    assert 0 < found["supported"].low < 0.6 < found["supported"].high < 1
    other = read_sheet(filled(run, tmp_path / "b.csv", plausible="ynynn", supported="yyyyy"), run)
    agreed = kappas(one, other)
    assert agreed["plausible"] == (near((3 / 4 - 1 / 2) / (1 - 1 / 2)), 4)
    assert agreed["supported"] == (near(0.0), 5)
    assert agreed["plausible_and_supported"][1] == 4
    same = read_sheet(filled(run, tmp_path / "c.csv", supported="yyyyy"), run)
    assert math.isnan(kappas(same, other)["supported"][0])
    assert kappas(one, one)["supported"] == (near(1.0), 5)
    assert "relevance_right" not in agreed


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({}, "has no verdict: write yes or no in the columns plausible"),
        ({"plausible": ["perhaps", *"yyyy"]}, "line 2, field plausible: none of 'yes', 'no', ''"),
        ({"id": ["q9", *"----"], "plausible": "yyyyy"}, "field id: twice, or not an answer of the run"),
        ({"answer_hash": "yyyyy", "plausible": "yyyyy"}, 'not an answer of the run, found "\'@q1"'),
    ],
)
def test_sheets_with_flaws(run, tmp_path, columns, told):
    with pytest.raises(DatasetError) as error:
        read_sheet(filled(run, tmp_path / "a.csv", **columns), run)
    assert told in str(error.value)


def test_a_row_that_is_there_twice(run, tmp_path):
    path = filled(run, tmp_path / "a.csv", plausible="yyyyy")
    path.write_text(path.read_text() + path.read_text().splitlines()[1] + "\n")
    with pytest.raises(DatasetError, match="twice"):
        read_sheet(path, run)
