"""The finished reader: weights, note, card and curve, in a folder that appears whole or not at all."""

import json
import shutil
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from askance.core.errors import InputError
from askance.methods.wording import PLAIN
from askance.models.local.reader_note import ReaderNote, write_note
from askance.runtime.durable import sync
from askance.train.reader.card import Account, card

BUNDLED_NAME = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""What the hub calls the bundled model; its weights there are a little finer."""


def write_reader(
    out: Path, module: Any, tokenizer: Any, account: Account, base_fingerprint: str, template_digest: str
) -> None:
    """Write all files into a folder beside `out`, and rename it.

    An adapter is stored in float16, in peft's format; a whole model in its own precision, with its tokenizer.

    Raises:
        InputError: it can't be written; the checkpoint is still there.
    """
    partial = out.with_name(f"{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    method = account.settings.method
    note = ReaderNote(
        base=account.base,
        base_fingerprint=base_fingerprint,
        chat_template_digest=template_digest,
        method=method,
        prompts=PLAIN.name,
    )
    try:
        partial.mkdir(parents=True)
        if method == "lora":
            _write_adapter(partial, module, account.base)
        else:
            module.save_pretrained(partial)
            tokenizer.save_pretrained(partial)
        write_note(partial, note)
        (partial / "README.md").write_text(card(account), encoding="utf-8")
        (partial / "curve.jsonl").write_text(_curve(account), encoding="utf-8")
        for path in (*partial.iterdir(), partial):
            sync(path)
        partial.rename(out)
        sync(out.parent)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        reason = getattr(error, "strerror", None) or error
        raise InputError(
            f"can't write the reader into {out}: {reason}. Free space, then give the same command again: "
            "nothing has to be learned anew."
        ) from error


def _write_adapter(folder: Path, module: Any, base: str) -> None:
    from peft import get_peft_model_state_dict
    from safetensors.torch import save_file

    (config,) = module.peft_config.values()
    config.base_model_name_or_path = BUNDLED_NAME if base.startswith("bundled") else base.removeprefix("hf:")
    config.inference_mode = True
    config.target_modules = sorted(config.target_modules)  # of a set: in another order in each process
    config.save_pretrained(str(folder))
    weights = {
        name: each.half().contiguous().cpu()
        for name, each in get_peft_model_state_dict(module, save_embedding_layers=False).items()
    }
    path = folder / "adapter_model.safetensors"
    save_file(weights, str(path), metadata={"format": "pt"})
    shutil.copymode(folder / "adapter_config.json", path)  # safetensors lets nobody else read it


def _curve(account: Account) -> str:
    rows = (
        {
            "step": each.step,
            "loss": each.loss,
            "tokens": each.num_tokens,
            "seconds": each.seconds,
            "held_out": each.held_out,
        }
        for each in account.curve
    )
    return "".join(json.dumps(row) + "\n" for row in rows)
