"""Properties of the module that is trained."""

from typing import Any

import torch
from torch import Tensor


def trainable_weights(module: Any) -> dict[str, Tensor]:
    """Return the weights of a module that are trained, by name."""
    return {name: weights for name, weights in module.named_parameters() if weights.requires_grad}


def device_description(device: torch.device, precision: torch.dtype) -> str:
    """Return a device and the precision of the computation, such as "cpu in float32"."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return f"{name} in {str(precision).removeprefix('torch.')}"
