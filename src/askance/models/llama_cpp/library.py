"""Finds the shared library of llama.cpp, checks it, and loads the functions that askance declares.

The library comes compiled in the wheel `xllamacpp`, or in `llama-cpp-python` where somebody has compiled it.
Neither package is imported. A C library does not say how its structures are laid out: so versions are pinned,
and the default values that it fills in are compared with the expected ones. A library that does not fit is
not used.
"""

import ctypes
import os
import re
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
_ALIKE = ("ssse3", "avx", "avx2", "fma", "f16c", "bmi2", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8")
_FLAGS = {name: name for name in (*_ALIKE, "sve", "sme")}
_FLAGS |= {"sse3": "pni", "avx512": "avx512f", "avx512_vbmi": "avx512vbmi"}
_FLAGS |= {"dotprod": "asimddp", "fp16_va": "asimdhp", "matmul_int8": "i8mm"}
"""Sets of instructions that a library may have been compiled for: their names in its functions
`ggml_cpu_has_…`, and those in /proc/cpuinfo."""


class Unfit(Exception):
    """A package is installed and can't be used; the message says why."""


def load() -> tuple[str, Any]:
    """Find the package that fits; gives its name with its version, and the functions of its library.

    Raises:
        MissingExtra: no such package is installed.
        ModelSpecError: what is installed can't be used; the message says why.
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
            # OpenMP's runtime is neither in the wheel nor in slim containers.
            remedy = " (install the system's package libgomp1)" if "libgomp" in str(error) else ""
            reasons.append(f"{package} can't be loaded: {error}{remedy}")
        except Unfit as error:
            reasons.append(str(error))
    if not reasons:
        raise MissingExtra("xllamacpp", "embedded", "computing by llama.cpp")
    raise ModelSpecError(
        f"llama.cpp can't be used: {'; '.join(reasons)}. To install it: {install_line('embedded')}"
    )


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
    """The functions with their types, after what they return has been checked."""
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
    """Refuse a library with instructions that the processor lacks: one of them would end the process."""
    known = _flags_of_processor()
    for name, flag in _FLAGS.items():
        if known and flag not in known and _symbol(libraries, f"ggml_cpu_has_{name}")():
            raise Unfit(f"its library is compiled for processors with {name.upper()}, which this one has not")


def _flags_of_processor() -> frozenset[str]:
    """The sets of instructions of this processor as Linux names them; empty on other systems."""
    try:
        told = CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    found = re.search(r"^(?:flags|Features)\s*:(.*)$", told, re.MULTILINE)
    return frozenset(found[1].split() if found else ())


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
    """Let OpenMP's threads spin for a short time only before they leave the core to others.

    A thread that waits for one whose core another process has would spin for milliseconds, many times a
    token. libgomp reads the number of rounds when it is loaded; afterwards the environment is as before.
    Where the user has set how threads wait, that holds.
    """
    is_set = "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ
    if not is_set:
        os.environ["GOMP_SPINCOUNT"] = "2000"
    try:
        yield
    finally:
        if not is_set:
            os.environ.pop("GOMP_SPINCOUNT", None)


SOURCE, llama = load()
"""The name of the package with its version, and the functions of its library. Where none fits, importing this
module fails, and the next import tries again."""

_said: deque[str] = deque(maxlen=20)


def _listen(level: int, text: bytes, data: Any) -> None:
    if level == LOGGED_ERROR:
        _said.append(text.decode("utf-8", "replace").strip())


def _end(text: bytes) -> None:
    """Say in one line which assumption of llama.cpp does not hold, and end the process, as it would."""
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


def first_error() -> str:
    """The first error that llama.cpp has logged since this was last asked, as a sentence."""
    said = next(filter(None, tuple(_said)), "llama.cpp does not say why")
    _said.clear()
    function, colon, reason = said.partition(": ")
    return f"{(reason if colon and ' ' not in function else said).rstrip('.')}."
