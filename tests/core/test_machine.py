"""Failures of the machine, told from those of files and programs."""

import errno
import os

import pytest

from askance.core.errors import InputError, MachineFailure, ModelFailure, machine_failure

MEMORY = [
    MemoryError(),
    MemoryError("std::bad_alloc"),
    OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    RuntimeError("unable to mmap 99 bytes from file <x>: Cannot allocate memory (12)"),
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
    RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB."),
    ImportError("libtorch_cpu.so: failed to map segment from shared object"),
]


@pytest.mark.parametrize("error", MEMORY, ids=lambda error: str(error)[:30])
def test_memory_that_ran_out_is_told_also_behind_our_own_errors(error):
    told = machine_failure(error)
    assert told is not None
    assert told.exit_code == 1
    assert str(told).startswith("there is not enough memory (")
    behind = InputError("the files may be damaged")
    behind.__cause__ = error
    assert str(machine_failure(behind)) == str(told)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_no_room_to_write(number):
    error = OSError(number, os.strerror(number), "there.txt")
    assert str(machine_failure(error)) == (
        f"can't write there.txt: {os.strerror(number)}. Free some space, or write elsewhere."
    )
    behind = InputError("can't write there.txt: name another.")
    behind.__cause__ = error
    told = machine_failure(behind)
    assert (str(told), type(told)) == (str(behind), MachineFailure)


@pytest.mark.parametrize(
    "error",
    [
        None,
        InputError("no"),
        ModelFailure("the server said: CUDA out of memory"),
        KeyError("x"),
        RuntimeError("size mismatch"),
        OSError(errno.EPIPE, "broken pipe"),
        FileNotFoundError(errno.ENOENT, "no such file"),
        FileNotFoundError(errno.ENOENT, "no such file", "out of memory.jsonl"),
        UnicodeEncodeError("ascii", "ü", 0, 1, "out of memory"),
    ],
)
def test_what_says_nothing_of_the_machine(error):
    assert machine_failure(error) is None
