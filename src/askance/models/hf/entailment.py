"""Models of natural language inference (NLI) from Hugging Face, which judge entailment.

There are two families. Classifiers of text pairs have entailment among their labels. Text-to-text models in
the style of TRUE (Honovich et al. 2022, arXiv 2204.04991) read "premise: … hypothesis: …" and write "1" for
entailment. An example is google/t5_xxl_true_nli_mixture, with which ALCE judges citations.

Each pass computes one pair, so that no verdict depends on other pairs. If a pair is too long for a
classifier, the end of its longer text is cut, which is nearly always the premise. A text-to-text model has
relative positions, as T5 does, and takes a premise of any length.
"""

import re
from collections.abc import Callable
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
)

from askance.core.errors import ModelSpecError
from askance.core.safe_text import whole_characters
from askance.models.hf.load import fitting, placement, read
from askance.models.hf.model import context_tokens_of
from askance.models.hf.noise import quiet

_FAMILIES = {
    AutoModelForSequenceClassification: MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES,
    AutoModelForSeq2SeqLM: MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
}
_REFUSAL = (
    "which judges no entailment: name a classifier of natural language inference, or a text-to-text model "
    "such as google/t5_xxl_true_nli_mixture"
)
_ENTAILMENT = re.compile(r"(?!not|non|no[ _-]|contra).*entail", re.IGNORECASE)
_YES = "1"
_MAX_NEW_TOKENS = 4
"""A TRUE model writes one digit. If a model writes more, it is of another kind."""

Judge = Callable[[str, str], bool]


class HfEntailment:
    """An `Entailment` judge that asks an NLI model (see `load_entailment`)."""

    def __init__(self, judge: Judge, name: str) -> None:
        self.name = name
        self._judge = judge

    async def entails(self, premise: str, claim: str) -> bool:
        with torch.inference_mode():
            return self._judge(whole_characters(premise), whole_characters(claim))


def load_entailment(name: str, *, device: str = "auto", dtype: str = "auto") -> HfEntailment:
    """Load a model of natural language inference with its tokenizer.

    Args:
        name: A folder, or a name on the hub such as "google/t5_xxl_true_nli_mixture".
        device, dtype: The device and the precision, as for `load_hf`.

    Raises:
        ModelSpecError: The model is missing, unreachable, damaged or of neither family, or there is no
            such device.
        ParameterError: The `dtype` is unknown.
    """
    torch_device, torch_dtype = placement(device, dtype)
    family, module, tokenizer = read(name, _FAMILIES, _REFUSAL, torch_dtype)
    with fitting(name, torch_device):
        module = module.eval().requires_grad_(False).to(torch_device)
    make = _text_to_text if family is AutoModelForSeq2SeqLM else _classifier
    return HfEntailment(make(module, tokenizer, name), name)


def _classifier(module: Any, tokenizer: Any, name: str) -> Judge:
    labels = {int(id): str(label) for id, label in module.config.id2label.items()}
    entailment_ids = [id for id, label in labels.items() if _ENTAILMENT.match(label)]
    if len(entailment_ids) != 1:
        listing = ", ".join(labels.values())
        raise ModelSpecError(
            f"model {name!r} has the labels {listing}, of which not exactly one says entailment: name a "
            "classifier of natural language inference, or name its labels in config.json (id2label)."
        )
    max_tokens = context_tokens_of(module.config, tokenizer)

    def judge(premise: str, claim: str) -> bool:
        pair = tokenizer(
            premise,
            claim,
            truncation=True,
            max_length=max_tokens,
            split_special_tokens=True,
            return_tensors="pt",
        )
        return int(module(**pair.to(module.device)).logits[0].argmax()) == entailment_ids[0]

    return judge


def _text_to_text(module: Any, tokenizer: Any, name: str) -> Judge:
    def judge(premise: str, claim: str) -> bool:
        text = f"premise: {premise} hypothesis: {claim}"
        inputs = tokenizer(text, split_special_tokens=True, return_token_type_ids=False, return_tensors="pt")
        with quiet():
            output_ids = module.generate(
                **inputs.to(module.device), max_new_tokens=_MAX_NEW_TOKENS, do_sample=False
            )
        return str(tokenizer.decode(output_ids[0], skip_special_tokens=True)).strip() == _YES

    return judge
