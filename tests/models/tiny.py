"""Tiny random models with tokenizers of both families, made by the tests: nothing is downloaded."""

import io
import json
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers, processors
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

TEXT = (
    "The cat sat on the river bank and the dog ran after the red ball. "
    "One two three four five, six green boats went down the blue river; who was born in the city? "
    "Count to three. The capital of France is Paris, and Bonn was one, too. <s> </s> [INST] |im_start|> "
)

INSTRUCT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] == 'user' %}[INST] {{ message['content'] | trim }} [/INST]"
    "{% elif message['role'] == 'assistant' %} {{ message['content'] | trim }} {{ eos_token }}"
    "{% else %}{{ raise_exception('Only user and assistant turns') }}{% endif %}{% endfor %}"
)
CHATML_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def sentencepiece_tokenizer(text: str = TEXT, num_learned: int = 220) -> PreTrainedTokenizerFast:
    """Return a tokenizer like Llama 2 and Mistral: metaspace, byte fallback, BOS, a leading space."""
    trained = Tokenizer(BPE(unk_token="<unk>"))
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator([text], BpeTrainer(vocab_size=num_learned, special_tokens=["<unk>"]))
    learned = trained.get_vocab()
    merges = [tuple(pair) for pair in _model_json(trained)["merges"]]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += [piece for piece in sorted(learned, key=learned.__getitem__) if piece != "<unk>"]
    vocabulary = {piece: id for id, piece in enumerate(pieces)}
    tokenizer = Tokenizer(BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    special = [AddedToken(text, special=True, normalized=False) for text in ("[INST]", "[/INST]")]
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=special,
        chat_template=INSTRUCT_TEMPLATE,
    )


def save_slow_tokenizer(folder: Path, *added: str, **settings: Any) -> Path:
    """Write a tokenizer like Llama 2's and the Self-RAG checkpoints': SentencePiece, no tokenizer.json.

    Args:
        added: tokens behind its own.
        settings: of its configuration, such as `legacy`.
    """
    import sentencepiece

    folder.mkdir(exist_ok=True)
    trained = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([TEXT, "A B C D E true false yes no"] * 20),
        model_writer=trained,
        model_type="bpe",
        vocab_size=350,
        byte_fallback=True,
        pad_id=-1,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        minloglevel=2,
    )
    (folder / "tokenizer.model").write_bytes(trained.getvalue())
    config = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>"}
    config |= {"unk_token": "<unk>", "add_bos_token": True, "add_eos_token": False, **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    ids = {token: 350 + number for number, token in enumerate(added)}
    (folder / "added_tokens.json").write_text(json.dumps(ids))
    return folder


def save_slow_checkpoint(folder: Path, **settings: Any) -> Path:
    """Write a random model like the released Self-RAG checkpoints; `settings` are those of its tokenizer."""
    from askance.methods.selfrag.tokens import ALL_TOKENS

    added = (*ALL_TOKENS, "<pad>")
    save_slow_tokenizer(folder, *added, **settings)
    module = tiny_module("llama", vocabulary=350 + len(added), eos_token_id=2)
    module.save_pretrained(folder)
    return folder


def byte_level_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer like GPT-2 and Qwen: bytes, no BOS, ChatML, an added token, and runs of spaces."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    control = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=400, special_tokens=control, initial_alphabet=alphabet)
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.add_tokens(["<think>", "    "])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", chat_template=CHATML_TEMPLATE
    )


def tiny_module(model_type: str, *, vocabulary: int = 300, seed: int = 0, **settings: Any) -> Any:
    """Return a random model with weights so large that its distributions are far from uniform."""
    sizes = {
        "vocab_size": vocabulary,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.3,
        "pad_token_id": 0,
    }
    config = AutoConfig.for_model(model_type, **(sizes | settings))
    torch.manual_seed(seed)
    module = AutoModelForCausalLM.from_config(config).eval()
    for name, weights in module.named_parameters():
        if name.endswith("bias") or "norm" in name:  # zeros and ones would hide that one is left out
            weights.data += 0.3 * torch.randn_like(weights)
    return module


def save_tiny(folder: Path, model_type: str, tokenizer: PreTrainedTokenizerFast, **settings: Any) -> Path:
    """Write a tiny model and its tokenizer as files."""
    module = tiny_module(model_type, vocabulary=len(tokenizer), **settings)
    module.config.eos_token_id = module.generation_config.eos_token_id = tokenizer.eos_token_id
    module.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tokenizer_panic(folder: Path) -> None:
    """Damage a saved tokenizer so that it loads, but panics with each text: it adds an undefined token."""
    path = folder / "tokenizer.json"
    unknown = {"SpecialToken": {"id": "<unknown>", "type_id": 0}}
    first, second = ({"Sequence": {"id": id, "type_id": 0}} for id in "AB")
    framing = {"single": [unknown, first], "pair": [unknown, first, second], "special_tokens": {}}
    content = json.loads(path.read_text(encoding="utf-8"))
    content["post_processor"] = {"type": "TemplateProcessing", **framing}
    path.write_text(json.dumps(content), encoding="utf-8")


