"""llama.cpp as a shared library: found, checked, and loaded with the functions that askance declares.

It is in the wheel `xllamacpp`, compiled, or in `llama-cpp-python` where somebody has compiled that. Neither
is imported. A C library does not say how its structures are laid out, so versions are pinned, and what it
fills into them by itself is compared with what it should be. What does not fit is not used.
"""

import ctypes
import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from askance.core.errors import MissingExtra, ModelSpecError
from askance.core.installing import install_line
from askance.models.llama_cpp.declarations import (
    CONTEXT_DEFAULTS,
    FUNCTIONS,
    LOGGED_ERROR,
    MODEL_DEFAULTS,
    PACKAGES,
    AbortCallback,
    LogCallback,
)

CPU_INFO = Path("/proc/cpuinfo")
_LIBRARIES = {
    "xllamacpp": ("xllamacpp", "*.pyd" if sys.platform == "win32" else "*.so"),
    "llama-cpp-python": ("llama_cpp", "lib/*"),
}
"""The module of each package, and where its libraries lie in it."""
_FLAGS = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "bmi2": "bmi2",
    "avx_vnni": "avx_vnni",
    "avx512": "avx512f",
    "avx512_vbmi": "avx512vbmi",
    "avx512_vnni": "avx512_vnni",
    "avx512_bf16": "avx512_bf16",
    "amx_int8": "amx_int8",
    "dotprod": "asimddp",
    "fp16_va": "asimdhp",
    "matmul_int8": "i8mm",
    "sve": "sve",
    "sme": "sme",
}
"""Instructions that a library may have been compiled for, as its functions `ggml_cpu_has_…` name them, and as
Linux does."""


class Unfit(Exception):
    """A package is there and can't be used; the text says why, and what helps where that is not obvious."""


def load() -> tuple[str, Any]:
    """The package that fits, with its version, and the functions of its library.

    Raises:
        MissingExtra: there is none.
        ModelSpecError: what there is can't be used; says why.
    """
    reasons = list[str]()
    for package, known in PACKAGES.items():
        try:
            installed = version(package)
            if installed != known:
                raise Unfit(f"of {package}, version {known} is needed, and {installed} is installed")
            return f"{package} {known}", _declared(_opened(package))
        except PackageNotFoundError:
            continue
        except OSError as error:
            reasons.append(f"{package} can't be loaded: {error}{_remedy(error)}")
        except Unfit as error:
            reasons.append(str(error))
    if not reasons:
        raise MissingExtra("xllamacpp", "embedded", "computing by llama.cpp")
    raise ModelSpecError(
        f"llama.cpp can't be used: {'; '.join(reasons)}. To install it: {install_line('embedded')}"
    )


def _remedy(error: OSError) -> str:
    """Wheels for Linux hold all but the runtime of OpenMP, which slim containers lack."""
    return " (install the system's package libgomp1)" if "libgomp" in str(error) else ""


def _opened(package: str) -> list[ctypes.CDLL]:
    module, pattern = _LIBRARIES[package]
    spec = find_spec(module)
    folders = (spec.submodule_search_locations or ()) if spec else ()
    files = [file for folder in folders for file in sorted(Path(folder).glob(pattern))]
    if not files:
        raise Unfit(f"{package} has no file {module}/{pattern}")
    with _sparing_waits():
        return [ctypes.CDLL(str(file)) for file in files]


def _declared(libraries: Sequence[ctypes.CDLL]) -> Any:
    """The functions with their types, once what they tell is as expected."""
    found = SimpleNamespace()
    for name, (result, arguments) in FUNCTIONS.items():
        function = _symbol(libraries, name)
        function.restype, function.argtypes = result, arguments
        setattr(found, name, function)
    _check_processor(libraries)
    _check_defaults(found.llama_model_default_params(), MODEL_DEFAULTS)
    _check_defaults(found.llama_context_default_params(), CONTEXT_DEFAULTS)
    _check_batch(found)
    return found


def _symbol(libraries: Sequence[ctypes.CDLL], name: str) -> Any:
    for library in libraries:
        if hasattr(library, name):
            return getattr(library, name)
    raise Unfit(f"its library has no function {name}")


def _check_processor(libraries: Sequence[ctypes.CDLL]) -> None:
    """The process would be ended by a signal at an instruction that the processor does not know."""
    known = _flags_of_processor()
    for name, flag in _FLAGS.items():
        if known and flag not in known and _symbol(libraries, f"ggml_cpu_has_{name}")():
            raise Unfit(f"its library is compiled for processors with {name.upper()}, which this one has not")


def _flags_of_processor() -> frozenset[str]:
    """What the processor can do, as Linux tells; empty where nobody does."""
    try:
        lines = CPU_INFO.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    told = (line.partition(":") for line in lines)
    return frozenset(
        next((flags for name, _, flags in told if name.strip() in ("flags", "Features")), "").split()
    )


def _check_defaults(given: ctypes.Structure, expected: Mapping[str, int]) -> None:
    for field, value in expected.items():
        if getattr(given, field) != value:
            raise Unfit(
                f"its structures are laid out otherwise than expected: {type(given).__name__}.{field} is "
                f"{getattr(given, field)} and not {value}"
            )


def _check_batch(found: Any) -> None:
    ids = (ctypes.c_int32 * 2)(7, 8)
    batch = found.llama_batch_get_one(ids, 2)
    pointers = batch.embd, batch.pos, batch.n_seq_id, batch.seq_id, batch.logits
    if batch.n_tokens != 2 or not batch.token or batch.token[1] != 8 or any(pointers):
        raise Unfit("its structures are laid out otherwise than expected: Batch")


@contextmanager
def _sparing_waits() -> Iterator[None]:
    """Threads of OpenMP wait for each other a short time only before they leave the core to others.

    They would wait for milliseconds, many times a token, for a thread that has no core while another process
    has it. libgomp reads the number of rounds when it is loaded.
    """
    name = "GOMP_SPINCOUNT"
    if name in os.environ or "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ[name] = _ROUNDS
    try:
        yield
    finally:
        del os.environ[name]


_ROUNDS = "2000"


SOURCE, llama = load()
"""The package with its version, and the functions of the library."""

_said: deque[str] = deque(maxlen=20)


def _listen(level: int, text: bytes, data: Any) -> None:
    if level == LOGGED_ERROR:
        _said.append(text.decode("utf-8", "replace").strip())


def _end(text: bytes) -> None:
    """Say in a line what llama.cpp took for granted and is not so: it ends the process."""
    told = text.decode("utf-8", "replace").strip()
    sys.stderr.write(
        f"error: llama.cpp can't go on: {told}. Most often a model's file is damaged: fetch it again.\n"
    )
    sys.stderr.flush()
    os._exit(1)


_callbacks = LogCallback(_listen), AbortCallback(_end)
llama.llama_log_set(_callbacks[0], None)
llama.ggml_set_abort_callback(_callbacks[1])
llama.llama_backend_init()


def forget_errors() -> None:
    """What was said until now is of no interest."""
    _said.clear()


def first_error() -> str:
    """What llama.cpp said first about what went wrong, as a sentence; a general one if it said nothing."""
    said = next((line for line in _said if line), "llama.cpp does not say why")
    function, colon, reason = said.partition(": ")
    return f"{(reason if colon and ' ' not in function else said).rstrip('.')}."
