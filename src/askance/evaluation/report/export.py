"""Export of runs to the formats that other evaluations read: ALCE, FActScore and measures of TREC.

ALCE (Gao et al. 2023, arXiv 2305.14627) reads one JSON object whose `data` holds the items of ALCE's own
file. Each item also has `output`, the answer with markers such as [1], and `docs`, the passages that the
markers refer to. FActScore (Min et al. 2023, arXiv 2305.14251) reads JSON Lines with `topic` and `output`.
The Self-RAG authors add `input`, `cat` and `intermediate`. Here `intermediate` holds each query with the
titles of the passages that it found. The tools of TREC read a document for a query on each line; a run has
the fields "query Q0 document rank score tag", and judgements (qrels) "query 0 document relevance".
"""

from typing import Any
from urllib.parse import quote

from askance.core.answers import Answer
from askance.core.errors import DatasetError, InputError, RunFolderError
from askance.core.safe_text import json_line
from askance.core.trace import Searched
from askance.evaluation.datasets import DatasetFile
from askance.evaluation.datasets.long_form import asqa_rows
from askance.evaluation.judging.judge_run import check_has_citations, topic_of
from askance.evaluation.metrics.answers import found_documents
from askance.evaluation.run.record import Record, first_changed_field
from askance.evaluation.run.recorded_run import RecordedRun, last_answer
from askance.text.support import cited_passages, marked, unmarked


def alce(run: RecordedRun, dataset: DatasetFile) -> str:
    """Return a run over ASQA in ALCE's format, with the finished questions in the order of the dataset.

    Args:
        dataset: The file with the questions, such as "asqa:FILE".

    Raises:
        InputError: The run or the dataset is not over ASQA, the questions of the dataset are not those of the
            run, or no answer of the run cites anything.
    """
    _check_is_of(run, "asqa", "alce")
    check_has_citations(run)
    spec, path = dataset.spec, dataset.path
    if not spec.startswith("asqa:") or path is None:
        raise DatasetError(f"dataset {spec!r}: the run {run.folder} is over ASQA; name asqa:FILE.")
    records, data = {record.id: record for record in run.records}, []
    for example, (_, item) in zip(dataset.examples(), asqa_rows(path, **dataset.options), strict=True):
        record = records.pop(example.question.id, None)
        if record is None:
            continue
        field = first_changed_field(record, example)
        if field:
            raise DatasetError(
                f"dataset {spec!r} has the question {record.id!r} with another {field} than the run "
                f"{run.folder}: name the file that the run used."
            )
        answer = run.answer(record) or Answer("")
        docs = [{"title": passage.title, "text": passage.text} for passage in cited_passages(answer)]
        data.append(item | {"output": marked(answer), "docs": docs})
    if records:
        raise DatasetError(
            f"dataset {spec!r} lacks {len(records)} questions of the run {run.folder}, such as "
            f"{min(records)!r}: name the file that the run used."
        )
    return json_line({"data": data}) + "\n"


def factscore(run: RecordedRun) -> str:
    """Return a run over biographies in FActScore's format.

    Raises:
        InputError: The run is over another dataset, or has no finished question.
    """
    _check_is_of(run, "biographies", "factscore")
    return "".join(json_line(_biography(run, record)) + "\n" for record in run.records)


def trec(run: RecordedRun, qrels: bool) -> str:
    """Return the documents that the searches of a run found as a run of TREC.

    A question and a document are named by the id and the title, in which white space and all signs but
    letters, digits and "_.-~" are escaped as in a URL. The score is the inverse of the rank.

    Args:
        qrels: Whether to return the supporting documents, as relevance judgements, instead.

    Raises:
        InputError: No question has such documents.
    """
    lines = []
    for record in run.records:
        found = record.supporting_titles if qrels else found_documents(run.trace(record))
        for rank, title in enumerate(found, start=1):
            query, document = quote(record.id, safe=""), quote(title, safe="")
            end = "1" if qrels else f"{rank} {1 / rank:.9f} askance"
            lines.append(f"{query} {'0' if qrels else 'Q0'} {document} {end}\n")
    if not lines:
        what = "supporting titles in its dataset" if qrels else "question whose searches found documents"
        raise InputError(f"the run {run.folder} has no {what}: name another run.")
    return "".join(lines)


def _check_is_of(run: RecordedRun, dataset: str, format: str) -> None:
    if run.settings.dataset_name != dataset:
        raise InputError(
            f"the run {run.folder} is over {run.settings.dataset_name}, and the format {format} is for runs "
            f"over {dataset}: name one of these."
        )
    if not run.records:
        raise RunFolderError(f"the run {run.folder} has no finished question yet: nothing to export.")


def _biography(run: RecordedRun, record: Record) -> dict[str, Any]:
    events = run.trace(record)
    answer = last_answer(events) or Answer("")
    return {
        "input": record.question,
        "output": unmarked(answer.text),
        "topic": topic_of(record),
        "cat": record.kind.split(", ") if record.kind else [],
        "intermediate": [
            {"query": event.query, "titles": [hit.passage.title for hit in event.hits]}
            for event in events
            if isinstance(event, Searched)
        ],
    }
