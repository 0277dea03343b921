"""FlashRAG's layout for files of questions, which most datasets accept besides their authors' layout.

FlashRAG (Jin et al. 2024, arXiv 2405.13576) publishes all datasets as JSON Lines in one layout. A record in
this layout is recognised by its `golden_answers`:

    {"id": "dev_0", "question": "Which river surrounds Lübeck?", "golden_answers": ["Trave"],
     "metadata": {"type": "bridge", "supporting_facts": {"title": ["Lübeck"], "sent_id": [1]},
                  "context": {"title": ["Lübeck"], "sentences": [["A city.", "It lies on the Trave."]]}}}

The kind of the question (`type`, or `prop` in PopQA), the supporting titles, the number of hops and the
supporting facts come from `metadata`. In HotpotQA and 2WikiMultihopQA, the supporting facts are in
`supporting_facts` and `context`; 2WikiMultihopQA writes "content" for "sentences", and also has `evidences`.
In MuSiQue, the supporting facts are in `question_decomposition`, which holds only the supporting paragraphs.
Supporting facts of other datasets are ignored.

The rows of SQuAD, TriviaQA and HotpotQA on the Hugging Face hub are turned into this layout. They have their
answers in the columns of a table, and HotpotQA its supporting facts:

    {"question": "…", "answers": {"text": ["Trave"], "answer_start": [9]}}
    {"question": "…", "question_id": "tc_7", "answer": {"value": "Trave", "aliases": ["River Trave"]}}

The answers of StrategyQA become yes or no, even if they are written as true, "Yes" or "False".
"""

import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from askance.core.errors import DatasetError
from askance.core.records import Convert, Field, RowsOf, converted, parquet_rows, rows, unique
from askance.core.types import Task
from askance.evaluation.datasets.example import (
    Example,
    Paragraph,
    SupportingFacts,
    complete_triples,
    paragraphs_from_facts,
    reasoning_steps,
    whole,
    with_passages,
)
from askance.evaluation.datasets.own import jsonl, parse_example

SHAPE = (
    "A record in FlashRAG's layout is "
    '{"id": "…", "question": "…", "golden_answers": ["…"], "metadata": {…}}.'
)
_YES_NO = {"true": "yes", "false": "no", "yes": "yes", "no": "no"}


def read_either(
    path: Path,
    shape: str,
    *,
    convert: Convert[Example],
    rows_of: RowsOf = rows,
    task: Task | None = None,
    official_option: str = "",
) -> Iterator[Example]:
    """Yield the questions of a file whose records are in the authors' layout or in FlashRAG's.

    Args:
        shape, convert: The shape of a record in the authors' layout, and the function that converts such a
            record (see `converted`).
        rows_of: A function that yields the records of the file, each after its location in the file.
        task: The task of all questions; None if each record states its own task.
        official_option: The name of an option that the user gave and that applies only to the authors'
            layout; empty if the user gave none.

    Raises:
        DatasetError: As for `converted`, or `official_option` was given for a record in FlashRAG's layout.
    """
    for number, (place, row) in enumerate(rows_of(path), start=1):
        convert_row, row_shape = convert, shape
        if isinstance(row, dict) and (of_hub := _of_hub(row)):
            row, convert_row = of_hub, partial(flashrag, task=task)
        elif isinstance(row, dict) and "golden_answers" in row:
            if official_option:
                raise DatasetError(
                    f"{path}, {place}: the option {official_option} has no meaning in FlashRAG's layout: "
                    "leave it out, or name the file that the dataset's authors publish."
                )
            convert_row, row_shape = partial(flashrag, task=task), SHAPE
        yield from converted(row, number, with_passages(convert_row), row_shape, f"{path}, {place}")


