"""The 96 questions of two and three hops over the sample corpus, which ship with the package (CC0)."""

import dataclasses
from collections.abc import Iterator

from askance.eval.datasets.example import Example
from askance.eval.datasets.fields import Field
from askance.eval.datasets.own import JSONL_SHAPE, jsonl
from askance.eval.datasets.records import read_records
from askance.sample import CORPUS, QUESTIONS


def read_sample() -> Iterator[Example]:
    """All of them. The file names supporting documents by id; here they have their titles."""
    titles = dict(read_records(CORPUS, _id_and_title, ""))
    for example in read_records(QUESTIONS, jsonl, JSONL_SHAPE):
        supporting = tuple(titles[id] for id in example.supporting_titles)
        yield dataclasses.replace(example, supporting_titles=supporting)


def _id_and_title(document: Field, number: int) -> Iterator[tuple[str, str]]:
    yield document["id"].id(), document["title"].text()
