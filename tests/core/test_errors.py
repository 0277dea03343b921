"""Errors: the tree, its exit codes and messages, and failures of the machine, told from those of programs."""

import errno
import inspect
import os

import pytest

from askance.core import errors
from askance.core.errors import (
    AskanceError,
    InputError,
    MachineFailure,
    ModelFailure,
    PromptTooLong,
    UnknownName,
    machine_failure,
)


def test_the_docstring_prints_the_whole_tree_and_bad_input_has_an_exit_code_of_its_own():
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if issubclass(c, AskanceError)]
    assert len(classes) > 10
    assert all(each.__name__ in errors.__doc__ for each in classes)
    assert (AskanceError.exit_code, InputError.exit_code, ModelFailure.exit_code) == (1, 2, 1)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (UnknownName("method", "flair", ["flare", "single"]),
         "unknown method 'flair': did you mean 'flare'? Known: flare, single."),
        (UnknownName("method", "z" * 20_000, ["flare"]), f"unknown method '{'z' * 98}: there is"),
        (UnknownName("method", "zzz", ["flare"]), "none with a similar name. Known: flare."),
        (PromptTooLong("tiny", "90 tokens and 20 more"), "window of tiny: 90 tokens and 20 more"),
        (PromptTooLong("tiny", "90 tokens and 20 more"), "passages=N"),
    ],
)  # fmt: skip
def test_messages_give_names_and_numbers(error, message):
    assert message in str(error)


def behind(message, cause):
    """Return an error of ours that another one has caused."""
    error = InputError(message)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("std::bad_alloc"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        RuntimeError("unable to mmap 99 bytes from file <x>: Cannot allocate memory (12)"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate."),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
    ],
    ids=lambda error: str(error)[:30],
)
def test_memory_that_ran_out_is_recognised_also_behind_our_own_errors(error):
    for failure in (machine_failure(error), machine_failure(behind("the files may be damaged", error))):
        assert failure is not None
        assert failure.exit_code == 1
        assert str(failure).startswith("there is not enough memory (")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_no_room_to_write(number):
    error = OSError(number, os.strerror(number), "there.txt")
    assert str(machine_failure(error)) == (
        f"can't write there.txt: {os.strerror(number)}. Free some space, or write elsewhere."
    )
    failure = machine_failure(behind("can't write there.txt: name another.", error))
    assert (str(failure), type(failure)) == ("can't write there.txt: name another.", MachineFailure)


@pytest.mark.parametrize(
    "error",
    [
        None,
        InputError("no"),
        ModelFailure("the server said: CUDA out of memory"),
        RuntimeError("size mismatch"),
        OSError(errno.EPIPE, "broken pipe"),
        FileNotFoundError(errno.ENOENT, "no such file", "out of memory.jsonl"),
        UnicodeEncodeError("ascii", "ü", 0, 1, "out of memory"),
    ],
)
def test_what_says_nothing_of_the_machine(error):
    assert machine_failure(error) is None
