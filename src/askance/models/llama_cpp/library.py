"""llama.cpp as a shared library: the declarations that askance needs of it, and whether they fit.

The library travels inside a wheel, without a compiler: `xllamacpp`, or `llama-cpp-python` where somebody has
compiled that. Neither package is imported. A C library does not say how its structures are laid out, so that
the versions are pinned and what the library itself fills in is compared with what it should be. What does not
fit is not used, and `Unfit` says why.
"""

import ctypes
import os
import platform
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int8, c_int32, c_int64, c_size_t, c_void_p
from ctypes import c_uint32 as c_uint
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

PACKAGES = {"xllamacpp": "2026.9.11063", "llama-cpp-python": "0.3.36"}
"""The versions whose structures are declared here, in the order in which they are looked for."""
FLASH_ATTENTION_OFF = 0
"""Of `llama_flash_attn_type`."""
_FILES = {"xllamacpp": ("xllamacpp", "*.so"), "llama-cpp-python": ("llama_cpp", "lib/*")}
"""The module of each package, and where its libraries lie in it."""
_ERROR = 4
"""Of `ggml_log_level`."""
_SPARE = c_int64 * 64
"""Room behind a structure, so that a longer one would overwrite nothing else."""

EvalCallback = ctypes.CFUNCTYPE(c_bool, c_void_p, c_bool, c_void_p)
LogCallback = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)


class Unfit(Exception):
    """No library that is installed can be used; the text says why, package by package."""


class ModelSettings(ctypes.Structure):
    """`llama_model_params`."""

    _fields_ = (
        ("devices", c_void_p),
        ("tensor_buft_overrides", c_void_p),
        ("n_gpu_layers", c_int32),
        ("split_mode", c_int),
        ("load_mode", c_int),
        ("lazy_mode", c_int),
        ("main_gpu", c_int32),
        ("tensor_split", c_void_p),
        ("progress_callback", c_void_p),
        ("progress_callback_user_data", c_void_p),
        ("kv_overrides", c_void_p),
        ("vocab_only", c_bool),
        ("check_tensors", c_bool),
        ("use_extra_bufts", c_bool),
        ("no_host", c_bool),
        ("no_alloc", c_bool),
        ("load_mtp", c_bool),
        ("spare", _SPARE),
    )


class ContextSettings(ctypes.Structure):
    """`llama_context_params`."""

    _fields_ = (
        ("n_ctx", c_uint),
        ("n_batch", c_uint),
        ("n_ubatch", c_uint),
        ("n_seq_max", c_uint),
        ("n_rs_seq", c_uint),
        ("n_outputs_max", c_uint),
        ("n_outputs_max_per_seq", c_uint),
        ("n_threads", c_int32),
        ("n_threads_batch", c_int32),
        ("ctx_type", c_int),
        ("rope_scaling_type", c_int),
        ("pooling_type", c_int),
        ("attention_type", c_int),
        ("flash_attn_type", c_int),
        ("rope_freq_base", c_float),
        ("rope_freq_scale", c_float),
        ("yarn_ext_factor", c_float),
        ("yarn_attn_factor", c_float),
        ("yarn_beta_fast", c_float),
        ("yarn_beta_slow", c_float),
        ("yarn_orig_ctx", c_uint),
        ("defrag_thold", c_float),
        ("cb_eval", c_void_p),
        ("cb_eval_user_data", c_void_p),
        ("type_k", c_int),
        ("type_v", c_int),
        ("abort_callback", c_void_p),
        ("abort_callback_data", c_void_p),
        ("embeddings", c_bool),
        ("offload_kqv", c_bool),
        ("no_perf", c_bool),
        ("op_offload", c_bool),
        ("swa_full", c_bool),
        ("kv_unified", c_bool),
        ("samplers", c_void_p),
        ("n_samplers", c_size_t),
        ("ctx_other", c_void_p),
        ("spare", _SPARE),
    )


class Batch(ctypes.Structure):
    """`llama_batch`: the tokens of a pass."""

    _fields_ = (
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", POINTER(c_float)),
        ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)),
        ("seq_id", POINTER(POINTER(c_int32))),
        ("logits", POINTER(c_int8)),
    )


class TensorHead(ctypes.Structure):
    """How a `ggml_tensor` begins."""

    _fields_ = (("type", c_int), ("buffer", c_void_p), ("extents", c_int64 * 4), ("strides", c_size_t * 4))


