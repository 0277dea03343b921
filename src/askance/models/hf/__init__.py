"""Models of PyTorch and transformers, with every signal, on CPU and GPU.

Importing this package imports both libraries. If one is missing, the error names the pip line to install it.
"""

from importlib.util import find_spec

from askance.core.errors import MissingExtra

for _package in ("torch", "transformers"):
    if find_spec(_package) is None:
        raise MissingExtra(_package, "local", "a model with local weights")

from askance.models.hf.load import load_hf  # noqa: E402 - only once both are known to be there
from askance.models.hf.model import HfModel  # noqa: E402

__all__ = ["HfModel", "load_hf"]
