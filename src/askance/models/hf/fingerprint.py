"""What tells the answers of one model from those of any other, so that they can be kept."""

import json
from hashlib import blake2b
from typing import Any

import torch
import transformers
from torch import Tensor

from askance.models.local.encoding import Encoding

_DIGEST_BYTES = 16
_SAMPLED_NUMBERS = 64
_OF_NO_CONSEQUENCE = ("_name_or_path", "transformers_version")
"""Entries of a configuration that say where it came from."""


def model_fingerprint(module: Any, encoding: Encoding) -> str:
    """A digest of the weights, of how the model is configured, of how it reads text and lays out prompts, and
    of all that decides on a number's last digits.

    Every weight is looked at once, which is quick beside loading them.
    """
    config = {
        name: value for name, value in module.config.to_dict().items() if name not in _OF_NO_CONSEQUENCE
    }
    digest = blake2b(json.dumps(config, sort_keys=True, default=str).encode(), digest_size=_DIGEST_BYTES)
    digest.update(encoding.fingerprint.encode())
    for name, weights in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(_row_sums(weights))
    computed_by = (torch.__version__, transformers.__version__, str(module.dtype), module.device.type)
    return ", ".join((weights_fingerprint(module), digest.hexdigest(), *computed_by))


def weights_fingerprint(module: Any) -> str:
    """What tells the weights of one model from those of another: 32 hexadecimal digits.

    Made of the name and shape of every weight and of a few of its numbers in float32, so it is cheap, and
    does not depend on the kind of file they came from. Take it of weights in the precision of that file or a
    finer one: what was rounded is another model.
    """
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for name, weights in sorted(module.named_parameters()):
        digest.update(f"{name} {tuple(weights.shape)}\n".encode())
        flat = weights.detach().reshape(-1)
        few = flat[:: max(1, flat.numel() // _SAMPLED_NUMBERS)].to("cpu", torch.float32)
        digest.update(few.numpy().astype("<f4").tobytes())
    return digest.hexdigest()


def _row_sums(weights: Tensor) -> bytes:
    """Sums of the bits of numbers as integers: quick, exact, and in any order the same."""
    rows = weights.detach().reshape(-1, weights.shape[-1] if weights.dim() else 1).contiguous()
    # Several numbers in one integer: otherwise torch copies all of them, and takes many times as long.
    fits = rows.shape[-1] * rows.element_size() % 8 == 0
    integers = torch.int64 if fits else getattr(torch, f"int{8 * rows.element_size()}")
    sums = rows.view(integers).sum(dim=-1, dtype=torch.int64)
    return bytes(sums.cpu().numpy().astype("<i8").tobytes())
