"""How much memory there is for keys and values."""

from pathlib import Path

import torch

from askance.models.local.free_memory import free_bytes_of_machine

_SHARE_OF_GPU = 0.8


def free_bytes(device: torch.device, root: Path = Path("/")) -> int:
    """A part of the memory that is free now, of the GPU or of what this process may have of the machine.

    Args:
        root: of the file system.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what torch keeps of tensors that are gone does not look free
        return int(_SHARE_OF_GPU * torch.cuda.mem_get_info(device)[0])
    return free_bytes_of_machine(root)
