"""The part of llama.cpp's C API that askance uses: functions and structures.

The declarations are those of `include/llama.h` and `ggml/include/ggml.h` at `VERSION` of `PACKAGE`.
Before the version is raised, compare the structures with those files: a C library does not describe the
layout of its structures.
"""

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int8, c_int32, c_int64, c_size_t, c_void_p
from ctypes import c_uint32 as c_uint
from typing import Any

PACKAGE, VERSION = "xllamacpp", "2026.9.11063"
"""The package with the library, and the version whose structures are declared here."""
FLASH_ATTENTION_OFF = 0
"""The value `LLAMA_FLASH_ATTN_TYPE_DISABLED`."""
LOGGED_ERROR = 4
"""The value `GGML_LOG_LEVEL_ERROR`."""
_SPARE = c_int64 * 64
"""Space after a structure that is passed by value. The library's own structure may be longer, and this space
then holds the default values of its last fields."""

LogCallback = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
AbortCallback = ctypes.CFUNCTYPE(None, c_char_p)


def _each(*declared: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Return pairs of a name and its type. Each declaration lists a type and then the names, as in C."""
    return [(name, kind) for kind, *names in declared for name in names]


class ModelSettings(ctypes.Structure):
    """The structure `llama_model_params`."""

    _fields_ = _each(
        (c_void_p, "devices", "tensor_buft_overrides"),
        (c_int32, "n_gpu_layers"),
        (c_int, "split_mode", "load_mode", "lazy_mode"),
        (c_int32, "main_gpu"),
        (c_void_p, "tensor_split", "progress_callback", "progress_callback_user_data", "kv_overrides"),
        (c_bool, "vocab_only", "check_tensors", "use_extra_bufts", "no_host", "no_alloc", "load_mtp"),
        (_SPARE, "spare"),
    )


class ContextSettings(ctypes.Structure):
    """The structure `llama_context_params`."""

    _fields_ = _each(
        (c_uint, "n_ctx", "n_batch", "n_ubatch", "n_seq_max", "n_rs_seq"),
        (c_uint, "n_outputs_max", "n_outputs_max_per_seq"),
        (c_int32, "n_threads", "n_threads_batch"),
        (c_int, "ctx_type", "rope_scaling_type", "pooling_type", "attention_type", "flash_attn_type"),
        (c_float, "rope_freq_base", "rope_freq_scale", "yarn_ext_factor", "yarn_attn_factor"),
        (c_float, "yarn_beta_fast", "yarn_beta_slow"),
        (c_uint, "yarn_orig_ctx"),
        (c_float, "defrag_thold"),
        (c_void_p, "cb_eval", "cb_eval_user_data"),
        (c_int, "type_k", "type_v"),
        (c_void_p, "abort_callback", "abort_callback_data"),
        (c_bool, "embeddings", "offload_kqv", "no_perf", "op_offload", "swa_full", "kv_unified"),
        (c_void_p, "samplers"),
        (c_size_t, "n_samplers"),
        (c_void_p, "ctx_other"),
        (_SPARE, "spare"),
    )


class LlamaBatch(ctypes.Structure):
    """The structure `llama_batch`: the tokens of one pass."""

    _fields_ = _each(
        (c_int32, "n_tokens"),
        (POINTER(c_int32), "token"),
        (POINTER(c_float), "embd"),
        (POINTER(c_int32), "pos", "n_seq_id"),
        (POINTER(POINTER(c_int32)), "seq_id"),
        (POINTER(c_int8), "logits"),
    )


class TensorHead(ctypes.Structure):
    """The first fields of a `ggml_tensor`."""

    _fields_ = (("type", c_int), ("buffer", c_void_p), ("extents", c_int64 * 4), ("strides", c_size_t * 4))


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
    "llama_tokenize": (c_int32, (c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool)),
    "llama_token_to_piece": (c_int32, (c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool)),
    # Contexts: the KV cache and forward passes.
    "llama_init_from_model": (c_void_p, (c_void_p, ContextSettings)),
    "llama_free": (None, (c_void_p,)),
    "llama_get_memory": (c_void_p, (c_void_p,)),
    "llama_memory_seq_rm": (c_bool, (c_void_p, c_int32, c_int32, c_int32)),
    "llama_state_seq_get_size": (c_size_t, (c_void_p, c_int32)),
    "llama_state_seq_get_data": (c_size_t, (c_void_p, c_void_p, c_size_t, c_int32)),
    "llama_state_seq_set_data": (c_size_t, (c_void_p, c_void_p, c_size_t, c_int32)),
    "llama_batch_init": (LlamaBatch, (c_int32, c_int32, c_int32)),
    "llama_batch_free": (None, (LlamaBatch,)),
    "llama_decode": (c_int32, (c_void_p, LlamaBatch)),
    "llama_get_embeddings_seq": (POINTER(c_float), (c_void_p, c_int32)),
    "llama_get_logits_ith": (POINTER(c_float), (c_void_p, c_int32)),
    # Tensors.
    "ggml_set_abort_callback": (c_void_p, (AbortCallback,)),
    "ggml_get_name": (c_char_p, (c_void_p,)),
    "ggml_backend_tensor_get": (None, (c_void_p, c_void_p, c_size_t, c_size_t)),
}
