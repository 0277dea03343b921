"""Which engine computes a GGUF model: llama.cpp, or torch where that can't be used."""

import warnings
from importlib.util import find_spec

from askance.core.errors import MissingExtra, ModelSpecError
from askance.core.notes import note


def runs_by_llama_cpp(spec: str) -> bool:
    """Whether llama.cpp can compute; where it can't and torch is there, it is told why torch does.

    Raises:
        MissingExtra: neither is installed.
        ModelSpecError: what is there of llama.cpp can't be used, and there is no torch.
    """
    try:
        import askance.models.llama_cpp  # noqa: F401 - loads the library
    except (MissingExtra, ModelSpecError) as error:
        if find_spec("torch") is None or find_spec("transformers") is None:
            raise
        told = f"the model {spec} is computed by torch, which is slower without a GPU: {error}"
        if not note("engine", told):
            warnings.warn(told, stacklevel=2)
        return False
    return True
