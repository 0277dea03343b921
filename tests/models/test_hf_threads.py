"""How many threads torch has while models are loaded, and behind that."""

import threading

import pytest
import torch

from askance.models.hf.threads import no_team, settle_team


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def in_a_new_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(30)
    return found[0]


def settled():
    settle_team()
    return torch.get_num_threads()


def test_one_inside_and_as_before_behind():
    with no_team():
        assert torch.get_num_threads() == 1
        with no_team():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
        settle_team()
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 3


def test_two_at_once_leave_what_was_before():
    """They begin one after the other and end in the same order."""
    entered, leave = threading.Event(), threading.Event()

    def load():
        with no_team():
            entered.set()
            leave.wait(30)

    with no_team():
        thread = threading.Thread(target=load)
        thread.start()
        entered.wait(30)
    assert torch.get_num_threads() == 3
    leave.set()
    thread.join(30)
    assert in_a_new_thread(torch.get_num_threads) == 3


def test_a_thread_that_first_computes_while_a_model_is_loaded_has_all():
    with no_team():
        assert in_a_new_thread(torch.get_num_threads) == 1
        assert in_a_new_thread(settled) == 3
        assert torch.get_num_threads() == 1
    assert in_a_new_thread(settled) == 3
