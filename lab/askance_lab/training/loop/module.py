"""The part that all trained models share: a module, its trained weights, and its precision."""

from typing import Any

import torch
from torch import Tensor

from askance_lab.training.loop.settings import TrainingSettings


class TrainedModule:
    """A module that is trained. It stays in evaluation mode, without dropout.

    Args:
        module: The module, on the device on which it is trained.
    """

    def __init__(self, module: Any, settings: TrainingSettings) -> None:
        self.module, self._device = module.eval(), module.device
        self._precision = getattr(torch, settings.with_precision_for(self._device.type).precision)

    @property
    def trainable_weights(self) -> dict[str, Tensor]:
        """The weights that are trained, by name."""
        return {name: each for name, each in self.module.named_parameters() if each.requires_grad}

    @property
    def device_description(self) -> str:
        """The device and the precision of the computation, such as "cpu in float32"."""
        device = self._device
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        return f"{name} in {str(self._precision).removeprefix('torch.')}"

    def autocast(self) -> torch.autocast:
        """Return a context in which matrix products have the precision of the settings."""
        return torch.autocast(self._device.type, torch.bfloat16, enabled=self._precision == torch.bfloat16)
