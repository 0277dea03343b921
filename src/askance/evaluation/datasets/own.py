"""The user's own questions, and the fields that a line of `jsonl` and a row of `csv` or `parquet` may have.

| field | meaning |
|---|---|
| `question` | the question |
| `answers`, or `answer` | the gold answers, the preferred one first, or in `answer` a single one; \
empty if the documents don't answer the question |
| `id` | the id; by default the question's position in the file, from 1 |
| `task` | "open", "yes_no" or "choice"; by default it follows from the options and the type |
| `options` | the options of a choice |
| `supporting` | the titles of the documents that the answer follows from |
| `type`, `hops` | the kind of the question, and its number of reasoning steps |

Other fields are ignored, unless one looks like a misspelt field of this table: `anwser` is an error.

A line of `jsonl` or a row of `parquet` may also give the supporting facts:

| field | meaning |
|---|---|
| `paragraphs` | context paragraphs, each {"title": "…", "text": "…"}; one that supports the answer \
has "evidence": ["a sentence copied from the text", …] or "supporting": true |
| `facts` | sentences that the answer follows from, without a source |
| `steps` | the reasoning steps, each {"question": "…", "answer": "…"}; the answer only if known |
| `triples` | facts as [subject, relation, object] |
"""

import dataclasses
import re
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from functools import partial
from typing import Any

from askance.core.records import Field, read_records, table_rows, unique
from askance.core.types import Question, Task
from askance.evaluation.datasets.example import (
    NO_ANSWER,
    UNANSWERABLE,
    Example,
    Paragraph,
    ReasoningStep,
    SupportingFacts,
    Triple,
    places,
    whole,
)
from askance.sample import CORPUS, QUESTIONS

_LISTS = ("answers", "options", "supporting")
_QUESTION = ("question", "answers", "answer", "id", "task", "options", "supporting", "type", "hops")
_SUPPORTING_FACTS = ("paragraphs", "facts", "steps", "triples")
_TASKS: tuple[Task, ...] = ("open", "yes_no", "choice")
_LOOKS_LIKE = 0.75
"""The similarity from which an unknown field counts as misspelt. The similarity of "anwser" and "answer" is
0.83, and that of "task_id" and "task" is 0.73."""
_FIELDS_OF_OTHERS = ("titles",)
"""Common field names that resemble a field of askance (here "triples") but mean something else."""


def jsonl(record: Field, number: int) -> Iterator[Example]:
    """Yield one of your own questions from JSON Lines (or a JSON array).

        {"question": "Which river flows through Bonn?", "answers": ["Rhine", "the Rhine"],
         "supporting": ["Bonn"]}

    becomes an open question with the id "1", two gold answers and one supporting title. The field

        "paragraphs": [{"title": "Bonn", "text": "Bonn is old. It lies on the Rhine.",
                        "evidence": ["It lies on the Rhine."]}]

    gives the question a paragraph whose second sentence is evidence. Files in FlashRAG's layout, of any
    dataset, are also accepted.
    """
    _check_spelling(record, (*_QUESTION, *_SUPPORTING_FACTS))
    supporting_facts = SupportingFacts(
        tuple(_paragraph(each) for each in record.get("paragraphs", []).each()),
        tuple(
            Triple(row[0].text(), row[1].text(), row[2].text()) for row in record.get("triples", []).each()
        ),
        tuple(_step(each) for each in record.get("steps", []).each()),
        tuple(record.get("facts", []).texts()),
    )
    yield dataclasses.replace(parse_example(record, number), supporting_facts=supporting_facts)


def csv(record: Field, number: int) -> Iterator[Example]:
    """Yield one of your own questions from a table with a header (CSV or TSV).

        question,answers,supporting,hops
        Which river flows through Bonn?,Rhine | the Rhine,Bonn,1

    becomes an open question with the id "1", two gold answers and one supporting title. In a cell, several
    answers, options or supporting titles are separated by "|". If one of them contains a "|", the cell must
    be a JSON list instead. A column `answer` may replace `answers`. Each of its cells is a single answer, in
    which "|" has no special meaning. If the answer is empty, the documents don't answer the question. Other
    empty cells count as missing, and columns without a name are ignored.
    """
    _check_spelling(record, _QUESTION)
    cells: dict[str, Any] = {name: cell.strip() for name, cell in record.object().items() if cell.strip()}
    if "answer" in cells and "answers" in cells:
        raise record.flaw("both answer and answers are filled in: leave one empty")
    for name in cells.keys() & set(_LISTS):
        cells[name] = _texts(record[name], cells[name])
    if "hops" in cells and re.fullmatch("[0-9]{1,9}", cells["hops"]):
        cells["hops"] = int(cells["hops"])
    if record.first("answers", "answer").is_given and cells.keys().isdisjoint(("answers", "answer")):
        cells["answers"] = []
    yield parse_example(Field(cells), number)


