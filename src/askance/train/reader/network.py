"""The module that is trained: rows in, losses out."""

import inspect
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from askance.models.hf.adapter import Adapter
from askance.train.reader.adapting import with_adapter
from askance.train.reader.packing import Row, lone_rows
from askance.train.reader.settings import ReaderSettings

_ROUNDING = {torch.float32: 1e-3, torch.bfloat16: 0.05}
"""How far the mean loss of a lesson (nats) may be off because it is computed beside others."""


class Trainee:
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

    def losses(self, row: Row) -> Tensor:
        """Of each goal of a row, unweighted (nats): shape [goals]."""
        device = self._plain.device
        places = torch.tensor([goal.place for goal in row.goals], device=device)
        wanted = torch.tensor([goal.token_id for goal in row.goals], device=device)
        with torch.autocast(device.type, torch.bfloat16, enabled=self._precision == torch.bfloat16):
            logits = self._logits(row, places)
        return cross_entropy(logits.float(), wanted, reduction="none")

    def loss(self, row: Row) -> Tensor:
        """The sum of the losses of a row's goals, each times its weight."""
        weights = torch.tensor([goal.weight for goal in row.goals], device=self._plain.device)
        return (self.losses(row) * weights).sum()

    def packs_exactly(self, rows: Sequence[Row]) -> bool:
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

    def _logits(self, row: Row, places: Tensor) -> Tensor:
        options: dict[str, Any] = {"logits_to_keep": places} if self._keeps_logits else {}
        if len(row.lessons) > 1:
            options["position_ids"] = torch.tensor([row.depths], device=places.device)
            options["attention_mask"] = torch.from_numpy(row.sees())[None, None].to(places.device)
        ids = torch.tensor([row.ids], device=places.device)
        logits: Tensor = self._plain(input_ids=ids, use_cache=False, **options).logits[0]
        return logits if self._keeps_logits else logits[places]
