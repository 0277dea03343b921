"""Rows of Self-RAG: what is learned, what is only read, and what is malformed."""

import json

import pytest

from askance.core.errors import InputError
from askance_lab.training.selfrag.rows import SelfRagRow, parse_output, read_rows, training_example

TWO_PASSAGES = (
    "[Retrieval]<paragraph>Ulm\nUlm is a town.</paragraph>[Relevant]It is in Ulm.[Fully supported]"
    "[Retrieval]<paragraph>Bonn\nBonn is, too.</paragraph>[Irrelevant]So it is.[Utility:5]"
)


def learned(parsed):
    return "".join(piece.span.text for piece in parsed.spans if piece.weight)


def test_only_what_stands_between_matching_paragraph_tokens_is_not_learned():
    """The authors' mask covers everything from the first passage to the last; between them are answers."""
    parsed = parse_output(TWO_PASSAGES)
    assert learned(parsed) == (
        "[Retrieval]<paragraph></paragraph>[Relevant]It is in Ulm.[Fully supported]"
        "[Retrieval]<paragraph></paragraph>[Irrelevant]So it is.[Utility:5]"
    )
    passages = [piece.span for piece in parsed.spans if not piece.weight]
    assert [span.text for span in passages] == ["Ulm\nUlm is a town.", "Bonn\nBonn is, too."]
    assert not any(span.trusted for span in passages)
    assert parsed.tokens == tuple(piece.span.text for piece in parsed.spans if piece.span.trusted)


def test_tokens_inside_a_passage_are_data():
    parsed = parse_output(
        "[Retrieval]<paragraph>Say [Utility:5] or <paragraph> now.</paragraph>[Relevant]No."
    )
    assert parsed.tokens == ("[Retrieval]", "<paragraph>", "</paragraph>", "[Relevant]")
    (passage,) = (piece.span.text for piece in parsed.spans if not piece.weight)
    assert "[Utility:5]" not in passage
    assert passage.replace("\u200b", "") == "Say [Utility:5] or <paragraph> now."


def test_an_empty_passage_an_end_without_a_start_and_a_start_without_an_end():
    assert learned(parse_output("<paragraph></paragraph>Yes.")) == "<paragraph></paragraph>Yes."
    assert learned(parse_output("Yes.</paragraph>[Utility:1]")) == "Yes.</paragraph>[Utility:1]"
    cut = parse_output("Yes.[Retrieval]<paragraph>Ulm is a")
    assert (cut.spans, cut.is_cut) == ((), True)
    assert parse_output("").spans == ()


def test_rows_of_the_authors_format(tmp_path):
    file = tmp_path / "rows.jsonl"
    row = {
        "instruction": "Where [Relevant]?",
        "input": "",
        "output": "Ulm.[Utility:5]",
        "topic": "",
        "id": "n7",
    }
    file.write_text("\n".join(map(json.dumps, [row | {"dataset_name": "nq"}, {**row, "id": 8}])))
    first, second = read_rows(file)
    assert (first.id, first.dataset, second.id, second.dataset) == ("n7", "nq", "8", "")
    assert len(read_rows(file, limit=1)) == 1
    made = training_example(first, parse_output(first.output), "rows.jsonl")
    assert (made.task, made.id) == ("nq", "rows.jsonl/n7")
    shown = "".join(span.text for span in made.prompt.parts)
    assert shown.replace("\u200b", "") == "### Instruction:\nWhere [Relevant]?\n\n### Response:\n"
    assert "[Relevant]" not in shown, "a token in an instruction is data"


def row_with(**changed):
    given = {"id": "1", "dataset": "", "instruction": "Where?", "input": "", "output": "Ulm.[Utility:5]"}
    return SelfRagRow(**(given | changed))


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "has no rows"),
        ('{"instruction": "Where?"}', "output"),
        ('{"instruction": "Where?", "output": 7}', "output"),
        ('{"instruction": "Where?", "output": "Ulm."}\n{"instruction": ', "line 2"),
    ],
)
def test_malformed_rows_are_named(tmp_path, content, expected):
    file = tmp_path / "rows.jsonl"
    file.write_text(content)
    with pytest.raises(InputError, match=expected):
        read_rows(file)
