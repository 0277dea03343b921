import json
import subprocess
import sys

import pytest

from askance.configuration.catalogue import DATASETS
from askance.configuration.evaluation import read_dataset
from askance.core.errors import DatasetError, InputError
from askance.sample import CORPUS, QUESTIONS


def own(path, *ids):
    rows = [{"id": id, "question": f"Who is {id}?", "answers": ["Ada"]} for id in ids]
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return f"jsonl:{path}"


def test_the_sample_by_name():
    examples = read_dataset("sample")
    titles = {json.loads(line)["title"] for line in CORPUS.read_text(encoding="utf-8").splitlines()}
    assert len(examples) == 96
    assert examples[0].golds == ("Warsaw",)
    assert examples[0].supporting_titles == ("Polonium", "Marie Curie")
    assert all(titles.issuperset(example.supporting_titles) for example in examples)
    assert [example.question.task for example in examples].count("yes_no") == 8


def test_the_sample_through_its_file_keeps_the_ids_of_documents():
    (example,) = read_dataset(f"jsonl:{QUESTIONS}", limit=1)
    assert example.supporting_titles == ("polonium", "marie-curie")


def test_a_limit_takes_the_first_and_reads_no_further(tmp_path):
    spec = own(tmp_path / "own.jsonl", "a", "b", "c")
    with (tmp_path / "own.jsonl").open("a") as file:
        file.write("\nbroken")
    assert [example.question.id for example in read_dataset(spec, limit=2)] == ["a", "b"]
    with pytest.raises(DatasetError, match="line 4, column 1: not JSON"):
        read_dataset(spec)


@pytest.mark.parametrize("limit", [0, -3])
def test_a_limit_below_one(limit):
    with pytest.raises(InputError, match=f"a limit of {limit} questions leaves none"):
        read_dataset("sample", limit=limit)


def test_two_questions_with_one_id(tmp_path):
    with pytest.raises(DatasetError, match="questions 1 and 3 have the same id 'a'"):
        read_dataset(own(tmp_path / "own.jsonl", "a", "b", "a"))


def test_an_id_that_was_left_out_may_not_collide(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text('{"question": "a?", "answers": ["b"], "id": "2"}\n{"question": "c?", "answers": ["d"]}\n')
    with pytest.raises(DatasetError, match="questions 1 and 2 have the same id '2'"):
        read_dataset(f"jsonl:{path}")


@pytest.mark.parametrize("content", ["", "\n \n", "[]", "\ufeff"])
def test_a_file_without_questions(tmp_path, content):
    path = tmp_path / "empty.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DatasetError, match="holds no questions"):
        read_dataset(f"hotpotqa:{path}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"qid": 1},\n {"qid":', "line 2, column 9: not JSON"),
        (b"[1] 2", "column 5: not JSON"),
        (b'{"qid"', "line 1, column 7: not JSON"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"[" * 100_000, "JSON that can't be read"),
        (b'{"qid": "a"}', "line 1, field question: missing"),
    ],
)
def test_a_file_that_is_not_what_it_should_be(tmp_path, content, message):
    path = tmp_path / "train.json"
    path.write_bytes(content)
    with pytest.raises(DatasetError, match=message) as caught:
        read_dataset(f"strategyqa:{path}")
    assert str(path) in str(caught.value)


def test_a_mark_at_the_beginning_and_blank_lines_are_passed_over(tmp_path):
    path = tmp_path / "own.jsonl"
    path.write_text('\ufeff\n{"question": "a?", "answers": ["b"]}\n\n', encoding="utf-8")
    assert len(read_dataset(f"jsonl:{path}")) == 1


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DatasetError, match=r"can't read .*none\.json: No such file"):
        read_dataset(f"hotpotqa:{tmp_path / 'none.json'}")
    with pytest.raises(DatasetError, match="Is a directory"):
        read_dataset(f"hotpotqa:{tmp_path}")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hotpot:dev.json", r"unknown dataset 'hotpot' \(write NAME:FILE\): did you mean 'hotpotqa'\?"),
        ("dev.json", "unknown dataset 'dev.json'"),
        ("hotpotqa", "names no file: write hotpotqa:FILE"),
        ("hotpotqa:", "names no file"),
        ("sample:questions.jsonl", "takes no file; leave out 'questions.jsonl': write sample"),
        ("2wikimultihopqa:dev.json?alias=a", "unknown dataset option 'alias'.*did you mean 'aliases'"),
        ("hotpotqa:dev.json?aliases=a", "unknown dataset option 'aliases'"),
        ("2wikimultihopqa:dev.json?aliases=", "give aliases one value"),
        ("2wikimultihopqa:dev.json?aliases=a&aliases=b", "give aliases one value"),
    ],
)
def test_a_specification_that_names_nothing(spec, message):
    with pytest.raises(InputError, match=message):
        read_dataset(spec)


def test_the_table_is_complete():
    for name, dataset in DATASETS.items():
        assert dataset.spec.partition(":")[0] == name
        assert all(f"{option}=" in dataset.spec for option in dataset.options)
        assert dataset.what
        assert dataset.licence
        assert bool(dataset.layouts) == dataset.takes_path
        assert bool(dataset.source) == (name not in ("jsonl", "csv", "sample"))


def test_readers_are_imported_on_use():
    code = "import sys, askance.evaluation.datasets; assert 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
