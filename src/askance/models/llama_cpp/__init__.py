"""GGUF models through llama.cpp: every signal at its speed, on machines without a GPU.

Importing this package loads the shared library of llama.cpp; where none fits, what is missing is told.
"""

from askance.models.llama_cpp.load import load_gguf
from askance.models.llama_cpp.model import LlamaModel

__all__ = ["LlamaModel", "load_gguf"]
