"""An adapter for training: low-rank changes beside weights that stay as they are (Hu et al., 2022, "LoRA:
Low-Rank Adaptation of Large Language Models").
"""

from functools import partial
from typing import Any

from torch import Tensor, addmm
from torch.nn import Linear
from torch.nn.functional import linear

from askance.core.errors import MissingExtra
from askance.train.reader.settings import ReaderSettings

_NAME = "default"


def with_adapter(module: Any, settings: ReaderSettings) -> Any:
    """Peft's model around `module`, which has an adapter beside each of its linear layers but the last.

    Raises:
        MissingExtra: peft is not installed.
    """
    try:
        from peft import LoraConfig, get_peft_model
        from peft.tuners import lora
    except ImportError as error:
        raise MissingExtra("peft", "train", "training an adapter") from error
    from askance.models.hf.noise import quiet

    config = LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    with quiet():
        adapted = get_peft_model(module, config)
    for layer in [each for each in module.modules() if isinstance(each, lora.Linear)]:
        if type(layer.get_base_layer()) is Linear:
            layer.forward = partial(_added, layer)
    return adapted


def _added(layer: Any, inputs: Tensor) -> Tensor:
    """What peft's layer gives, with one pass over its wide output in place of three."""
    frozen, rows = layer.get_base_layer(), inputs.reshape(-1, inputs.shape[-1])
    wide = linear(rows, frozen.weight, frozen.bias)
    narrow = linear(rows, layer.lora_A[_NAME].weight)
    back = layer.lora_B[_NAME].weight * layer.scaling[_NAME]
    return addmm(wide, narrow, back.t()).view(*inputs.shape[:-1], -1)
