"""Fingerprints of models: equal fingerprints mean equal answers, so that answers can be cached."""

import json
from hashlib import blake2b
from typing import Any

import torch
import transformers
from torch import Tensor

from askance.models.local.encoding import Encoding

_DIGEST_BYTES = 16
_SAMPLED_NUMBERS = 64
_IGNORED_ENTRIES = ("_name_or_path", "transformers_version")
"""The entries of a configuration that only say where it came from."""


def model_fingerprint(module: Any, encoding: Encoding) -> str:
    """Return a digest of the weights, the configuration, the encoding, and the software that runs the model.

    The digest covers versions, precision and device, since they change the last digits of numbers. Every
    weight is read once, which takes little time compared with loading the model.
    """
    config = {name: value for name, value in module.config.to_dict().items() if name not in _IGNORED_ENTRIES}
    digest = blake2b(json.dumps(config, sort_keys=True, default=str).encode(), digest_size=_DIGEST_BYTES)
    digest.update(encoding.fingerprint.encode())
    for name, weights in sorted(module.state_dict().items()):
        digest.update(name.encode())
        digest.update(_row_sums(weights))
    computed_by = (torch.__version__, transformers.__version__, str(module.dtype), module.device.type)
    return ", ".join((weights_fingerprint(module), digest.hexdigest(), *computed_by))


def weights_fingerprint(module: Any) -> str:
    """Return a digest of the weights of a model: 32 hexadecimal digits.

    The digest covers the name and shape of every weight tensor, and some of its numbers in float32. So the
    digest is cheap, and does not depend on the file format. The weights must be in the precision of their
    file or a finer one, since rounding changes the digest.
    """
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for name, weights in sorted(module.named_parameters()):
        digest.update(f"{name} {tuple(weights.shape)}\n".encode())
        flat = weights.detach().reshape(-1)
        sample = flat[:: max(1, flat.numel() // _SAMPLED_NUMBERS)].to("cpu", torch.float32)
        digest.update(sample.numpy().astype("<f4").tobytes())
    return digest.hexdigest()


def _row_sums(weights: Tensor) -> bytes:
    """Return the sum of each row of a weight tensor, with the bits of the row taken as integers.

    Unlike a sum of floating-point numbers, this sum is exact and the same in any order. It is also fast.
    """
    rows = weights.detach().reshape(-1, weights.shape[-1] if weights.dim() else 1).contiguous()
    # If possible, several numbers are taken as one integer of 64 bits. Torch would copy all smaller integers
    # to convert them, which is far slower.
    fits = rows.shape[-1] * rows.element_size() % 8 == 0
    integers = torch.int64 if fits else getattr(torch, f"int{8 * rows.element_size()}")
    sums = rows.view(integers).sum(dim=-1, dtype=torch.int64)
    return bytes(sums.cpu().numpy().astype("<i8").tobytes())