def parse_example(record: Field, number: int, task: Task | None = None) -> Example:
    """Return the question of a record with its gold answers, after checking that the answers fit the task.

    A question with an empty list of answers has the kind `UNANSWERABLE` and the gold answer `NO_ANSWER`.

    Args:
        number: The position of the record in the file, from 1; the default id of the question.
        task: The task of the question; by default, the task that the record states or implies.
    """
    id, question = record.get("id", str(number)).id(), record["question"].text()
    answers = (
        record["golden_answers"] if record["golden_answers"].is_given else record.first("answers", "answer")
    )
    if answers.path == "answer" and isinstance(answers.value, str):
        golds = [answers.value] if answers.maybe_blank().strip() else []
    else:
        golds = [answer.text() for answer in _leaves(answers)]
    options = record.get("options", []).texts()
    kind = record.get("type", "").maybe_blank() or ("" if golds else UNANSWERABLE)
    guessed: Task = "choice" if options else "yes_no" if kind == "yes_no" else "open"
    stated = record.get("task", guessed).one_of(*_TASKS)
    task = task or stated
    possible = {"open": golds, "yes_no": ["yes", "no"], "choice": options}[task]
    for gold in golds:
        if gold not in possible:
            listing = ", ".join(map(repr, possible)) or "(no options)"
            raise record.flaw(f"answer {gold!r} of a {task} question is none of {listing}")
    hops = record["hops"].integer() if record["hops"].is_given else None
    if hops is not None and hops < 1:
        raise record["hops"].flaw("not greater than or equal to 1", found=True)
    titles = unique(record.get("supporting", []).texts())
    golds = golds or [NO_ANSWER]
    return Example(Question(id, question, task, tuple(options)), unique(golds), titles, kind, hops)


def _leaves(answers: Field) -> Iterator[Field]:
    """Yield the answers in a list, or in lists within lists."""
    for each in answers.each():
        yield from _leaves(each) if isinstance(each.value, list) else (each,)


def _paragraph(record: Field) -> Paragraph:
    """Return a paragraph.

    If it is marked as supporting but has no quotes, the whole paragraph counts as evidence.
    """
    _check_spelling(record, ("text", "title", "evidence", "supporting"))
    text, title = record["text"].text(), record.get("title", "").maybe_blank()
    evidence = record.get("evidence", []).each()
    for quote in evidence:
        if quote.text().strip() not in text:
            raise quote.flaw(
                "is not in the paragraph's text: copy it from there letter by letter", found=True
            )
    is_supporting = record.get("supporting", bool(evidence)).truth()
    if evidence and not is_supporting:
        raise record.flaw("has evidence, but is not supporting: leave one of them out")
    unquoted = whole(text) if is_supporting else ()
    return Paragraph(title, text, places(text, [quote.text() for quote in evidence]) or unquoted)


def _step(record: Field) -> ReasoningStep:
    _check_spelling(record, ("question", "answer"))
    return ReasoningStep(record["question"].text(), record.get("answer", "").maybe_blank())


def _texts(cell: Field, content: str) -> Any:
    if not content.startswith("["):
        return [text.strip() for text in content.split("|")]
    return cell.parsed("starts with [ but is no JSON list").value


def _check_spelling(record: Field, known: Collection[str]) -> None:
    """Raise `Flaw` if an unknown field resembles a known field that is missing."""
    row = record.object()
    missing = [name for name in known if name not in row]
    for name in (name for name in row if name not in (*known, *_FIELDS_OF_OTHERS)):
        near = get_close_matches(name.casefold(), missing, n=1, cutoff=_LOOKS_LIKE)
        if near:
            raise record.flaw(f"there is no field {name!r}: did you mean {near[0]!r}?")


def read_sample() -> Iterator[Example]:
    """Yield the 96 questions about the sample corpus, which ship with the package (CC0).

    The file names supporting documents by their ids, which the examples replace with the titles.
    """
    titles = dict(read_records(CORPUS, "", convert=_id_and_title))
    for example in read_records(QUESTIONS, "", convert=jsonl):
        supporting = tuple(titles[id] for id in example.supporting_titles)
        yield dataclasses.replace(example, supporting_titles=supporting)


def _id_and_title(document: Field, number: int) -> Iterator[tuple[str, str]]:
    yield document["id"].id(), document["title"].text()


read_csv = partial(read_records, convert=csv, rows_of=table_rows)
