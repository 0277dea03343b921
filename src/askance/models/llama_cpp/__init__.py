"""GGUF models that llama.cpp computes, with every signal, on machines without a GPU.

Importing this package loads the shared library of llama.cpp. If that fails, the error names what is missing.
"""

from askance.models.llama_cpp.model import LlamaModel, load_gguf

__all__ = ["LlamaModel", "load_gguf"]
