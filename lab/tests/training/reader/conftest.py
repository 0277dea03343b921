"""Tiny models are trained in one thread: on a busy machine several wait for each other most of the time."""

import pytest


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
