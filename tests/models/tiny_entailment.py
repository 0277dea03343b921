"""Tiny random judges of entailment with an output layer made to know two verdicts: nothing is downloaded."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from tests.contracts.entailment_contract import FOLLOWS, OTHER, PREMISE
from tests.models.tiny import byte_level_tokenizer
from tokenizers import processors
from transformers import (
    AutoConfig,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    PreTrainedTokenizerFast,
)

LABELS = {0: "contradiction", 1: "neutral", 2: "ENTAILMENT"}


def save_classifier(folder: Path, labels: dict[int, str] = LABELS) -> Path:
    """A BERT whose last label is that of the pair that follows, and whose first is that of the other."""
    tokenizer = _padded()
    config = AutoConfig.for_model(
        "bert", vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=128, initializer_range=0.3, id2label=labels,
        label2id={label: id for id, label in labels.items()},
    )  # fmt: skip
    torch.manual_seed(0)
    with torch.no_grad():
        module = AutoModelForSequenceClassification.from_config(config).eval()
        pairs = [tokenizer(PREMISE, claim, return_tensors="pt") for claim in (FOLLOWS, OTHER)]
        states = torch.cat([module.bert(**pair).pooler_output for pair in pairs])
        module.classifier.weight.zero_()
        module.classifier.bias.zero_()
        module.classifier.weight[-1] = _row(states, [5.0, -5.0])
    return _saved(module, tokenizer, folder)


def save_writer(folder: Path) -> Path:
    """A T5 that writes 1 and its end for the pair that follows, 0 and its end for the other."""
    tokenizer = _padded()
    start, end = tokenizer.pad_token_id, tokenizer.eos_token_id
    config = AutoConfig.for_model(
        "t5", vocab_size=len(tokenizer), d_model=32, d_kv=16, d_ff=48, num_layers=1, num_heads=2,
        tie_word_embeddings=False, pad_token_id=start, eos_token_id=end,
        decoder_start_token_id=start,
    )  # fmt: skip
    torch.manual_seed(0)
    digits = {claim: tokenizer(digit)["input_ids"][0] for claim, digit in ((FOLLOWS, "1"), (OTHER, "0"))}
    with torch.no_grad():
        module = AutoModelForSeq2SeqLM.from_config(config).eval()
        module.decoder.block[0].layer[1].EncDecAttention.o.weight *= 30  # so that what is read counts
        states = []
        for claim, digit in digits.items():
            text = tokenizer(f"premise: {PREMISE} hypothesis: {claim}", return_tensors="pt")

            found = module(
                **text, decoder_input_ids=torch.tensor([[start, digit]]), output_hidden_states=True
            )
            states += [*found.decoder_hidden_states[-1][0]]
        stacked = torch.stack(states)
        module.lm_head.weight = torch.nn.Parameter(torch.zeros_like(module.lm_head.weight))  # its own
        module.lm_head.weight[digits[FOLLOWS]] = _row(stacked, [5.0, 0.0, -5.0, 0.0])
        module.lm_head.weight[digits[OTHER]] = _row(stacked, [-5.0, 0.0, 5.0, 0.0])
        module.lm_head.weight[end] = _row(stacked, [0.0, 5.0, 0.0, 5.0])
    return _saved(module, tokenizer, folder)


def _padded() -> PreTrainedTokenizerFast:
    tokenizer = byte_level_tokenizer()
    tokenizer.pad_token, end = "<|endoftext|>", str(tokenizer.eos_token)
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", pair=f"$A {end} $B {end}", special_tokens=[(end, tokenizer.eos_token_id)]
    )
    return tokenizer


def _row(states: torch.Tensor, logits: list[float]) -> torch.Tensor:
    """The weights that give these logits at these states."""
    return torch.linalg.lstsq(states, torch.tensor(logits).unsqueeze(1)).solution[:, 0]


def _saved(module, tokenizer: PreTrainedTokenizerFast, folder: Path) -> Path:
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
