"""The 96 questions of two and three hops over the sample corpus, which ship with the package (CC0)."""

import dataclasses
from collections.abc import Iterator

from askance.eval.datasets import Example, jsonl
from askance.eval.datasets.records import Id, Record, Text, read_records
from askance.sample import CORPUS, QUESTIONS


class _Document(Record):
    id: Id
    title: Text


def read() -> Iterator[Example]:
    """All of them. The file names supporting documents by id; here they have their titles."""
    documents = read_records(CORPUS, _Document, "")
    titles = {document.id: document.title for document in documents}
    for example in jsonl.read(QUESTIONS):
        supporting = tuple(titles[id] for id in example.supporting_titles)
        yield dataclasses.replace(example, supporting_titles=supporting)
