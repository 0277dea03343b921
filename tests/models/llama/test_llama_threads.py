"""The number of threads of a pass."""

import os

import pytest

from askance.models.llama_cpp.context import num_threads


@pytest.mark.parametrize(("told", "expected"), [("3", 3), ("100000", 512)])
def test_as_many_threads_as_the_environment_says_and_llama_cpp_takes(monkeypatch, told, expected):
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    assert num_threads() == expected


@pytest.mark.parametrize("told", ["", "0", "many", "4,2"])
def test_otherwise_a_thread_for_each_core_of_the_process(monkeypatch, told):
    monkeypatch.setenv("OMP_NUM_THREADS", told)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 4, 5}, raising=False)
    assert num_threads() == 3


def test_where_a_system_does_not_tell_the_cores_of_a_process_it_is_those_of_the_machine(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert num_threads() == 6