def add_reflection_tokens(tokenizer: PreTrainedTokenizerFast, module: Any, *, special: bool) -> None:
    """Add the tokens of Self-RAG to a model, as its authors do, with random embeddings."""
    from askance.methods.selfrag.tokens import ALL_TOKENS

    tokenizer.add_tokens([AddedToken(text, special=special, normalized=False) for text in ALL_TOKENS])
    torch.manual_seed(3)
    module.resize_token_embeddings(len(tokenizer), mean_resizing=False)


def save_tiny_gguf(file: Path, context_tokens: int = 512) -> Path:
    """Write a tiny llama with the byte-level tokenizer as a GGUF file."""
    import gguf
    import numpy as np

    tokenizer = byte_level_tokenizer()
    ids = tokenizer.get_vocab()
    pieces = sorted(ids, key=ids.__getitem__)
    writer = gguf.GGUFWriter(file, "llama")
    writer.add_context_length(context_tokens)
    writer.add_embedding_length(32)
    writer.add_block_count(1)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(pieces))
    writer.add_rope_dimension_count(8)
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(pieces)
    writer.add_token_types([3 if piece.startswith("<|") else 1 for piece in pieces])
    writer.add_token_merges([" ".join(pair) for pair in _model_json(tokenizer.backend_tokenizer)["merges"]])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_chat_template(CHATML_TEMPLATE)
    shapes = {"token_embd": (len(pieces), 32), "output_norm": (32,)}
    block = {"attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32), "attn_output": (32, 32)}
    block |= {"ffn_gate": (48, 32), "ffn_up": (48, 32), "ffn_down": (32, 48)}
    block |= {"attn_norm": (32,), "ffn_norm": (32,)}
    random = np.random.default_rng(0)
    for name, shape in (shapes | {f"blk.0.{part}": shape for part, shape in block.items()}).items():
        writer.add_tensor(f"{name}.weight", random.normal(0, 0.3, shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def save_adapter(
    folder: Path, base: str, *, base_spec: str | None = None, tokens: Sequence[str] = (), **settings: Any
) -> Path:
    """Write a random float16 adapter for the model `base` of `load_parts`, with a note if there is a spec.

    The adapter adds `tokens` to the vocabulary.
    """
    from peft import LoraConfig, get_peft_model

    from askance.models.hf.adapter import add_control_tokens
    from askance.models.hf.fingerprint import weights_fingerprint
    from askance.models.hf.load import load_parts
    from askance.models.hf.noise import quiet
    from askance.models.local.encoding import chat_template_digest
    from askance.models.local.model_files import ADDED_TOKENS, NOTE, ReaderNote

    module, tokenizer = load_parts(base, device="cpu", dtype="float32")
    fingerprint = weights_fingerprint(module)
    ids = add_control_tokens(module, tokenizer, dict.fromkeys(tokens))
    torch.manual_seed(5)
    targets = ["q_proj", "v_proj", "down_proj"]
    common = {"r": 3, "lora_alpha": 24, "target_modules": targets, "init_lora_weights": False}
    with quiet():
        trained = {"embed_tokens": list(ids.values())} if ids else None
        config = LoraConfig(task_type="CAUSAL_LM", trainable_token_indices=trained, **(common | settings))
        adapted = get_peft_model(module, config)
        for name, weights in adapted.named_parameters():
            if "trainable_tokens" in name:
                weights.data = torch.randn(weights.shape).half()
            weights.data = weights.data.half() if "lora_" in name else weights.data
        adapted.save_pretrained(folder, save_embedding_layers=False)
    if ids:
        (folder / ADDED_TOKENS).write_text(json.dumps(ids))
    if base_spec is not None:
        digest = chat_template_digest(tokenizer)
        note = ReaderNote(
            format=1,
            base=base_spec,
            base_fingerprint=fingerprint,
            chat_template_digest=digest,
            method="lora",
            prompts="plain",
        )
        (folder / NOTE).write_text(note.model_dump_json())
    return folder


def hostile_alphabet(control: list[str]) -> list[str]:
    """Return strings for attacks: control strings, their halves, their first and last characters."""
    pieces = set(control)
    for text in control:
        pieces |= {text[: len(text) // 2], text[len(text) // 2 :], text[0], text[-1], text[1:], text[:-1]}
    return sorted(pieces | set(string.ascii_letters[:4]) | {" ", "\n", "é", "中", "😀", "e\u0301"})


def _model_json(tokenizer: Tokenizer) -> dict[str, Any]:
    import json

    model: dict[str, Any] = json.loads(tokenizer.to_str())["model"]
    return model
