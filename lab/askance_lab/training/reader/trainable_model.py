"""The model that is trained: it takes packed rows of examples and returns their losses.

By default a LoRA adapter is trained: low-rank updates added to frozen weights (Hu et al., 2022, "LoRA:
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
from askance.core.installing import LAB
from askance.models.hf.adapter import Adapter
from askance.models.hf.attention import use_own_attention
from askance_lab.training.loop.module import TrainedModule
from askance_lab.training.reader.packing import PackedRow, single_example_rows
from askance_lab.training.reader.settings import LanguageModelSettings

_ADAPTER_NAME = "default"
_TOLERANCES = {torch.float32: 1e-3, torch.bfloat16: 0.05}
"""The greatest difference that packing may make to the mean loss of an example (nats), by precision."""


class TrainableModel(TrainedModule):
    """A causal language model that is trained either through an adapter or in all of its weights.

    The module stays in evaluation mode, since dropout would make an example's loss depend on the examples
    packed with it. Logits are computed only for the tokens to be predicted: in a small model with a
    vocabulary of 50,000 words, the other logits would cost a fifth as much as all layers.

    Args:
        module, settings, start, new_ids: See `with_adapter`.
    """

    def __init__(
        self,
        module: Any,
        settings: LanguageModelSettings,
        start: Adapter | None = None,
        new_ids: Sequence[int] = (),
    ) -> None:
        torch.manual_seed(settings.seed)
        is_adapter = settings.method == "lora"
        super().__init__(with_adapter(module, settings, start, new_ids) if is_adapter else module, settings)
        use_own_attention(module)
        self._base = module
        self._takes_logits_to_keep = "logits_to_keep" in inspect.signature(module.forward).parameters

    def token_losses(self, row: PackedRow) -> Tensor:
        """Return the unweighted loss of each target token of a row (nats): shape [targets]."""
        device = self._base.device
        indices = torch.tensor([target.index for target in row.targets], device=device)
        token_ids = torch.tensor([target.token_id for target in row.targets], device=device)
        with self.autocast():
            logits = self._logits(row, indices)
        return cross_entropy(logits.float(), token_ids, reduction="none")

    def weighted_loss(self, row: PackedRow) -> Tensor:
        """Return the weighted sum of the losses of a row's target tokens."""
        weights = torch.tensor([target.weight for target in row.targets], device=self._base.device)
        return (self.token_losses(row) * weights).sum()

    def packs_exactly(self, rows: Sequence[PackedRow]) -> bool:
        """Return whether an example has the same loss in a packed row as on its own.

        Some models ignore the positions or the attention mask that they are given, and so can't use packed
        rows. The comparison is made for the longest example that shares a row.
        """
        packed = [row for row in rows if len(row.examples) > 1]
        if not packed:
            return True
        row = max(packed, key=lambda row: max(len(example.ids) for example in row.examples))
        longest = max(row.examples, key=lambda example: len(example.ids))
        with torch.no_grad():
            alone_loss = self.token_losses(single_example_rows([longest])[0]).mean().item()
            try:
                packed_loss = self.token_losses(row)[row.targets_of(longest)].mean().item()
            except Exception:  # a model that does not expect a mask of this shape can fail in any way
                return False
        return math.isclose(packed_loss, alone_loss, rel_tol=0, abs_tol=_TOLERANCES[self._precision])

    def _logits(self, row: PackedRow, indices: Tensor) -> Tensor:
        options: dict[str, Any] = {"logits_to_keep": indices} if self._takes_logits_to_keep else {}
        if len(row.examples) > 1:
            options["position_ids"] = torch.tensor([row.positions], device=indices.device)
            options["attention_mask"] = torch.from_numpy(row.attention_mask())[None, None].to(indices.device)
        ids = torch.tensor([row.ids], device=indices.device)
        logits: Tensor = self._base(input_ids=ids, use_cache=False, **options).logits[0]
        return logits if self._takes_logits_to_keep else logits[indices]


