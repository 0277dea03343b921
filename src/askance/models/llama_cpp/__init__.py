"""GGUF models through llama.cpp: every signal at its speed, on machines without a GPU.

Importing this package loads the shared library of llama.cpp; where none fits, what is missing is told.
"""

from askance.models.llama_cpp.model import LlamaModel, load_gguf

__all__ = ["LlamaModel", "load_gguf"]