_MODEL_DEFAULTS = {
    "n_gpu_layers": -1,
    "split_mode": 1,
    "load_mode": -1,
    "lazy_mode": 1,
    "main_gpu": 0,
    "vocab_only": False,
    "check_tensors": False,
    "use_extra_bufts": True,
    "no_host": False,
    "no_alloc": False,
}
_CONTEXT_DEFAULTS = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_rs_seq": 0,
    "n_outputs_max": 0,
    "n_outputs_max_per_seq": 1,
    "n_threads": 4,
    "n_threads_batch": 4,
    "ctx_type": 0,
    "rope_scaling_type": -1,
    "pooling_type": -1,
    "attention_type": -1,
    "flash_attn_type": -1,
    "yarn_ext_factor": -1,
    "yarn_attn_factor": -1,
    "yarn_beta_fast": -1,
    "yarn_beta_slow": -1,
    "defrag_thold": -1,
    "type_k": 1,
    "type_v": 1,
    "embeddings": False,
    "offload_kqv": True,
    "no_perf": True,
    "op_offload": True,
    "swa_full": True,
    "kv_unified": False,
    "n_samplers": 0,
}
"""What the library fills in by itself: a field that moved shows a value of another one."""

_FUNCTIONS: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "llama_backend_init": (None, ()),
    "llama_log_set": (None, (LogCallback, c_void_p)),
    "llama_supports_gpu_offload": (c_bool, ()),
    "llama_model_default_params": (ModelSettings, ()),
    "llama_context_default_params": (ContextSettings, ()),
    # Models.
    "llama_model_load_from_file": (c_void_p, (c_char_p, ModelSettings)),
    "llama_model_free": (None, (c_void_p,)),
    "llama_model_get_vocab": (c_void_p, (c_void_p,)),
    "llama_model_n_layer": (c_int32, (c_void_p,)),
    "llama_model_n_head": (c_int32, (c_void_p,)),
    "llama_model_n_head_kv": (c_int32, (c_void_p,)),
    "llama_model_n_embd": (c_int32, (c_void_p,)),
    "llama_model_n_ctx_train": (c_int32, (c_void_p,)),
    "llama_model_meta_val_str": (c_int32, (c_void_p, c_char_p, c_char_p, c_size_t)),
    "llama_model_chat_template": (c_char_p, (c_void_p, c_char_p)),
    "llama_model_has_encoder": (c_bool, (c_void_p,)),
    "llama_model_has_decoder": (c_bool, (c_void_p,)),
    "llama_model_is_recurrent": (c_bool, (c_void_p,)),
    "llama_model_is_hybrid": (c_bool, (c_void_p,)),
    "llama_model_is_diffusion": (c_bool, (c_void_p,)),
    # Adapters.
    "llama_adapter_lora_init": (c_void_p, (c_void_p, c_char_p)),
    "llama_adapter_get_alora_n_invocation_tokens": (ctypes.c_uint64, (c_void_p,)),
    "llama_set_adapters_lora": (c_int32, (c_void_p, POINTER(c_void_p), c_size_t, POINTER(c_float))),
    # Vocabularies.
    "llama_vocab_type": (c_int, (c_void_p,)),
    "llama_vocab_n_tokens": (c_int32, (c_void_p,)),
    "llama_vocab_get_text": (c_char_p, (c_void_p, c_int32)),
    "llama_vocab_get_attr": (c_int, (c_void_p, c_int32)),
    "llama_vocab_is_eog": (c_bool, (c_void_p, c_int32)),
    "llama_vocab_bos": (c_int32, (c_void_p,)),
    "llama_vocab_eos": (c_int32, (c_void_p,)),
    "llama_tokenize": (
        c_int32,
        (c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool),
    ),
    "llama_token_to_piece": (c_int32, (c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool)),
    # Contexts: keys and values, and passes.
    "llama_init_from_model": (c_void_p, (c_void_p, ContextSettings)),
    "llama_free": (None, (c_void_p,)),
    "llama_get_memory": (c_void_p, (c_void_p,)),
    "llama_memory_seq_rm": (c_bool, (c_void_p, c_int32, c_int32, c_int32)),
    "llama_memory_seq_cp": (None, (c_void_p, c_int32, c_int32, c_int32, c_int32)),
    "llama_state_seq_get_size": (c_size_t, (c_void_p, c_int32)),
    "llama_state_seq_get_data": (c_size_t, (c_void_p, c_void_p, c_size_t, c_int32)),
    "llama_state_seq_set_data": (c_size_t, (c_void_p, c_void_p, c_size_t, c_int32)),
    "llama_set_n_threads": (None, (c_void_p, c_int32, c_int32)),
    "llama_decode": (c_int32, (c_void_p, Batch)),
    "llama_get_logits_ith": (POINTER(c_float), (c_void_p, c_int32)),
    # Tensors.
    "ggml_get_name": (c_char_p, (c_void_p,)),
    "ggml_backend_tensor_get": (None, (c_void_p, c_void_p, c_size_t, c_size_t)),
}

