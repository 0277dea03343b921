"""The supporting facts of a user's own questions."""

import pytest

from askance.configuration.evaluation import read_dataset
from askance.core.errors import DatasetError
from askance.evaluation.datasets.example import Paragraph, ReasoningStep, SupportingFacts, Triple
from tests.evaluation.datasets.test_formats import lines, write
from tests.evaluation.datasets.test_supporting_facts import supporting_facts_of

BONN = {"question": "Which river flows through Bonn?", "answers": ["Rhine"]}


def own(**fields):
    return lines(BONN | fields)


def test_supporting_facts_of_your_own(tmp_path):
    content = own(
        paragraphs=[
            {
                "title": "Bonn",
                "text": "Bonn is old. It lies on the Rhine. Beethoven was born there.",
                "evidence": [" It lies on the Rhine. ", "Bonn is old."],
            },
            {"text": "The Rhine is long.", "supporting": True},
            {"title": "Elbe", "text": "A river.", "supporting": False},
            {"title": "Trave", "text": "A river.", "evidence": []},
        ],
        facts=["Bonn is a city."],
        steps=[{"question": "Where is Bonn?", "answer": "at the Rhine"}, {"question": "Is #1 a river?"}],
        triples=[["Bonn", "river", "Rhine"]],
    )
    text = "Bonn is old. It lies on the Rhine. Beethoven was born there."
    assert supporting_facts_of("jsonl:{}", content, tmp_path) == [
        SupportingFacts(
            (
                Paragraph("Bonn", text, ((0, 12), (13, 34))),
                Paragraph("", "The Rhine is long.", ((0, 18),)),
                Paragraph("Elbe", "A river."),
                Paragraph("Trave", "A river."),
            ),
            (Triple("Bonn", "river", "Rhine"),),
            (ReasoningStep("Where is Bonn?", "at the Rhine"), ReasoningStep("Is #1 a river?")),
            ("Bonn is a city.",),
        )
    ]


def test_evidence_of_a_paragraph_that_is_said_to_support_is_the_narrower(tmp_path):
    paragraph = {"text": "Bonn is old. It is a city.", "evidence": ["It is a city."], "supporting": True}
    (supporting_facts,) = supporting_facts_of("jsonl:{}", own(paragraphs=[paragraph]), tmp_path)
    assert supporting_facts.paragraphs[0].evidence_texts == ("It is a city.",)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"paragraphs": [{"text": "A city.", "evidence": ["A city.", "A town."]}]},
            r"line 1, field paragraphs\.0\.evidence\.1: is not in the paragraph's text: copy it from there "
            r"letter by letter, found 'A town\.'\. A line is",
        ),
        ({"paragraphs": [{"text": "A city.", "evidence": [" "]}]}, r"evidence\.0: is empty, found ' '"),
        ({"paragraphs": [{"text": "A.", "evidence": "A."}]}, r"paragraphs\.0\.evidence: .*list, found 'A\.'"),
        ({"paragraphs": [{"title": "Bonn", "evidence": ["A."]}]}, r"field paragraphs\.0\.text: missing"),
        (
            {"paragraphs": [{"text": "A.", "evidences": []}]},
            r"0: there is no field 'evidences': .*'evidence'\? A",
        ),
        (
            {"paragraphs": [{"text": "A.", "evidence": ["A."], "supporting": False}]},
            r"paragraphs\.0: has evidence, but is not supporting: leave one of them out",
        ),
        ({"paragraphs": [{"text": "A.", "supporting": "yes"}]}, r"supporting: .*boolean, found 'yes'"),
        ({"paragraphs": ["A city."]}, r"field paragraphs\.0: not an object, found 'A city\.'"),
        ({"fact": ["A city."]}, "line 1: there is no field 'fact': did you mean 'facts'"),
        ({"facts": "A city."}, r"field facts: .*list, found 'A city\.'"),
        ({"facts": [""]}, r"field facts\.0: is empty, found ''"),
        ({"steps": [{"answer": "Rhine"}]}, r"field steps\.0\.question: missing"),
        ({"steps": ["Where?"]}, r"field steps\.0: not an object, found 'Where\?'"),
        ({"triples": [["Bonn", "river"]]}, r"field triples\.0\.2: missing"),
        ({"triples": [["Bonn", "river", ""]]}, r"field triples\.0\.2: is empty, found ''"),
        ({"triples": ["Bonn"]}, r"field triples\.0: not a list, found 'Bonn'"),
    ],
)
def test_a_flaw_in_supporting_facts_of_your_own(tmp_path, fields, message):
    path = write(tmp_path / "own.jsonl", own(**fields))
    with pytest.raises(DatasetError, match=message) as caught:
        read_dataset(f"jsonl:{path}")
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value).replace(str(path), "")) < 500


def test_a_table_and_the_sample_tell_none(tmp_path):
    path = write(tmp_path / "own.csv", "question,answers,facts,paragraphs\nWho?,Ada,a,b\n")
    assert [example.supporting_facts for example in read_dataset(f"csv:{path}")] == [SupportingFacts()]
    assert {example.supporting_facts for example in read_dataset("sample")} == {SupportingFacts()}
