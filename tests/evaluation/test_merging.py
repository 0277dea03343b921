"""Shards of one run that become one run, and what is refused."""

import re

import pytest

from askance.core.answers import Answer
from askance.core.errors import RunFolderError
from askance.evaluation.run.merging import merge_runs
from askance.evaluation.run.recorded_run import RECORDS, TRACES, read_run
from tests.evaluation.hand_made import answered, record, written


def shard(folder, *numbers, **fields):
    records = [record(number) for number in numbers]
    traces = [answered(Answer(f"Bonn {each.number}", "Bonn")) for each in records]
    return written(folder, records, traces, **fields).folder


@pytest.fixture
def shards(tmp_path):
    later = {"started_at": "2026-11-21T10:00:00+00:00", "machine": "64 cores", "num_questions": 4}
    return [shard(tmp_path / "b", 2, 5, 4, **later), shard(tmp_path / "a", 3, 1)]


def test_a_merged_run_has_the_questions_of_all_shards(shards, tmp_path):
    merged = merge_runs(tmp_path / "new" / "whole", shards)
    assert [each.id for each in merged.records] == ["q1", "q2", "q3", "q4", "q5"]
    for each in merged.records:
        assert merged.answer(each).text == f"Bonn {each.number}"
    assert (merged.settings.num_questions, merged.is_complete) == (6, False)
    assert merged.settings.machine == "2 cores, x86_64, then 64 cores"
    assert merged.settings.started_at == "2026-11-21T09:00:00+00:00"
    for folder in shards:
        assert len(read_run(folder).records) in (2, 3), "a shard is left as it is"
    again = merge_runs(tmp_path / "again", [merged.folder, shard(tmp_path / "c", 6)])
    assert [each.number for each in again.records] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"seed": 3}, "seed: 0, now 3"),
        ({"parameters": {"passages": "5"}}, "parameter passages: 3, now 5"),
        ({"index_content": "other"}, "index content: c0ffee, plain, now other"),
        ({"dataset": "sample"}, "dataset: jsonl, now sample"),
        ({"code": {"askance": "1a"}}, "code of askance: none, now 1a"),
        ({"reading": "authors"}, "reading: own, now authors"),
        ({"metrics": ("f1",)}, "metrics: ('exact_match', 'f1'), now ('f1',)"),
    ],
)
def test_a_shard_of_another_run_is_refused_with_the_difference(shards, tmp_path, fields, message):
    other = shard(tmp_path / "other", 6, **fields)
    told = f"{other} is no shard of the run of {shards[0]} ({message}): leave it out"
    with pytest.raises(RunFolderError, match=re.escape(told)):
        merge_runs(tmp_path / "whole", [*shards, other])
    assert not (tmp_path / "whole").exists()


def test_no_question_is_merged_twice(shards, tmp_path):
    for others in ([shards[1]], [shard(tmp_path / "c", 6, 3)]):
        told = f"{others[0]} and {shards[1]} both hold question 3, 'q3'"
        if others == [shards[1]]:
            told = f"{shards[1]} and {shards[1]} both hold question 1, 'q1'"
        with pytest.raises(RunFolderError, match=re.escape(told)):
            merge_runs(tmp_path / "whole", [*shards, *others])
    merge_runs(tmp_path / "whole", shards)
    with pytest.raises(RunFolderError, match=r"won't merge into .*whole: it holds files already; name a new"):
        merge_runs(tmp_path / "whole", shards)


def test_a_damaged_shard_is_refused(shards, tmp_path):
    for name, place in ((RECORDS, "line 2: its checksum does not match"), (TRACES, "trace of question 'q")):
        content = (shards[1] / name).read_bytes()
        (shards[1] / name).write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
        with pytest.raises(RunFolderError, match=place):
            merge_runs(tmp_path / "whole", shards)
        (shards[1] / name).write_bytes(content)
    with pytest.raises(RunFolderError, match="holds no run"):
        merge_runs(tmp_path / "whole", [*shards, tmp_path])
    assert not (tmp_path / "whole").exists()


def test_the_command_prints_how_many(run, shards, tmp_path):
    code, out, _ = run("merge", tmp_path / "whole", *shards)
    assert (code, out.splitlines()) == (0, [f"5 of 6 questions: {tmp_path / 'whole'}"])
    assert run("merge", tmp_path / "whole", *shards)[0] == 2
