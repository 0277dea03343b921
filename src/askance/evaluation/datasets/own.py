"""A question of the user's: what a line of `jsonl` and a row of `csv` may say.

| field | meaning |
|---|---|
| `question` | the question |
| `answers` | the accepted answers, the preferred one first |
| `id` | if left out, the question's place in the file, from 1 |
| `task` | "open", "yes_no" or "choice"; guessed from options and type, if left out |
| `options` | of a choice |
| `supporting` | titles of the documents that the answer follows from |
| `type`, `hops` | kind of the question, and its number of reasoning steps |

Other fields are passed over, unless one looks like a field of these that is not there: `answer` is an error.

A line of `jsonl` may also say why the answer is right:

| field | meaning |
|---|---|
| `paragraphs` | texts beside the question, each {"title": "…", "text": "…"}; one that supports the answer \
has "evidence": ["sentence as it stands in the text", …] or "supporting": true |
| `facts` | sentences without a source that the answer follows from |
| `steps` | the way to the answer, each {"question": "…", "answer": "…"}; the answer only if known |
| `triples` | facts as [subject, relation, object] |
"""

import dataclasses
import json
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from typing import Any

from askance.core.records import Field, read_records, unique
from askance.core.types import Question, Task
from askance.evaluation.datasets.example import (
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
_QUESTION = ("question", "answers", "id", "task", "options", "supporting", "type", "hops")
_SUPPORTING_FACTS = ("paragraphs", "facts", "steps", "triples")
_TASKS: tuple[Task, ...] = ("open", "yes_no", "choice")
_LOOKS_LIKE = 0.75
"""Similarity, by difflib: 0.92 of "answer" and "answers", 0.73 of "task_id" and "task"."""
_FIELDS_OF_OTHERS = ("titles",)
"""Common names that look like a field, here like "triples", and are not meant for it."""


def jsonl(record: Field, number: int) -> Iterator[Example]:
    """Your own questions as JSON Lines (or a JSON array).

        {"question": "Which river flows through Bonn?", "answers": ["Rhine", "the Rhine"],
         "supporting": ["Bonn"]}

    becomes an open question with the id "1", two golds and one supporting title. With

        "paragraphs": [{"title": "Bonn", "text": "Bonn is old. It lies on the Rhine.",
                        "evidence": ["It lies on the Rhine."]}]

    it has a paragraph whose second sentence is evidence. FlashRAG's files of any dataset can be read, too.
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
    yield dataclasses.replace(asked(record, number, "answers"), supporting_facts=supporting_facts)


def csv(record: Field, number: int) -> Iterator[Example]:
    """Your own questions as a table: CSV with commas, or TSV with tabs, and a header.

        question,answers,supporting,hops
        Which river flows through Bonn?,Rhine | the Rhine,Bonn,1

    becomes an open question with the id "1", two golds and one supporting title. A cell of answers, options
    or supporting lists them with "|" between, or is a JSON list, where one holds a "|" itself; instead of
    answers, there may be one `answer`, taken as it is. Empty cells count as left out, and columns without a
    name are passed over.
    """
    _check_spelling(record, (*_QUESTION, "answer"))
    cells: dict[str, Any] = {name: cell.strip() for name, cell in record.object().items() if cell.strip()}
    if "answer" in cells and "answers" in cells:
        raise record.flaw("both answer and answers are filled in: leave one empty")
    for name in cells.keys() & set(_LISTS):
        cells[name] = _texts(record[name], cells[name])
    if "answer" in cells:
        cells["answers"] = [cells["answer"]]
    if "hops" in cells and cells["hops"].isascii() and cells["hops"].isdigit():
        cells["hops"] = int(cells["hops"])
    yield asked(Field(cells), number, "answers")


def asked(record: Field, number: int, answers: str, task: Task | None = None) -> Example:
    """A question with its answers, checked against each other. Without an id it has its place in the file.

    Args:
        answers: the field that they are in.
        task: if it is not the record that tells.
    """
    id, question = record.get("id", str(number)).id(), record["question"].text()
    golds = [answer.text() for answer in record[answers].filled()]
    options = record.get("options", []).texts()
    kind = record.get("type", "").maybe_blank()
    guessed: Task = "choice" if options else "yes_no" if kind == "yes_no" else "open"
    told = record.get("task", guessed).one_of(*_TASKS)
    asked_as = task or told
    possible = {"open": golds, "yes_no": ["yes", "no"], "choice": options}[asked_as]
    for gold in golds:
        if gold not in possible:
            listing = ", ".join(map(repr, possible)) or "(no options)"
            raise record.flaw(f"answer {gold!r} of a {asked_as} question is none of {listing}")
    hops = record["hops"].integer() if record["hops"].is_given else None
    if hops is not None and hops < 1:
        raise record["hops"].flaw("not greater than or equal to 1", found=True)
    titles = unique(record.get("supporting", []).texts())
    return Example(Question(id, question, asked_as, tuple(options)), unique(golds), titles, kind, hops)


def _paragraph(told: Field) -> Paragraph:
    """With the places of its evidence, or all of it where it is only said to support the answer."""
    _check_spelling(told, ("text", "title", "evidence", "supporting"))
    text, title = told["text"].text(), told.get("title", "").maybe_blank()
    evidence = told.get("evidence", []).each()
    for quote in evidence:
        if quote.text().strip() not in text:
            raise quote.flaw(
                "is not in the paragraph's text: copy it from there letter by letter", found=True
            )
    is_supporting = told.get("supporting", bool(evidence)).truth()
    if evidence and not is_supporting:
        raise told.flaw("has evidence, but is not supporting: leave one of them out")
    unquoted = whole(text) if is_supporting else ()
    return Paragraph(title, text, places(text, [quote.text() for quote in evidence]) or unquoted)


def _step(told: Field) -> ReasoningStep:
    _check_spelling(told, ("question", "answer"))
    return ReasoningStep(told["question"].text(), told.get("answer", "").maybe_blank())


def _texts(cell: Field, content: str) -> Any:
    if not content.startswith("["):
        return [text.strip() for text in content.split("|")]
    return cell.parsed("starts with [ but is no JSON list").value


def _check_spelling(record: Field, known: Collection[str]) -> None:
    """Raises `Flaw` if a field that is not known looks like a known one that is not there."""
    row = record.object()
    missing = [name for name in known if name not in row]
    for name in (name for name in row if name not in (*known, *_FIELDS_OF_OTHERS)):
        near = get_close_matches(name.casefold(), missing, n=1, cutoff=_LOOKS_LIKE)
        if near and near[0] == f"{name}s" and isinstance(row[name], str):
            listed = json.dumps(row[name], ensure_ascii=False)
            raise record.flaw(f'the field "{near[0]}" is a list: write "{near[0]}": [{listed}] for "{name}"')
        if near:
            raise record.flaw(f"there is no field {name!r}: did you mean {near[0]!r}?")


def read_sample() -> Iterator[Example]:
    """The 96 questions over the sample corpus, which ship with the package (CC0).

    The file names supporting documents by id; here they have their titles.
    """
    titles = dict(read_records(CORPUS, "", convert=_id_and_title))
    for example in read_records(QUESTIONS, "", convert=jsonl):
        supporting = tuple(titles[id] for id in example.supporting_titles)
        yield dataclasses.replace(example, supporting_titles=supporting)


def _id_and_title(document: Field, number: int) -> Iterator[tuple[str, str]]:
    yield document["id"].id(), document["title"].text()
