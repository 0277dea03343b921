"""How many threads compute a pass: by what the passes before got of the processor."""

import time

import pytest

from askance.models.llama_cpp.team import Team, default_team


class Machine:
    """A clock, and another one for what this process got of the cores."""

    def __init__(self, monkeypatch):
        self.seconds = self.cpu_seconds = 0.0
        monkeypatch.setattr(time, "monotonic", lambda: self.seconds)
        monkeypatch.setattr(time, "process_time", lambda: self.cpu_seconds)

    def run(self, team, seconds, cores):
        """One pass that takes so long and gets so many cores; how many threads it had."""
        num_threads = team.begin()
        self.seconds += seconds
        self.cpu_seconds += cores * seconds
        team.end()
        return num_threads


@pytest.fixture
def machine(monkeypatch):
    return Machine(monkeypatch)


def test_all_threads_where_nothing_else_runs(machine):
    team = Team(4)
    assert [machine.run(team, 0.01, 3.9) for _ in range(3)] == [4, 4, 4]


def test_one_thread_beside_processes_that_keep_both_cores_busy(machine):
    team = Team(2)
    assert [machine.run(team, 0.05, cores) for cores in (1.0, 0.6, 0.6)] == [2, 1, 1]


def test_as_many_threads_less_as_cores_are_shared(machine):
    team = Team(8)
    assert [machine.run(team, 0.05, cores) for cores in (7.0, 5.9)] == [8, 6]


def test_more_threads_are_tried_again_after_a_while_that_grows_with_what_a_trial_costs(machine):
    team = Team(2)
    machine.run(team, 0.1, 1.0)
    found = [machine.run(team, 0.1, 0.9) for _ in range(21)]
    assert found == [1] * 20 + [2]
    machine.run(team, 0.001, 0.9)
    assert machine.run(team, 0.01, 0.9) == 1, "the trial lost a core again"


def test_stays_with_all_threads_once_the_cores_are_free_again(machine):
    team = Team(2)
    machine.run(team, 0.01, 1.0)
    machine.seconds += 1
    assert [machine.run(team, 0.01, 2.0) for _ in range(3)] == [2, 2, 2]


def test_a_pass_that_is_over_at_once_tells_nothing(machine):
    team = Team(2)
    assert [machine.run(team, 0.0005, 0.5) for _ in range(2)] == [2, 2]


def test_one_thread_stays_one(machine):
    team = Team(1)
    assert [machine.run(team, 0.1, 0.1) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize("name", ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"])
def test_who_says_how_threads_wait_has_as_many_as_he_says(machine, monkeypatch, name):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv(name, "0")
    team = default_team()
    assert [machine.run(team, 0.1, 1.0) for _ in range(2)] == [3, 3]


def test_no_more_threads_than_llama_cpp_takes(machine, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "100000")
    assert machine.run(default_team(), 0.0005, 0.5) == 512


def test_at_most_as_many_threads_as_the_environment_says(machine, monkeypatch):
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    team = default_team()
    assert [machine.run(team, 0.1, cores) for cores in (3.0, 1.5, 1.0)] == [3, 3, 1]
