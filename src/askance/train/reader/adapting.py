"""An adapter for training: low-rank changes beside weights that stay as they are (Hu et al., 2022, "LoRA:
Low-Rank Adaptation of Large Language Models").
"""

from functools import partial
from typing import Any

from torch import Tensor, addmm
from torch.nn import Linear
from torch.nn.functional import linear

from askance.core.errors import InputError, MissingExtra
from askance.models.hf.adapter import Adapter
from askance.train.reader.settings import ReaderSettings

_NAME = "default"


def with_adapter(module: Any, settings: ReaderSettings, begun: Adapter | None = None) -> Any:
    """Peft's model around `module`, which has an adapter beside each of its linear layers but the last.

    Args:
        begun: a reader made here, whose weights are the first ones; otherwise they are random, and zero
            where they change what comes out.

    Raises:
        InputError: the one begun is of another rank or scale.
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
        if begun is not None:
            _take_over(adapted, begun, settings)
    for layer in [each for each in module.modules() if isinstance(each, lora.Linear)]:
        if type(layer.get_base_layer()) is Linear:
            layer.forward = partial(_added, layer)
    return adapted


def _take_over(adapted: Any, begun: Adapter, settings: ReaderSettings) -> None:
    from peft import PeftConfig, load_peft_weights, set_peft_model_state_dict

    folder = str(begun.folder)
    config: Any = PeftConfig.from_pretrained(folder)
    if (config.r, config.lora_alpha) != (settings.rank, settings.alpha):
        raise InputError(
            f"adapter {folder!r} has rank={config.r} and alpha={config.lora_alpha}, the settings say "
            f"rank={settings.rank} and alpha={settings.alpha}: give --set rank={config.r} --set "
            f"alpha={config.lora_alpha}, or start from its base."
        )
    report = set_peft_model_state_dict(adapted, load_peft_weights(folder, device="cpu"))
    amiss = [*report.unexpected_keys, *(name for name in report.missing_keys if "lora_" in name)]
    if amiss:
        raise InputError(
            f"adapter {folder!r} is not of the kind that is trained here, beside all linear layers: "
            f"{len(amiss)} of its weights have no counterpart, such as {amiss[0]}. Start from its base."
        )


def _added(layer: Any, inputs: Tensor) -> Tensor:
    """What peft's layer gives, with one pass over its wide output in place of three."""
    frozen, rows = layer.get_base_layer(), inputs.reshape(-1, inputs.shape[-1])
    wide = linear(rows, frozen.weight, frozen.bias)
    narrow = linear(rows, layer.lora_A[_NAME].weight)
    back = layer.lora_B[_NAME].weight * layer.scaling[_NAME]
    return addmm(wide, narrow, back.t()).view(*inputs.shape[:-1], -1)
