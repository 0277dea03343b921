"""The part of llama.cpp's C API that askance uses: functions, structures, and the default values of these.

The declarations are those of `include/llama.h` and `ggml/include/ggml.h` at the versions in `PACKAGES`.
Before a version is raised, compare the structures with those files: a C library does not tell how they are
laid out.
"""

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int8, c_int32, c_int64, c_size_t, c_void_p
from ctypes import c_uint32 as c_uint
from typing import Any

PACKAGES = {"xllamacpp": "2026.9.11063", "llama-cpp-python": "0.3.36"}
"""The versions whose structures are declared here, in the order in which they are tried."""
FLASH_ATTENTION_OFF = 0
"""The value `LLAMA_FLASH_ATTN_TYPE_DISABLED`."""
LOGGED_ERROR = 4
"""The value `GGML_LOG_LEVEL_ERROR`."""
_SPARE = c_int64 * 64
"""Room behind a structure that is passed by value: a library with a longer one finds its defaults there."""

LogCallback = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
AbortCallback = ctypes.CFUNCTYPE(None, c_char_p)


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
    """`llama_batch`: the tokens of one pass."""

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
    """The first fields of a `ggml_tensor`."""

    _fields_ = (("type", c_int), ("buffer", c_void_p), ("extents", c_int64 * 4), ("strides", c_size_t * 4))


MODEL_DEFAULTS = {
    "n_gpu_layers": -1,
    "split_mode": 1,
    "load_mode": -1,
    "lazy_mode": 1,
    "use_extra_bufts": True,
}
CONTEXT_DEFAULTS = {
    "n_ctx": 512,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_seq_max": 1,
    "n_outputs_max_per_seq": 1,
    "n_threads": 4,
    "n_threads_batch": 4,
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
    "offload_kqv": True,
    "no_perf": True,
    "op_offload": True,
    "swa_full": True,
}
"""Default values that the library fills in and that are not 0: a field that has moved shows another one's."""

FUNCTIONS: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
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
    "llama_model_n_swa": (c_int32, (c_void_p,)),
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
    "llama_state_seq_get_size": (c_size_t, (c_void_p, c_int32)),
    "llama_state_seq_get_data": (c_size_t, (c_void_p, c_void_p, c_size_t, c_int32)),
    "llama_state_seq_set_data": (c_size_t, (c_void_p, c_void_p, c_size_t, c_int32)),
    "llama_batch_get_one": (Batch, (POINTER(c_int32), c_int32)),
    "llama_batch_init": (Batch, (c_int32, c_int32, c_int32)),
    "llama_batch_free": (None, (Batch,)),
    "llama_decode": (c_int32, (c_void_p, Batch)),
    "llama_get_logits_ith": (POINTER(c_float), (c_void_p, c_int32)),
    # Tensors.
    "ggml_set_abort_callback": (c_void_p, (AbortCallback,)),
    "ggml_get_name": (c_char_p, (c_void_p,)),
    "ggml_backend_tensor_get": (None, (c_void_p, c_void_p, c_size_t, c_size_t)),
}
