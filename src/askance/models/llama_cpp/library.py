"""Find the shared library of llama.cpp, check it, and load the functions that askance declares.

The library comes compiled in the wheel `xllamacpp`, which is not imported. A C library does not describe the
layout of its structures, so only the version whose structures are declared here is used.
"""

import ctypes
import os
import re
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from askance.core.errors import MissingExtra, ModelSpecError
from askance.core.installing import install_line
from askance.models.llama_cpp.declarations import (
    FUNCTIONS,
    LOGGED_ERROR,
    PACKAGE,
    VERSION,
    AbortCallback,
    LogCallback,
)

CPU_INFO = Path("/proc/cpuinfo")
_LIBRARY = "*.pyd" if sys.platform == "win32" else "*.so"
"""The file name pattern of the library in its package."""
_SAME = ("ssse3", "avx", "avx2", "fma", "f16c", "bmi2", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8")
_FLAGS = {name: name for name in (*_SAME, "sve", "sme")}
_FLAGS |= {"sse3": "pni", "avx512": "avx512f", "avx512_vbmi": "avx512vbmi"}
_FLAGS |= {"dotprod": "asimddp", "fp16_va": "asimdhp", "matmul_int8": "i8mm"}
"""The instruction sets that a library may be compiled for: their names in the functions `ggml_cpu_has_…`, and
their names in /proc/cpuinfo."""


class UnusableLibrary(Exception):
    """The error that the installed package can't be used. Its message gives the reason."""


def load() -> tuple[str, Any]:
    """Load the library.

    Returns:
        The name of the package with its version, and the functions of its library.

    Raises:
        MissingExtra: The package is not installed.
        ModelSpecError: The installed package can't be used. The message gives the reason.
    """
    try:
        installed = version(PACKAGE)
        if installed != VERSION:
            raise UnusableLibrary(f"{PACKAGE} {installed} is installed, and version {VERSION} is needed")
        return f"{PACKAGE} {VERSION}", _declare(_open())
    except PackageNotFoundError:
        raise MissingExtra(PACKAGE, "embedded", "computing by llama.cpp") from None
    except (OSError, UnusableLibrary) as error:
        # OpenMP's runtime is neither in the wheel nor in slim containers.
        remedy = " (install the system's package libgomp1)" if "libgomp" in str(error) else ""
        raise ModelSpecError(
            f"llama.cpp can't be used: {error}{remedy}. To install it: {install_line('embedded')}"
        ) from error


def _open() -> ctypes.CDLL:
    spec = find_spec(PACKAGE)
    folders = (spec.submodule_search_locations or ()) if spec else ()
    files = [file for folder in folders for file in sorted(Path(folder).glob(_LIBRARY))]
    if not files:
        raise UnusableLibrary(f"{PACKAGE} has no file {_LIBRARY}")
    with _short_spinning():
        return ctypes.CDLL(str(files[0]))


def _declare(library: ctypes.CDLL) -> Any:
    """Return the functions with their types declared, if the processor can run them."""
    _check_processor(library)
    functions = SimpleNamespace()
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
        setattr(functions, name, function)
    return functions


def _check_processor(library: ctypes.CDLL) -> None:
    """Raise UnusableLibrary if the library has instructions that the processor lacks.

    Such an instruction would end the process.
    """
    known = _processor_flags()
    for name, flag in _FLAGS.items():
        if known and flag not in known and getattr(library, f"ggml_cpu_has_{name}")():
            raise UnusableLibrary(
                f"its library is compiled for processors with {name.upper()}, which this processor lacks"
            )


def _processor_flags() -> frozenset[str]:
    """Return this processor's instruction sets as Linux names them, or an empty set on other systems."""
    with suppress(OSError):
        text = CPU_INFO.read_text(encoding="utf-8", errors="replace")
        match = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
        return frozenset(match[1].split() if match else ())
    return frozenset()


@contextmanager
def _short_spinning() -> Iterator[None]:
    """Make OpenMP's threads spin only for a short time before they yield their core.

    When another process occupies the core of a thread, the threads that wait for this thread would spin for
    milliseconds, many times per token. libgomp reads the number of spins from the environment when the
    library is loaded inside the block. Afterwards, the environment is restored. The user's own setting takes
    precedence.
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
"""The name of the package with its version, and the functions of its library. If the package can't be used,
importing this module fails, and the next import tries again."""

_logged_errors: deque[str] = deque(maxlen=20)


def _log(level: int, text: bytes, data: Any) -> None:
    if level == LOGGED_ERROR:
        _logged_errors.append(text.decode("utf-8", "replace").strip())


def _abort(text: bytes) -> None:
    """Print a failed assertion of llama.cpp in one line, and end the process, as llama.cpp would.

    Which numbers of a file's metadata llama.cpp takes for granted depends on the kind of model, so they are
    not checked before, and the exit code is that of bad input.
    """
    message = text.decode("utf-8", "replace").strip()
    sys.stderr.write(
        f"error: llama.cpp can't continue: {message}. Most often a model's file is damaged: fetch it again.\n"
    )
    sys.stderr.flush()
    os._exit(2)


_callbacks = LogCallback(_log), AbortCallback(_abort)
llama.llama_log_set(_callbacks[0], None)
llama.ggml_set_abort_callback(_callbacks[1])
llama.llama_backend_init()


def first_error() -> str:
    """Return the first error that llama.cpp has logged since the last call, as a sentence."""
    error = next(filter(None, tuple(_logged_errors)), "llama.cpp does not say why")
    _logged_errors.clear()
    function, colon, reason = error.partition(": ")
    return f"{(reason if colon and ' ' not in function else error).rstrip('.')}."
