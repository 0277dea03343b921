"""The module that is trained: rows in, losses out."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from askance.core.errors import MissingExtra
from askance.train.reader.packing import Row
from askance.train.reader.settings import ReaderSettings


class Trainee:
    """A causal language model whose adapter, or all of whose weights, are trained.

    Logits are computed where there is something to predict and nowhere else: with a vocabulary of 50,000
    words and a small model they would cost as much as a fifth of all layers.
    """

    def __init__(self, module: Any, settings: ReaderSettings) -> None:
        torch.manual_seed(settings.seed)
        self.module = _with_adapter(module, settings) if settings.method == "lora" else module
        self.module.train()
        plain = self.module.get_base_model() if settings.method == "lora" else self.module
        self._body, self._head = plain.get_decoder(), plain.get_output_embeddings()
        self._precision = _precision(plain.device)

    @property
    def trainable(self) -> dict[str, Tensor]:
        """The weights that are learned, by name."""
        return {name: each for name, each in self.module.named_parameters() if each.requires_grad}

    def losses(self, row: Row) -> Tensor:
        """Of each goal of a row, unweighted (nats): shape [goals]."""
        device = self.module.device
        sees = torch.from_numpy(row.sees())[None, None].to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self._precision == torch.bfloat16):
            hidden = self._body(
                input_ids=torch.tensor([row.ids], device=device),
                position_ids=torch.tensor([row.depths], device=device),
                attention_mask=sees,
                use_cache=False,
            ).last_hidden_state[0]
            logits = self._head(hidden[torch.tensor([goal.place for goal in row.goals], device=device)])
        wanted = torch.tensor([goal.token_id for goal in row.goals], device=device)
        return cross_entropy(logits.float(), wanted, reduction="none")

    def loss(self, row: Row) -> Tensor:
        """The sum of the losses of a row's goals, each times its weight."""
        weights = torch.tensor([goal.weight for goal in row.goals], device=self.module.device)
        return (self.losses(row) * weights).sum()


def _with_adapter(module: Any, settings: ReaderSettings) -> Any:
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise MissingExtra("peft", "train", "training an adapter") from error
    config = LoraConfig(
        r=settings.rank, lora_alpha=settings.alpha, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    return get_peft_model(module, config)


def _precision(device: torch.device) -> torch.dtype:
    """Bfloat16 where the machine computes with it: elsewhere it is several times slower than float32."""
    if device.type == "cpu":
        probe = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
        return torch.bfloat16 if probe is not None and probe() else torch.float32
    return torch.bfloat16