_INSTRUCTIONS = ("sse3", "ssse3", "avx", "avx2", "fma", "f16c", "bmi2", "avx512")
"""Which a library for x86 may have been compiled for, as its functions `ggml_cpu_has_…` name them."""


def _load() -> tuple[str, Any]:
    """The package and version of the library that fits, and its functions."""
    reasons = list[str]()
    for package, known in PACKAGES.items():
        try:
            installed = version(package)
        except PackageNotFoundError:
            reasons.append(f"{package} is not installed")
            continue
        if installed != known:
            reasons.append(f"{package} {installed} is installed, where {known} is needed")
            continue
        try:
            return f"{package} {known}", _declared(_libraries(package))
        except (OSError, Unfit) as error:
            reasons.append(f"{package} {known} can't be used: {error}")
    raise Unfit("; ".join(reasons))


def _libraries(package: str) -> list[ctypes.CDLL]:
    module, pattern = _FILES[package]
    spec = find_spec(module)
    folders = (spec.submodule_search_locations or ()) if spec else ()
    files = [file for folder in folders for file in sorted(Path(folder).glob(pattern))]
    if not files:
        raise Unfit(f"it has no file {module}/{pattern}")
    with _sparing_waits():
        return [ctypes.CDLL(str(file), mode=ctypes.RTLD_GLOBAL) for file in files]


def _declared(libraries: list[ctypes.CDLL]) -> Any:
    """The functions with their types, once what they say of themselves is as expected."""
    found = SimpleNamespace()
    for name, (result, arguments) in _FUNCTIONS.items():
        function = _symbol(libraries, name)
        function.restype, function.argtypes = result, arguments
        setattr(found, name, function)
    _check_processor(libraries)
    _check_defaults(found.llama_model_default_params(), _MODEL_DEFAULTS)
    _check_defaults(found.llama_context_default_params(), _CONTEXT_DEFAULTS)
    return found


def _symbol(libraries: list[ctypes.CDLL], name: str) -> Any:
    for library in libraries:
        if hasattr(library, name):
            return getattr(library, name)
    raise Unfit(f"it has no function {name}")


def _check_defaults(given: ctypes.Structure, expected: Mapping[str, int]) -> None:
    for field, value in expected.items():
        if getattr(given, field) != value:
            raise Unfit(
                f"{type(given).__name__}.{field} is {getattr(given, field)}, where {value} was expected: "
                "its structures are laid out otherwise"
            )


def _check_processor(libraries: list[ctypes.CDLL]) -> None:
    """A library ends the process by a signal where it meets an instruction that the processor lacks."""
    has = _processor_flags()
    if not has:
        return
    for name in _INSTRUCTIONS:
        if _symbol(libraries, f"ggml_cpu_has_{name}")() and _FLAGS.get(name, name) not in has:
            raise Unfit(f"it was compiled for processors with {name.upper()}, which this one has not")


_FLAGS = {"sse3": "pni", "avx512": "avx512f"}
"""What Linux calls an instruction set otherwise."""


def _processor_flags() -> frozenset[str]:
    """What a processor of the kind x86 can do, as far as the system tells."""
    if platform.machine().lower() not in ("x86_64", "amd64", "i686"):
        return frozenset()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())


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


_ROUNDS = "20000"

SOURCE, llama = _load()
"""The package with its version, and the functions of the library."""

_said: deque[str] = deque(maxlen=20)


@LogCallback
def _listen(level: int, text: bytes, data: Any) -> None:
    if level == _ERROR:
        _said.append(text.decode("utf-8", "replace").strip())


llama.llama_log_set(_listen, None)
llama.llama_backend_init()


def forget_errors() -> None:
    """What was said until now is of no interest."""
    _said.clear()


def first_error() -> str:
    """What llama.cpp said first about what went wrong, as a sentence; a general one if it said nothing."""
    said = next((line for line in _said if line), "llama.cpp does not say why")
    function, colon, reason = said.partition(": ")
    return f"{(reason if colon and ' ' not in function else said).rstrip('.')}."
