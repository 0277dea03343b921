"""The module that is trained: rows in, losses out.

As a rule that is an adapter: low-rank changes beside weights that stay as they are (Hu et al., 2022, "LoRA:
Low-Rank Adaptation of Large Language Models").
"""

import inspect
import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, addmm
from torch.nn import Linear
from torch.nn.functional import cross_entropy, linear

from askance.core.errors import InputError, MissingExtra
from askance.models.hf.adapter import Adapter
from askance.training.reader.packing import PackedRow, lone_rows
from askance.training.reader.settings import ReaderSettings

_NAME = "default"
_ROUNDING = {torch.float32: 1e-3, torch.bfloat16: 0.05}
"""How far the mean loss of a lesson (nats) may be off because it is computed beside others."""


class TrainableModel:
    """A causal language model whose adapter, or all of whose weights, are trained.

    It is in evaluation mode: what drops at random would make a lesson depend on what stands beside it. Logits
    are computed where there is something to predict and nowhere else: with a vocabulary of 50,000 words and a
    small model they would cost as much as a fifth of all layers.
    """

    def __init__(self, module: Any, settings: ReaderSettings, begun: Adapter | None = None) -> None:
        """Args as for `with_adapter`."""
        torch.manual_seed(settings.seed)
        self.module = with_adapter(module, settings, begun) if settings.method == "lora" else module
        self.module.eval()
        self._plain = module
        self._keeps_logits = "logits_to_keep" in inspect.signature(module.forward).parameters
        self._precision = getattr(torch, settings.settled(module.device.type).precision)

    @property
    def trainable(self) -> dict[str, Tensor]:
        """The weights that are learned, by name."""
        return {name: each for name, each in self.module.named_parameters() if each.requires_grad}

    @property
    def place(self) -> str:
        """Where it is computed and how finely, such as "cpu in float32"."""
        device = self._plain.device
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        return f"{name} in {str(self._precision).removeprefix('torch.')}"

    def losses(self, row: PackedRow) -> Tensor:
        """Of each goal of a row, unweighted (nats): shape [goals]."""
        device = self._plain.device
        places = torch.tensor([goal.place for goal in row.goals], device=device)
        wanted = torch.tensor([goal.token_id for goal in row.goals], device=device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self._precision == torch.bfloat16):
            logits = self._logits(row, places)
        return cross_entropy(logits.float(), wanted, reduction="none")

    def loss(self, row: PackedRow) -> Tensor:
        """The sum of the losses of a row's goals, each times its weight."""
        weights = torch.tensor([goal.weight for goal in row.goals], device=self._plain.device)
        return (self.losses(row) * weights).sum()

    def packs_exactly(self, rows: Sequence[PackedRow]) -> bool:
        """Whether lessons in one row lose what each loses alone, tried on the one with the longest lesson.

        Some models take their positions or their mask from elsewhere than from what they are given.
        """
        shared = [row for row in rows if len(row.lessons) > 1]
        if not shared:
            return True
        row = max(shared, key=lambda row: max(len(lesson.ids) for lesson in row.lessons))
        longest = max(row.lessons, key=lambda lesson: len(lesson.ids))
        with torch.no_grad():
            alone = self.losses(lone_rows([longest])[0]).mean().item()
            try:
                found = self.losses(row)[row.goals_of(longest)].mean().item()
            except Exception:  # a model that does not expect a mask of this shape fails in any way
                return False
        return math.isclose(found, alone, rel_tol=0, abs_tol=_ROUNDING[self._precision])

    def _logits(self, row: PackedRow, places: Tensor) -> Tensor:
        options: dict[str, Any] = {"logits_to_keep": places} if self._keeps_logits else {}
        if len(row.lessons) > 1:
            options["position_ids"] = torch.tensor([row.depths], device=places.device)
            options["attention_mask"] = torch.from_numpy(row.sees())[None, None].to(places.device)
        ids = torch.tensor([row.ids], device=places.device)
        logits: Tensor = self._plain(input_ids=ids, use_cache=False, **options).logits[0]
        return logits if self._keeps_logits else logits[places]


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
