"""Which questions are asked."""

import json
import re

import pytest

from askance.configuration.evaluation import read_dataset
from askance.configuration.experiment import Experiment
from askance.core.errors import DatasetError, InputError
from askance.evaluation.run.experiment import select_examples, stratified

KINDS = ["bridge"] * 12 + ["comparison"] * 6 + ["inference"] * 2


@pytest.fixture
def dataset(tmp_path):
    path = tmp_path / "questions.jsonl"
    rows = [
        {"id": f"id-{n}", "question": f"Where, {n}?", "answers": ["Bonn"], "type": kind}
        for n, kind in enumerate(KINDS, start=1)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"jsonl:{path}"


def ids(path, *lines):
    path.write_text("\n".join(lines))
    return path


def choose(dataset, *, limit=None, **which):
    return select_examples(dataset, read_dataset(dataset, limit), **which)


def test_all_or_the_first(dataset):
    assert list(choose(dataset)) == list(range(1, 21))
    assert list(choose(dataset, limit=3)) == [1, 2, 3]
    assert choose(dataset, limit=3)[2].question.id == "id-2"


def test_a_sample_has_each_kind_with_its_share(dataset):
    kinds = [example.kind for example in choose(dataset, sample=10).values()]
    assert [kinds.count(kind) for kind in ("bridge", "comparison", "inference")] == [6, 3, 1]


@pytest.mark.parametrize("wanted", [1, 5, 19, 20, 50])
def test_a_smaller_sample_is_part_of_a_greater_one(dataset, wanted):
    examples = read_dataset(dataset)
    assert stratified(examples, 20)[:wanted] == stratified(examples, wanted)
    assert list(choose(dataset, sample=wanted)) == sorted(place + 1 for place in stratified(examples, wanted))


def test_a_sample_is_no_run_of_neighbours(dataset):
    assert list(choose(dataset, sample=5)) != [1, 2, 3, 4, 5]


def test_those_of_a_list_in_the_order_of_the_dataset(dataset, tmp_path):
    chosen = choose(dataset, ids=ids(tmp_path / "ids", "id-9", "", " id-2 ", ""))
    assert {number: example.question.id for number, example in chosen.items()} == {2: "id-2", 9: "id-9"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["id-1", "id-99x"], "names the question 'id-99x', which"),
        (["", " "], "names no questions: write one question id per line"),
    ],
)
def test_flawed_lists(dataset, tmp_path, lines, message):
    with pytest.raises(DatasetError, match=re.escape(message)):
        choose(dataset, ids=ids(tmp_path / "ids", *lines))


def test_a_list_that_can_not_be_read(dataset, tmp_path):
    with pytest.raises(DatasetError, match=r"can't read .*nowhere: No such file"):
        choose(dataset, ids=tmp_path / "nowhere")
    (tmp_path / "latin").write_bytes("Köln".encode("latin-1"))
    with pytest.raises(DatasetError, match="is not UTF-8"):
        choose(dataset, ids=tmp_path / "latin")


def test_only_one_way_to_choose(tmp_path):
    with pytest.raises(InputError, match="limit and sample both say which questions to ask"):
        Experiment(dataset="sample", limit=3, sample=4)
    with pytest.raises(InputError, match="sample=0: input should be greater than or equal to 1"):
        Experiment(dataset="sample", sample=0)
