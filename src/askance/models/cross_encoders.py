"""Load a cross-encoder, and choose the engine that runs it."""

from importlib.util import find_spec
from pathlib import Path

from askance.core.errors import MissingExtra, ModelSpecError
from askance.core.ports import Model
from askance.models.bundled import BUNDLED, RERANKER
from askance.models.pair_model import PairModel
from askance.models.pair_scorer import PairScorer


def load_pair_model(name: str, *, device: str = "auto") -> Model:
    """Load a cross-encoder as a model for the role critic or reward (see `load_cross_encoder`)."""
    return PairModel(load_cross_encoder(name, device=device))


def load_cross_encoder(name: str, *, device: str = "auto") -> PairScorer:
    """Load a cross-encoder.

    A folder with a file `model.onnx` runs on onnxruntime, which is faster than torch on a CPU. All others
    run on torch.

    Args:
        name: "bundled" for the one that comes with askance, a folder, or a name on the hub such as
            "BAAI/bge-reranker-base", which is downloaded if needed.
        device: The device, as for `load_hf`. Any other than "auto" needs torch.

    Raises:
        ModelSpecError: The model is missing, unreachable, damaged or not a cross-encoder, or there is no
            such device.
        MissingExtra: A package is not installed.
    """
    if name == BUNDLED:
        return load_bundled_cross_encoder(device=device)
    folder = Path(name).expanduser()
    if device == "auto" and (folder / "model.onnx").is_file():
        if _has_onnxruntime():
            from askance.models.onnx.cross_encoder import load_onnx_cross_encoder

            return load_onnx_cross_encoder(folder, f"cross-encoder:{folder.resolve()}")
        if find_spec("sentence_transformers") is None:
            raise MissingExtra("onnxruntime", "rerank", f"the reranker {name}")
    from askance.models.hf.cross_encoder import load_cross_encoder as load_with_torch

    return load_with_torch(name, device=device)


def load_bundled_cross_encoder(*, device: str = "auto") -> PairScorer:
    """Load the cross-encoder that comes with askance, which runs on onnxruntime alone.

    Raises:
        ModelSpecError: A device is named, or the files are damaged.
        MissingExtra: The package onnxruntime or tokenizers is not installed.
    """
    if device != "auto":
        raise ModelSpecError(
            f"the bundled cross-encoder can't run on device={device}: it runs on the CPU, by onnxruntime. "
            "Leave device out, or name a folder that `askance train relevance` wrote."
        )
    if not _has_onnxruntime():
        raise MissingExtra("onnxruntime", "rerank", "the bundled reranker")
    from askance.models.onnx.cross_encoder import load_onnx_cross_encoder

    return load_onnx_cross_encoder(RERANKER, f"cross-encoder:{BUNDLED}")


def _has_onnxruntime() -> bool:
    return bool(find_spec("onnxruntime") and find_spec("tokenizers"))
