"""Checkpoints: whole or not at all, and of one training only."""

import resource

import pytest
import torch

from askance.core.errors import InputError
from askance_lab.training.loop.checkpoint import TrainingState, open_checkpoints, remove_checkpoints

IDENTITY = {"base": "hf:model", "rank": 8, "learning_rate": None}


def state(number=1.0, size=4):
    weights = {"a.weight": torch.full((size, 2), number)}
    optimizer = {
        "state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.full((size, 2), number / 2)}},
        "param_groups": [{"lr": 0.1, "params": [0]}],
    }
    return TrainingState(weights, optimizer, [(1, 2, 0.5, 10, 20, 1.5, None)])


def test_what_is_saved_is_loaded(tmp_path):
    with open_checkpoints(tmp_path / "t", IDENTITY) as checkpoints:
        assert checkpoints.load() is None
        checkpoints.save(state(1.0))
        checkpoints.save(state(2.0))
        found = checkpoints.load()
    assert found.weights["a.weight"].tolist() == [[2.0, 2.0]] * 4
    assert found.optimizer["state"][0]["exp_avg"].tolist() == [[1.0, 1.0]] * 4
    assert found.optimizer["param_groups"] == [{"lr": 0.1, "params": [0]}]
    assert [tuple(each) for each in found.curve] == [(1, 2, 0.5, 10, 20, 1.5, None)]
    assert sorted(path.name for path in (tmp_path / "t").iterdir()) == [
        "checkpoint.pt",
        "lock",
        "settings.json",
    ]


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path):
    """No file of this process may grow beyond a limit: the system's own error, as from a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_checkpoints(tmp_path / "t", IDENTITY) as checkpoints:
        checkpoints.save(state(1.0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        try:
            with pytest.raises(InputError, match=r"/t \(.*\), which takes 1\.6 MB: free space there"):
                checkpoints.save(state(2.0, size=100_000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert checkpoints.load().weights["a.weight"].tolist() == [[1.0, 1.0]] * 4
        assert not (tmp_path / "t" / "checkpoint.pt.partial").exists()


class Bomb:
    """An object whose unpickling runs code."""

    def __reduce__(self):
        return (print, ("boom",))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("checkpoint.pt", b"", r"checkpoint\.pt can't be read .*restore it, or remove the folder"),
        ("checkpoint.pt", b"PK\x03\x04 and then nothing", "can't be read"),
        ("checkpoint.pt", Bomb(), "can't be read"),
        ("settings.json", b"{", "is damaged"),
    ],
)
def test_damaged_files_are_named_and_run_nothing(tmp_path, name, content, told):
    with open_checkpoints(tmp_path / "t", IDENTITY) as checkpoints:
        checkpoints.save(state())
    if isinstance(content, bytes):
        (tmp_path / "t" / name).write_bytes(content)
    else:
        torch.save({"weights": content, "optimizer": {}, "curve": []}, tmp_path / "t" / name)
    with pytest.raises(InputError, match=told), open_checkpoints(tmp_path / "t", IDENTITY) as checkpoints:
        checkpoints.load()


def test_a_file_in_place_of_the_folder_and_an_error_of_the_training(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="can't write in"), open_checkpoints(tmp_path / "file/t", IDENTITY):
        pass
    with pytest.raises(OSError, match="the model is gone"), open_checkpoints(tmp_path / "t", IDENTITY):
        raise OSError("the model is gone")
    with open_checkpoints(tmp_path / "t", IDENTITY | {"rank": 16}):
        pass  # what was never saved binds nobody


@pytest.mark.parametrize(
    ("now", "told"),
    [
        ({"rank": 16}, "started with rank 8, now it is 16"),
        ({"base": "hf:other"}, "started with base 'hf:model', now it is 'hf:other'"),
        ({"learning_rate": 0.1}, "started with learning_rate None, now it is 0.1"),
        ({"more": 1}, "started with more None, now it is 1"),
    ],
)
def test_another_training_is_refused(tmp_path, now, told):
    with open_checkpoints(tmp_path / "t", IDENTITY) as checkpoints:
        checkpoints.save(state())
    with (
        pytest.raises(InputError, match=f"{told}: give the same, or name another --out"),
        open_checkpoints(tmp_path / "t", IDENTITY | now),
    ):
        pass
    with open_checkpoints(tmp_path / "t", IDENTITY) as checkpoints:
        assert checkpoints.load() is not None


def test_a_folder_in_use(tmp_path):
    told = "t is in use by another process: wait until it has ended, or name another --out."
    with (
        open_checkpoints(tmp_path / "t", IDENTITY),
        pytest.raises(InputError, match=told),
        open_checkpoints(tmp_path / "t", {}),
    ):
        pass


def test_a_finished_training_is_taken_away_but_nothing_of_others(tmp_path):
    with open_checkpoints(tmp_path / "t", IDENTITY) as checkpoints:
        checkpoints.save(state())
    remove_checkpoints(tmp_path / "t")
    assert not (tmp_path / "t").exists()
    with open_checkpoints(tmp_path / "t", IDENTITY) as checkpoints:
        checkpoints.save(state())
    (tmp_path / "t" / "mine.txt").write_text("")
    remove_checkpoints(tmp_path / "t")
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["mine.txt"]
