"""GGUF models through llama.cpp: every signal at its speed, on machines without a GPU.

Importing this package imports llama-cpp-python; where that is missing, the pip line that installs it is told.
"""

from importlib.util import find_spec

from askance.core.errors import MissingExtra

if find_spec("llama_cpp") is None:
    raise MissingExtra("llama-cpp-python", "gguf", "a model of the kind gguf")

from askance.models.llama_cpp.load import load_gguf
from askance.models.llama_cpp.model import LlamaModel

__all__ = ["LlamaModel", "load_gguf"]