def with_adapter(
    module: Any,
    settings: LanguageModelSettings,
    start: Adapter | None = None,
    new_ids: Sequence[int] = (),
) -> Any:
    """Return a peft model around `module`, with a LoRA adapter on every linear layer except the last.

    Args:
        start: The reader whose weights the adapter starts from. Without one, half of the adapter's matrices
            are random and the others zero, so that the adapter does not change the output at first.
        new_ids: The ids of tokens whose rows in the input and the output embeddings are trained, too.

    Raises:
        InputError: `start` has another rank or alpha, or does not cover all linear layers.
        MissingExtra: The package peft is not installed.
    """
    try:
        from peft import LoraConfig, get_peft_model
        from peft.tuners import lora
    except ImportError as error:
        raise MissingExtra("peft", LAB, "training an adapter") from error
    from askance.models.hf.noise import quiet

    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
        trainable_token_indices={name: [*new_ids] for name in _embeddings(module)} if new_ids else None,
    )
    with quiet():
        peft_model = get_peft_model(module, config)
        if start is not None:
            _load_weights(peft_model, start, settings)
    for layer in [layer for layer in module.modules() if isinstance(layer, lora.Linear)]:
        if type(layer.get_base_layer()) is Linear:
            layer.forward = partial(_lora_forward, layer)
    return peft_model


def _embeddings(module: Any) -> list[str]:
    """Return the names of the input embeddings and, if they have weights of their own, of the output's."""
    inputs, outputs = module.get_input_embeddings(), module.get_output_embeddings()
    is_tied = outputs is None or outputs.weight is inputs.weight  # peft trains tied weights once, for both
    parts = [inputs] if is_tied else [inputs, outputs]
    return [name.rpartition(".")[2] for name, part in module.named_modules() if part in parts]


def _load_weights(peft_model: Any, start: Adapter, settings: LanguageModelSettings) -> None:
    from peft import (
        PeftConfig,
        get_peft_model_state_dict,
        load_peft_weights,
        set_peft_model_state_dict,
    )

    folder = str(start.folder)
    config: Any = PeftConfig.from_pretrained(folder)
    if (config.r, config.lora_alpha) != (settings.rank, settings.alpha):
        raise InputError(
            f"adapter {folder!r} has rank={config.r} and alpha={config.lora_alpha}, the settings say "
            f"rank={settings.rank} and alpha={settings.alpha}: give --set rank={config.r} --set "
            f"alpha={config.lora_alpha}, or start from its base."
        )
    # Rows of new tokens, which the adapter does not have, keep the values that they start from.
    state = get_peft_model_state_dict(peft_model, save_embedding_layers=False)
    weights = {name: row for name, row in state.items() if "trainable_tokens" in name}
    weights |= load_peft_weights(folder, device="cpu")
    result = set_peft_model_state_dict(peft_model, weights)
    unmatched = [*result.unexpected_keys, *(name for name in result.missing_keys if "lora_" in name)]
    if unmatched:
        raise InputError(
            f"adapter {folder!r} does not cover all linear layers, as the adapters trained here do: "
            f"{len(unmatched)} of its weights are unmatched, such as {unmatched[0]}: start from its base."
        )


def _lora_forward(layer: Any, inputs: Tensor) -> Tensor:
    """Return the same output as peft's layer, but with one pass over the wide output instead of three."""
    frozen, rows = layer.get_base_layer(), inputs.reshape(-1, inputs.shape[-1])
    wide = linear(rows, frozen.weight, frozen.bias)
    narrow = linear(rows, layer.lora_A[_ADAPTER_NAME].weight)
    up_projection = layer.lora_B[_ADAPTER_NAME].weight * layer.scaling[_ADAPTER_NAME]
    return addmm(wide, narrow, up_projection.t()).view(*inputs.shape[:-1], -1)
