"""Each dataset on small files in its official layout and in FlashRAG's, written for these tests.

`files/expected.jsonl` has a line for each example of each file.
"""

import json
import re
from itertools import groupby
from pathlib import Path

import pytest

from askance.configuration.catalogue import DATASETS
from askance.configuration.evaluation import read_dataset
from askance.sample import CORPUS, QUESTIONS
from tests.evaluation.datasets.rows import row

FILES = Path(__file__).parent / "files"
LINES = [json.loads(line) for line in (FILES / "expected.jsonl").read_text(encoding="utf-8").splitlines()]
EXPECTED = {spec: [line["example"] for line in lines] for spec, lines in groupby(LINES, lambda x: x["file"])}


def read(spec):
    return read_dataset(re.sub(r":(?=\w)", f":{FILES}/", spec, count=1))


@pytest.mark.parametrize("spec", EXPECTED)
def test_every_example_of_a_file(spec):
    assert [row(example) for example in read(spec)] == EXPECTED[spec]


def test_every_dataset_has_a_complete_row_in_the_catalogue_and_a_file_here():
    assert {spec.partition(":")[0] for spec in EXPECTED} | {"sample", "parquet"} == DATASETS.keys()
    for name, dataset in DATASETS.items():
        assert dataset.spec.partition(":")[0] == name
        assert all(re.search(f"{option}[=<]", dataset.spec) for option in dataset.options)
        assert dataset.what
        assert dataset.licence
        assert bool(dataset.layouts) == dataset.takes_path
        assert bool(dataset.source) == (name not in ("jsonl", "parquet", "csv", "sample"))


@pytest.mark.parametrize("name", [name for name, row in DATASETS.items() if "FlashRAG" in row.layouts])
def test_every_official_dataset_takes_flashrags_layout(name):
    task = "yes_no" if name == "strategyqa" else "open"
    examples = read(f"{name}:flashrag_{'strategyqa' if task == 'yes_no' else 'musique'}.jsonl")
    assert [example.question.task for example in examples] == [task] * 3


def test_the_sample_by_name_and_through_its_file():
    examples = read_dataset("sample")
    titles = {json.loads(line)["title"] for line in CORPUS.read_text(encoding="utf-8").splitlines()}
    assert (len(examples), sum(example.question.task == "yes_no" for example in examples)) == (96, 8)
    assert (examples[0].golds, examples[0].supporting_titles) == (("Warsaw",), ("Polonium", "Marie Curie"))
    assert all(titles.issuperset(example.supporting_titles) for example in examples)
    (of_the_file,) = read_dataset(f"jsonl:{QUESTIONS}", limit=1)
    assert of_the_file.supporting_titles == ("polonium", "marie-curie"), "ids of documents, not titles"
