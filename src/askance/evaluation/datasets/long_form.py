"""Datasets with long answers: ASQA and biographies.

Each function converts a record of the authors' file into examples. The catalogue has files and licences.
"""

from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from askance.core.errors import DatasetError
from askance.core.records import Field, Rows, document, lines, read_records, rows, unique
from askance.core.types import Question
from askance.evaluation.datasets.example import Example, Paragraph, SupportingFacts, whole, with_passages

_NO_CONTEXT = "No context provided"
"""The text that ASQA has in place of a context that was not found."""


def read_asqa(path: Path, shape: str, split: str | None = None) -> Iterator[Example]:
    """Yield the examples of ASQA: ambiguous questions whose long answer covers every interpretation.

    Stelmakh et al. 2022, "ASQA: Factoid Questions Meet Long-Form Answers" (arXiv 2204.06092). The dev split
    of ASQA is a part of ALCE (Gao et al. 2023, arXiv 2305.14627). The file is JSON. ALCE's file, for example
    ``asqa_eval_gtr_top100.json``, is an array, or an object with an array in `data`. ASQA's own ``ASQA.json``
    is an object whose keys are the splits. The split dev is used unless ``?split=train`` is given.

        [{"sample_id": "-3", "question": "When was the bridge of Bonn opened?",
          "qa_pairs": [{"question": "When was the old one opened?", "short_answers": ["1898"],
                        "context": "The old bridge of 1898 fell in 1945.", "wikipage": "Kennedy Bridge"},
                       {"question": "When was the new one?", "short_answers": ["12 November 1949", "1949"]}],
          "annotations": [{"long_answer": "The old bridge was opened in 1898, the new one in 1949.",
                           "knowledge": [{"content": "It opened in 1949.", "wikipage": "Kennedy Bridge"}]}]}]

    becomes an open question of the genre "ambiguous" with two groups of answers, ("1898",) and ("12 November
    1949", "1949"), for the metric `str_em`. The gold answers, for the metric `rouge_lsum`, are the long
    answers. If there are none, the gold answer is `answer`, ALCE's single long answer. If that is also
    missing, all short answers are gold answers. Every context and every piece of knowledge becomes a
    supporting paragraph, and the titles of their pages become the supporting titles.
    """
    return read_records(path, shape, convert=with_passages(_asqa), rows_of=partial(asqa_rows, split=split))


def asqa_rows(path: Path, split: str | None = None) -> Rows:
    """Yield the records of an ASQA file, one for each question, each after its location in the file."""
    content = document(path)
    data = content.get("data", content) if isinstance(content, dict) else content
    if isinstance(data, list):
        if split is not None:
            raise DatasetError(f"{path} has no splits, as ASQA.json has: leave ?split={split} out.")
        yield from ((f"record {number}", row) for number, row in enumerate(data, start=1))
        return
    records = data.get(split or "dev") if isinstance(data, dict) else None
    if not isinstance(records, dict):
        raise DatasetError(
            f"{path}: no array of records, and no split {split or 'dev'!r}: name ASQA.json, or ALCE's file."
        )
    for id, row in records.items():
        yield f"record {id!r}", row | {"sample_id": id} if isinstance(row, dict) else row


def _asqa(record: Field, number: int) -> Iterator[Example]:
    groups, pages = [], []
    for pair in record["qa_pairs"].filled():
        answers = [answer.maybe_blank() for answer in pair["short_answers"].filled()]
        if not any(map(str.strip, answers)):
            raise pair["short_answers"].flaw("holds no answer", found=True)
        groups.append(unique(filter(str.strip, answers)))
        pages.append(_page_and_text(pair, "context"))
    long_answers = []
    for annotation in record.get("annotations", []).each():
        long_answers.append(annotation["long_answer"].text())
        pages += [_page_and_text(each, "content") for each in annotation.get("knowledge", []).each()]
    answer = record.get("answer", "").maybe_blank()
    if answer.strip() and not long_answers:
        long_answers = [answer]
    pages = [(title, text) for title, text in dict.fromkeys(pages) if text.strip() not in ("", _NO_CONTEXT)]
    question = record.first("question", "ambiguous_question").text()
    yield Example(
        Question(record["sample_id"].id(), question, genre="ambiguous"),
        unique(long_answers or chain(*groups)),
        unique(title for title, _ in pages if title),
        supporting_facts=SupportingFacts(tuple(Paragraph(title, text, whole(text)) for title, text in pages)),
        answer_groups=tuple(groups),
    )


def _page_and_text(passage: Field, name: str) -> tuple[str, str]:
    return passage.get("wikipage", "").maybe_blank().strip(), passage.get(name, "").maybe_blank()


def biographies(record: Field, number: int) -> Iterator[Example]:
    """Yield the question that asks for the biography of a person.

    Min et al. 2023, "FActScore: Fine-grained Atomic Evaluation of Factual Precision in Long Form Text
    Generation" (arXiv 2305.14251). The file is either a list of names, one per line, such as
    ``prompt_entities.txt`` of the unlabelled part with 500 people, or JSON Lines, such as the model outputs
    that the authors publish:

        Clara Schumann

        {"topic": "Clara Schumann", "input": "Question: Tell me of Clara.", "cat": ["rare", "Europe"]}

    The first becomes the open question "Write a short biography of Clara Schumann.", the second the question
    in its `input`, with the kind "rare, Europe". The name is the id of the question and also its supporting
    title, because the Wikipedia article has this title. There are no gold answers, so metrics that compare
    answers don't apply; `askance judge --facts` measures how much of a biography is true. The texts that
    models wrote (`output`) are ignored.
    """
    name = " ".join(record["topic"].text().split())
    text = record.get("input", "").maybe_blank().strip().removeprefix("Question:").strip()
    question = Question(name, text or f"Write a short biography of {name}.", genre="biography")
    kinds = record.get("cat", [])
    listed = filter(None, [kinds.maybe_blank()]) if isinstance(kinds.value, str) else kinds.texts()
    yield Example(question, (), (name,), kind=", ".join(unique(listed)))


def biography_rows(path: Path) -> Rows:
    """Yield a record for each name of a ``.txt`` file, or for each line of a JSON Lines file."""
    if path.suffix.lower() != ".txt":
        return rows(path)
    return ((place, {"topic": line.strip()}) for place, line in lines(path))


read_biographies = partial(read_records, convert=with_passages(biographies), rows_of=biography_rows)
