"""A callback that lets through tensors of one name, as machine code."""

import ctypes
import platform
import sys

import numpy as np
import pytest

from askance.models.llama_cpp import context
from askance.models.llama_cpp.name_filter import NameFilter
from askance.models.llama_cpp.watch import Watch

Callback = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p)

makes_code = pytest.mark.skipif(
    (platform.machine(), sys.platform) != ("x86_64", "linux"),
    reason="there is machine code for Linux on x86-64",
)


def tensor(name):
    """What begins like one as far as its name."""
    head = ctypes.create_string_buffer(512)
    content = name.encode() + b"\0"
    head[256 : 256 + len(content)] = content
    return head


@pytest.fixture
def asked():
    """The tensors that get through to Python."""
    return []


@pytest.fixture
def filtered(asked):
    def function(address, ask, data):
        asked.append(address)
        return True

    kept = Callback(function)
    name_filter = NameFilter(b"kq_soft_max-2", kept)
    callback = Callback(name_filter.callback)

    def call(head):
        return callback(ctypes.addressof(head), True, name_filter.data), kept

    return call


@makes_code
@pytest.mark.parametrize(
    "name",
    ["kq_soft_max-29", "kq_soft_max-", "kq_soft_max-1", "kq-2", "", "Kq_soft_max-2", "kq_soft_max-2 (view)"],
)
def test_another_name_is_answered_without_python(filtered, asked, name):
    answer, _ = filtered(tensor(name))
    assert answer is False
    assert asked == []


@makes_code
def test_the_name_gets_through_whatever_stands_behind_its_end(filtered, asked):
    head = tensor("kq_soft_max-2")
    head[256 + 14 : 256 + 20] = b"behind"
    answer, _ = filtered(head)
    assert answer is True
    assert asked == [ctypes.addressof(head)]


@makes_code
def test_a_name_beyond_what_is_compared_is_refused():
    with pytest.raises(OSError, match="too long"):
        NameFilter(b"kq_soft_max-10000", Callback(lambda *_: True))


def test_attention_is_the_same_where_no_code_may_be_made(gguf_files, monkeypatch):
    def refused(*_):
        raise OSError("no machine code may be made")

    from askance.models.llama_cpp import watch
    from askance.models.llama_cpp.weights import Weights

    weights = Weights(gguf_files["qwen"][0])
    found = []
    for forbidden in (False, True):
        if forbidden:
            monkeypatch.setattr(watch, "NameFilter", refused)
        made = context.Context(weights, 1, 256, watches=True)
        _, rows = made.run_watched([0], [0], [list(range(20, 40))], [1])
        _, row = made.run_watched([0], [20], [[7]], [1])
        found.append((rows, row))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@makes_code
def test_watching_asks_python_for_one_tensor_a_pass(gguf_files):
    from askance.models.llama_cpp.weights import Weights

    made = context.Context(Weights(gguf_files["qwen"][0]), 1, 256, watches=True)
    made.run_watched([0], [0], [list(range(20, 40))], [1])
    assert isinstance(made._watch, Watch)
    assert not made._watch, "an address is remembered of each tensor that Python was asked for in vain"
