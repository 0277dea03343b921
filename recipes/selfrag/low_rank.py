"""Write what a model trained by `askance train selfrag` learned as a small adapter.

python -m recipes.selfrag.low_rank FOLDER --out ADAPTER --rank 16

FOLDER holds a trained model whose base is `bundled:base`. The difference between each of its matrices and
that of the base is replaced by its best approximation of the given rank (by a singular value decomposition),
in float16. The rows of the reflection tokens are kept as they are. The adapter is a LoRA in peft's format.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import torch
from peft import LoraConfig
from safetensors.torch import save_file
from studies.shared import parser_of
from torch import Tensor

from askance.core.errors import InputError
from askance.methods.selfrag.tokens import ALL_TOKENS
from askance.models.bundled import BUNDLED_BASE
from askance.models.hf.load import load_parts
from askance.models.local.model_files import ADDED_TOKENS, WEIGHTS
from askance_lab.training.loop.model_folder import model_folder
from askance_lab.training.reader.save import BUNDLED_NAME
from askance_lab.training.reader.train_reader import load_base

_EMBEDDINGS = "model.embed_tokens.weight"


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("folder", type=Path, help="the folder of the trained model")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the adapter")
    parser.add_argument("--rank", type=int, default=16, help="the rank of the matrices")
    options = parser.parse_args(arguments)
    lost = write_low_rank(options.folder, options.out, options.rank)
    print(f"relative error of the differences: {lost:.3f}")


def write_low_rank(folder: Path, out: Path, rank: int) -> float:
    """Write the adapter, and return the relative error of all differences in the Frobenius norm.

    Raises:
        InputError: The rank is not positive or exceeds a side of a matrix, the model was not trained from
            `bundled:base`, or more of it was trained than its matrices and the rows of the reflection tokens.
    """
    if rank < 1:
        raise InputError(f"--rank {rank}: a positive number is expected.")
    before = dict(load_base(BUNDLED_BASE, "cpu").module.requires_grad_(False).named_parameters())
    module, tokenizer = load_parts(str(folder), device="cpu", dtype="float32")
    ids = {token: int(tokenizer.convert_tokens_to_ids(token)) for token in ALL_TOKENS}
    weights: dict[str, Tensor] = {}
    lost = total = 0.0
    for name, after in module.requires_grad_(False).named_parameters():
        base = before.get(name)
        grows = name == _EMBEDDINGS
        misfit = InputError(
            f"{folder}: {name} does not fit {BUNDLED_BASE}: name a model trained from it with method=lora."
        )
        if base is None or after.shape[grows:] != base.shape[grows:] or len(after) < len(base):
            raise misfit
        prefix = f"base_model.model.{name.removesuffix('.weight')}"
        difference = after[: len(base)] - base
        if (grows or difference.ndim != 2) and difference.any():
            raise misfit
        if grows:
            weights[f"{prefix}.token_adapter.trainable_tokens_delta"] = after[len(base) :].half()
        elif difference.any():
            if rank > min(difference.shape):
                raise InputError(f"--rank {rank}: {name} has the shape {(*difference.shape,)}, so name less.")
            a, b = _low_rank(difference, rank)
            weights |= {f"{prefix}.lora_A.weight": a, f"{prefix}.lora_B.weight": b}
            lost += float((difference - b.float() @ a.float()).square().sum())
            total += float(difference.square().sum())
    with model_folder(out) as partial:
        _config(rank, weights, sorted(ids.values())).save_pretrained(str(partial))
        (partial / ADDED_TOKENS).write_text(f"{json.dumps(ids, indent=1)}\n", encoding="utf-8")
        save_file(weights, partial / WEIGHTS, metadata={"format": "pt"})
        (partial / WEIGHTS).chmod(0o644)
    return float((lost / total) ** 0.5) if total else 0.0


def _low_rank(difference: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return the matrices a, shape [rank, inputs], and b, shape [outputs, rank], in float16."""
    left, values, right = torch.linalg.svd(difference, full_matrices=False)
    roots = values[:rank].sqrt()
    a, b = roots[:, None] * right[:rank], left[:, :rank] * roots
    return a.half().contiguous(), b.half().contiguous()


def _config(rank: int, weights: Iterable[str], ids: list[int]) -> LoraConfig:
    config = LoraConfig(
        task_type="CAUSAL_LM",
        base_model_name_or_path=BUNDLED_NAME,
        inference_mode=True,
        r=rank,
        lora_alpha=rank,
        trainable_token_indices={"embed_tokens": ids},
    )
    config.target_modules = sorted({name.split(".")[-3] for name in weights if ".lora_" in name})
    return config


if __name__ == "__main__":
    main()