def _of_hub(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return a row in the layout of the Hugging Face hub in FlashRAG's layout, or None for any other row."""
    answers = row.get("answers", row.get("answer"))
    if isinstance(answers, dict) and "question" in row:
        answers = answers.get("text", [answers.get("value"), answers.get("aliases", [])])
    elif not isinstance(row.get("supporting_facts"), dict) or not isinstance(answers, str):
        return None
    id = row.get("id", row.get("question_id"))
    supplied = {name: row.get(name) for name in ("ctxs", "docs")}
    return {"id": id, "question": row["question"], "answer": answers, "metadata": row, **supplied}


def flashrag(record: Field, number: int, task: Task | None = None) -> Iterator[Example]:
    """Yield the question of a record in FlashRAG's layout.

    The fields of the record itself take precedence over the fields of its metadata.

    Args:
        task: The task of all questions of the dataset; None if each record states its own task.
    """
    row, answers = record.object(), record.get("golden_answers", None).value
    if isinstance(answers, list):
        record["golden_answers"].filled()  # published files are complete
    if task == "yes_no" and isinstance(answers, list):
        row = row | {"golden_answers": [_YES_NO.get(str(each).lower(), each) for each in answers]}
    example = parse_example(Field(row), number, task)
    metadata = record.get("metadata", {})
    sentences = metadata.get("supporting_facts", {})
    facts, numbers = _columns(sentences, "title", "sent_id") if sentences.value else ([], [])
    hops = metadata.get("question_decomposition", []).each()
    titles = unique((*(title.text() for title in facts), *(_support(hop)[0] for hop in hops)))
    kind = metadata.get("type", "").maybe_blank() or metadata.get("prop", "").maybe_blank()
    yield dataclasses.replace(
        example,
        supporting_titles=example.supporting_titles or titles,
        kind=example.kind or kind,
        hops=example.hops or len(hops or titles) or None,
        supporting_facts=_supporting_facts(metadata, facts, numbers),
    )


def _supporting_facts(metadata: Field, facts: list[Field], numbers: list[Field]) -> SupportingFacts:
    """Return the paragraphs, the triples and the reasoning steps of a record's metadata.

    A `context` without `supporting_facts` comes from another dataset and is ignored.
    """
    hops, rows, paragraphs = metadata.get("question_decomposition", []).each(), [], list[Paragraph]()
    if facts and metadata["evidences"].is_given:
        parts = _columns(metadata["evidences"], "fact", "relation", "entity")
        rows = [[part.maybe_blank() for part in row] for row in zip(*parts, strict=True)]
    if facts and metadata["context"].is_given:
        context = metadata["context"]
        sentences = "content" if "content" in context.object() else "sentences"
        texts = [
            (title.maybe_blank(), text.maybe_blanks())
            for title, text in zip(*_columns(context, "title", sentences), strict=True)
        ]
        if numbers:
            pairs = ((title.text(), number.integer()) for title, number in zip(facts, numbers, strict=True))
            paragraphs += paragraphs_from_facts(texts, pairs)
    for title, text in dict.fromkeys(map(_support, hops)):
        if text.strip():
            paragraphs.append(Paragraph(title, text, whole(text)))
    steps = reasoning_steps(map(question_and_answer, hops))
    return SupportingFacts(tuple(paragraphs), complete_triples(rows), steps)


def question_and_answer(hop: Field) -> tuple[str, str]:
    """Return the question of a hop and its answer. In the question, "#1" stands for the first answer."""
    return hop.get("question", "").maybe_blank(), hop.get("answer", "").maybe_blank()


def _support(hop: Field) -> tuple[str, str]:
    """Return the title and the text of the paragraph that answers a hop of MuSiQue."""
    paragraph = hop["support_paragraph"]
    return paragraph["title"].text(), paragraph.get("paragraph_text", "").maybe_blank()


def _columns(table: Field, *names: str) -> list[list[Field]]:
    """Return the columns of a table that is stored as parallel lists."""
    columns = {name: table[name].each() for name in names if table[name].is_given or name != "sent_id"}
    if len({len(column) for column in columns.values()}) > 1:
        listing = ", ".join(f"{name} has {len(columns[name])}" for name in sorted(columns))
        raise table.flaw(f"has lists of different lengths ({listing})")
    return [columns.get(name, []) for name in names]


def read_parquet(path: Path, shape: str, split: str | None = None) -> Iterator[Example]:
    """Yield the questions of a Parquet file, or of a split in a folder, in any layout of `jsonl`."""
    return read_either(path, shape, convert=jsonl, rows_of=partial(parquet_rows, split=split))


read_jsonl = partial(read_either, convert=jsonl)
