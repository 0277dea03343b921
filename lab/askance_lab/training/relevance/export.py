"""Export a cross-encoder to ONNX, with weights in 8 bits, for computers without torch."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from askance.models.onnx.cross_encoder import INPUTS, MAX_TOKENS, MODEL

_PAIRS, _TOKENS = 2, 20
"""The shape of the example that is traced. Both numbers are free in the exported model."""


class _Score(torch.nn.Module):
    """The score of each pair, shape [pairs]."""

    def __init__(self, module: Any) -> None:
        super().__init__()
        self.module = module

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> Tensor:
        kinds = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        logits: Tensor = self.module(input_ids=input_ids, attention_mask=attention_mask, **kinds).logits
        return logits[:, 0]


def write_onnx(module: Any, tokenizer: Any, folder: Path, max_tokens: int) -> None:
    """Write the cross-encoder `module` into a folder as `model.onnx`.

    The weights of matrices are stored in 8 bits, of which 7 are used, with one scale for each output.
    Activations are quantised while the model runs.

    Args:
        tokenizer: The tokenizer of the model, which says whether the model distinguishes query and passage.
        max_tokens: The number of tokens after which a pair is truncated, which the file says.

    Raises:
        OSError: The folder can't be written.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    ids = torch.ones((_PAIRS, _TOKENS), dtype=torch.long)
    names = [name for name in INPUTS if name in tokenizer.model_input_names]
    size = {0: torch.export.Dim("pairs"), 1: torch.export.Dim("tokens", max=max_tokens)}
    with TemporaryDirectory() as temporary, _quiet():
        whole, small = Path(temporary, "whole.onnx"), Path(temporary, "small.onnx")
        torch.onnx.export(
            _Score(module.cpu()),
            tuple(ids.clone() for _ in names),  # the exporter takes one tensor for one input
            whole,
            input_names=names,
            dynamo=True,
            external_data=False,
            verbose=False,
            dynamic_shapes=tuple(size for _ in names),
            output_names=["score"],
        )
        # With 8 bits, sums of products overflow on processors without instructions for such products.
        quantize_dynamic(whole, small, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
        model = onnx.load(small)
        onnx.helper.set_model_props(model, {MAX_TOKENS: str(max_tokens)})
        (folder / MODEL).write_bytes(model.SerializeToString())


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the notes of the exporter inside the block."""
    levels = {name: logging.getLogger(name).level for name in ("", "torch.onnx", "onnxscript")}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in levels:
            logging.getLogger(name).setLevel(logging.ERROR)
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
