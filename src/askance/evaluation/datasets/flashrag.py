"""A question in FlashRAG's layout, which the file of any dataset may have.

FlashRAG (Jin et al. 2024, arXiv 2405.13576) publishes the datasets as JSON Lines of one form. A record is
known to be of it by its `golden_answers`:

    {"id": "dev_0", "question": "Which river surrounds Lübeck?", "golden_answers": ["Trave"],
     "metadata": {"type": "bridge", "supporting_facts": {"title": ["Lübeck"], "sent_id": [1]},
                  "context": {"title": ["Lübeck"], "sentences": [["A city.", "It lies on the Trave."]]}}}

`metadata` gives the kind (`type`; `prop` of PopQA), the supporting titles, the hops and the supporting facts.
The supporting facts come from `supporting_facts` and `context` of HotpotQA and 2WikiMultihopQA (which says
"content" for "sentences", and also has `evidences`), and from `question_decomposition` of MuSiQue, which
holds the supporting paragraphs alone. Supporting facts of other datasets are not read.

A question of StrategyQA is answered by yes or no, however its answer is written: true, "Yes", "False".
"""

import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from askance.core.errors import DatasetError
from askance.core.records import Convert, Field, RowsOf, converted, rows, unique
from askance.core.types import Task
from askance.evaluation.datasets.example import (
    Example,
    Paragraph,
    SupportingFacts,
    from_facts,
    steps_of,
    triples_of,
    whole,
)
from askance.evaluation.datasets.own import asked

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
    """The questions of a file whose records are in their authors' layout or in this one.

    Args:
        shape, convert: of a record in the authors' layout; as for `converted`.
        rows_of: gives the rows of the file, each with its place.
        task: of all questions, if it is not the record that tells.
        official_option: an option that was given and says something about the authors' layout only.

    Raises:
        DatasetError: as for `converted`, and where a record meets an option that it has no use for.
    """
    for number, (place, row) in enumerate(rows_of(path), start=1):
        kind, told = convert, shape
        if isinstance(row, dict) and "golden_answers" in row:
            if official_option:
                raise DatasetError(
                    f"{path}, {place}: the option {official_option} has no meaning in FlashRAG's layout: "
                    "leave it out, or name the file that the dataset's authors publish."
                )
            kind, told = partial(flashrag, task=task), SHAPE
        yield from converted(row, number, kind, told, f"{path}, {place}")


def flashrag(record: Field, number: int, task: Task | None = None) -> Iterator[Example]:
    """A question of any dataset; what the record says itself precedes its metadata.

    Args:
        task: of all questions of the dataset, if it is not the record that tells.
    """
    row, answers = record.object(), record["golden_answers"].value
    if task == "yes_no" and isinstance(answers, list):
        row = row | {"golden_answers": [_YES_NO.get(str(each).lower(), each) for each in answers]}
    example = asked(Field(row), number, "golden_answers", task)
    more = record.get("metadata", {})
    found = more.get("supporting_facts", {})
    facts, numbers = _columns(found, "title", "sent_id") if found.value else ([], [])
    hops = more.get("question_decomposition", []).each()
    titles = unique((*(title.text() for title in facts), *(_support(hop)[0] for hop in hops)))
    kind = more.get("type", "").maybe_blank() or more.get("prop", "").maybe_blank()
    yield dataclasses.replace(
        example,
        supporting_titles=example.supporting_titles or titles,
        kind=example.kind or kind,
        hops=example.hops or len(hops or titles) or None,
        supporting_facts=_supporting_facts(more, facts, numbers),
    )


def _supporting_facts(more: Field, facts: list[Field], numbers: list[Field]) -> SupportingFacts:
    """The texts and the way to the answer. Without supporting facts, a context is another dataset's."""
    hops, rows, paragraphs = more.get("question_decomposition", []).each(), [], list[Paragraph]()
    if facts and more["evidences"].is_given:
        parts = _columns(more["evidences"], "fact", "relation", "entity")
        rows = [[part.maybe_blank() for part in row] for row in zip(*parts, strict=True)]
    if facts and more["context"].is_given:
        context = more["context"]
        sentences = "content" if "content" in context.object() else "sentences"
        texts = [
            (title.maybe_blank(), text.maybe_blanks())
            for title, text in zip(*_columns(context, "title", sentences), strict=True)
        ]
        if numbers:
            told = ((title.text(), number.integer()) for title, number in zip(facts, numbers, strict=True))
            paragraphs += from_facts(texts, told)
    for title, text in dict.fromkeys(map(_support, hops)):
        if text.strip():
            paragraphs.append(Paragraph(title, text, whole(text)))
    return SupportingFacts(tuple(paragraphs), triples_of(rows), steps_of(map(question_and_answer, hops)))


def question_and_answer(hop: Field) -> tuple[str, str]:
    """A single-hop question, in which "#1" stands for the answer of the first, and its answer."""
    return hop.get("question", "").maybe_blank(), hop.get("answer", "").maybe_blank()


def _support(hop: Field) -> tuple[str, str]:
    """Title and text of what a step of MuSiQue is answered from."""
    paragraph = hop["support_paragraph"]
    return paragraph["title"].text(), paragraph.get("paragraph_text", "").maybe_blank()


def _columns(table: Field, *names: str) -> list[list[Field]]:
    """The lists of a table that lie beside each other."""
    columns = {name: table[name].each() for name in names if table[name].is_given or name != "sent_id"}
    if len({len(column) for column in columns.values()}) > 1:
        listing = ", ".join(f"{name} has {len(columns[name])}" for name in sorted(columns))
        raise table.flaw(f"has lists of different lengths ({listing})")
    return [columns.get(name, []) for name in names]
