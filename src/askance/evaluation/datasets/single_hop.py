"""Single-hop datasets: Natural Questions, TriviaQA, WebQuestions, PopQA and SQuAD 2.0.

Each function converts a record of the authors' file into examples. The catalogue has files and licences.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from askance.core.errors import DatasetError, UnknownName
from askance.core.records import Field, Rows, rows, rows_or_table, unique
from askance.core.types import Question
from askance.evaluation.datasets.example import (
    NO_ANSWER,
    UNANSWERABLE,
    Example,
    Paragraph,
    SupportingFacts,
    whole,
)
from askance.evaluation.datasets.flashrag import read_either
from askance.text.answers import sentence_spans

_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^()"]+))\)')
"""A name in an answer of WebQuestions, in quotes unless it is a single word."""


def nq(record: Field, number: int) -> Iterator[Example]:
    """Yield the question in a record of NQ-open: a query to a search engine, with short answers.

    Kwiatkowski et al. 2019, "Natural Questions: A Benchmark for Question Answering Research" (TACL 7). The
    questions were selected by Lee et al. 2019, "Latent Retrieval for Weakly Supervised Open Domain Question
    Answering" (arXiv 1906.00300). The file is JSON Lines, for example ``NQ-open.dev.jsonl``, from the folder
    nq_open of https://github.com/google-research-datasets/natural-questions.

        {"question": "where does the trave meet the sea", "answer": ["Travemünde", "at Travemünde"]}

    becomes an open question with two gold answers. The file has no ids, so the id of a question is its
    position in the file, from 1.
    """
    golds = unique(answer.text() for answer in record["answer"].filled())
    yield Example(Question(str(number), record["question"].text()), golds)


def triviaqa(record: Field, number: int) -> Iterator[Example]:
    """Yield the question in a record of TriviaQA: a quiz question, with all aliases of the answer.

    Joshi et al. 2017, "TriviaQA: A Large Scale Distantly Supervised Challenge Dataset for Reading
    Comprehension" (arXiv 1705.03551). The file is a JSON object around an array, for example
    ``unfiltered-web-dev.json``.

        {"Data": [{"QuestionId": "tc_7", "Question": "Which novelist was born in Lübeck in 1875?",
                   "Answer": {"Value": "Thomas Mann", "Aliases": ["Mann, Thomas"], …}, …}]}

    becomes an open question with two gold answers. Answers that people accepted afterwards (`HumanAnswers`)
    are also gold answers. `NormalizedAliases` are ignored, because the metrics normalise the aliases. The
    pages that come with a question are also ignored: a search engine found them, and the answer does not
    follow from every page.
    """
    answer = record["Answer"]
    others = [*answer.get("Aliases", []).maybe_blanks(), *answer.get("HumanAnswers", []).maybe_blanks()]
    names = (answer["Value"].text(), *filter(str.strip, others))
    yield Example(Question(record["QuestionId"].id(), record["Question"].text()), unique(names))


def webquestions(record: Field, number: int) -> Iterator[Example]:
    r"""Yield the question in a record of WebQuestions: a query to a search engine on an entity of Freebase.

    Berant et al. 2013, "Semantic Parsing on Freebase from Question-Answer Pairs" (EMNLP 2013). The file is a
    JSON array, for example ``webquestions.examples.test.json``.

        {"url": "http://www.freebase.com/view/en/lubeck", "utterance": "what rivers are in lübeck?",
         "targetValue": "(list (description \"Trave\") (description Wakenitz))"}

    becomes an open question with two gold answers. The file has no ids, so the id of a question is its
    position in the file, from 1.
    """
    value = record["targetValue"]
    answers = [quoted or bare for quoted, bare in _DESCRIPTION.findall(value.text())]
    golds = unique(re.sub(r"\\(.)", r"\1", answer) for answer in answers if answer.strip())
    if not golds:
        raise value.flaw("has no (description …)", found=True)
    yield Example(Question(str(number), record["utterance"].text()), golds)


def read_popqa(path: Path, shape: str, popularity: str = "") -> Iterator[Example]:
    """Yield the examples of PopQA, or of its long tail.

    Args:
        popularity: A limit such as "<100": only questions whose subject is that little known are read, by the
            monthly page views of its article (`s_pop`). Self-RAG asks the 1,399 questions below 100.
    """
    if popularity and not re.fullmatch(r"<[0-9]{1,9}", popularity):
        raise DatasetError(f"{path}: popularity takes an upper limit, as in ?popularity<100.")
    rows_of = partial(_less_popular, below=int(popularity[1:])) if popularity else rows_or_table
    return read_either(path, shape, convert=popqa, rows_of=rows_of)


def _less_popular(path: Path, below: int) -> Rows:
    for place, row in rows_or_table(path):
        try:
            is_below = int(Field({**(row.get("metadata") or {}), **row})["s_pop"].id()) < below
        except (AttributeError, TypeError, ValueError) as error:
            raise DatasetError(
                f"{path}, {place}, field s_pop: no whole number, so ?popularity<{below} can't be decided: "
                "leave it out, or name the file as published."
            ) from error
        if is_below:
            yield place, row


def popqa(record: Field, number: int) -> Iterator[Example]:
    """Yield the question in a record of PopQA, about a well-known or little-known entity of Wikidata.

    Mallen et al. 2023, "When Not to Trust Language Models: Investigating Effectiveness of Parametric and
    Non-Parametric Memories" (arXiv 2212.10511). The file is a table, for example ``popQA.tsv``.

        id    subj     prop     question                     possible_answers            …
        12    Lübeck   country  In what country is Lübeck?   ["Germany", "FR Germany"]   …

    becomes an open question of the kind "country" with one hop, because it asks for one property of one
    subject. There are no supporting titles: the article on the subject probably gives the answer, but nobody
    has checked it.
    """
    question = Question(record["id"].id(), record["question"].text())
    answers = record["possible_answers"]
    if isinstance(answers.value, str):
        answers = answers.parsed("is no JSON list")
    golds = unique(answer.text() for answer in answers.filled())
    yield Example(question, golds, kind=record["prop"].text(), hops=1)


def read_squad2(path: Path, shape: str, unanswerable: str | None = None) -> Iterator[Example]:
    """Yield the examples of SQuAD 2.0: questions about a Wikipedia paragraph, half of them unanswerable.

    Rajpurkar et al. 2018, "Know What You Don't Know: Unanswerable Questions for SQuAD" (arXiv 1806.03822).
    The file is a JSON object around an array of articles, for example ``dev-v2.0.json``. SQuAD 1.1, which
    only has answerable questions, is also read.

        {"data": [{"title": "Luebeck_Cathedral", "paragraphs": [{"context": "…", "qas": [
            {"id": "5f", "question": "Who founded it?", "is_impossible": false,
             "answers": [{"text": "Henry", "answer_start": 9}, {"text": "Henry", "answer_start": 9}]}]}]}]}

    becomes an open question of the kind "answerable" with one hop, the gold answer "Henry" and the supporting
    title "Luebeck Cathedral": underscores in titles become spaces, as in Wikipedia. The only paragraph of the
    question is `context`, without which many questions are unclear. Its evidence consists of the sentences
    that contain the first answer. If the question is unanswerable, the paragraph has no evidence.

    Unanswerable questions are skipped, because a search may find what the paragraph lacks. With
    ``?unanswerable=keep`` they are kept, with the kind "unanswerable" and the gold answer "noanswer", which
    HotpotQA's and DRAGIN's metrics treat as "no answer"; the prompt must ask the model to write it.
    """
    if unanswerable not in (None, "skip", "keep"):
        raise UnknownName("choice", unanswerable, ("skip", "keep"), place=f"of unanswerable for {path}")
    option = "unanswerable" if unanswerable else ""
    in_data = partial(rows, inside="data")
    examples = read_either(path, shape, convert=_squad2, rows_of=in_data, official_option=option)
    return (each for each in examples if unanswerable == "keep" or each.kind != UNANSWERABLE)


def _squad2(record: Field, number: int) -> Iterator[Example]:
    """Yield the questions about one article."""
    title = record["title"].text().replace("_", " ")
    for paragraph in record["paragraphs"].each():
        context = paragraph.get("context", "").maybe_blank()
        for asked in paragraph["qas"].each():
            yield _on_paragraph(asked, title, context)


def _on_paragraph(asked: Field, title: str, context: str) -> Example:
    id, question = asked["id"].id(), asked["question"].text()
    answers = [
        (each["text"].text(), each.get("answer_start", -1).integer()) for each in asked["answers"].each()
    ]
    is_impossible = asked.get("is_impossible", False).truth()
    if not answers and not is_impossible:
        raise asked.flaw(f"question {id!r} has no answers, but is not marked is_impossible")
    evidence = () if is_impossible else _sentences(context, *answers[0])
    return Example(
        Question(id, question),
        (NO_ANSWER,) if is_impossible else unique(text for text, _ in answers),
        (title,),
        UNANSWERABLE if is_impossible else "answerable",
        hops=1,
        supporting_facts=SupportingFacts((Paragraph(title, context, evidence),) if context.strip() else ()),
    )


def _sentences(context: str, answer: str, given_start: int) -> tuple[tuple[int, int], ...]:
    """Return the spans of the sentences that contain an answer.

    If the answer does not occur in the text, the result is the span of the whole text.

    Args:
        given_start: The offset of the answer according to the dataset. If it is wrong, the first occurrence
            of the answer is used.
    """
    start = (
        given_start if given_start >= 0 and context.startswith(answer, given_start) else context.find(answer)
    )
    if start < 0:
        return whole(context)
    end = start + len(answer)
    return tuple((first, last) for first, last in sentence_spans(context) if first < end and last > start)


read_nq = partial(read_either, convert=nq)
read_triviaqa = partial(read_either, convert=triviaqa, rows_of=partial(rows, inside="Data"))
read_webquestions = partial(read_either, convert=webquestions)
