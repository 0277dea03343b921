"""A language of a few words whose reflection-token grammar a tiny model learns within seconds.

Things have colours. Each passage states the colour of one thing. Questions:
- "What is the cat like?" is answered from the passage about the cat; with any other passage the model knows
  nothing.
- "What are the cat and the dog like?" takes two segments, each with its own passage, in any order.
- "Tell of the cat now." continues with the passage in use.
- "Count to three." needs no search.
"""

import random
import re
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from transformers import PreTrainedTokenizerFast

from askance.core.types import Passage
from askance.methods.selfrag.tokens import ALL_TOKENS
from tests.models.tiny import add_reflection_tokens, sentencepiece_tokenizer, tiny_module

THINGS = ("cat", "dog", "boat")
COLOURS = ("red", "green", "blue")
COUNTING = "[No Retrieval]One two three.[Utility:5]"
UNKNOWN = "[Irrelevant]No one knows.[Utility:1]"
_MASKED, _RATE, _STEPS = -100, 6e-3, 200


def passage(thing: str, colour: str) -> Passage:
    return Passage(f"{thing} {colour}", f"About the {thing} today", f"The {thing} is {colour} now.")


def prompt(question: str) -> str:
    return f"### Instruction:\n{question}\n\n### Response:\n"


def _found(thing: str, colour: str) -> str:
    found = passage(thing, colour)
    return f"[Retrieval]<paragraph>{found.title}\n{found.text}</paragraph>"


def _told(thing: str, colour: str) -> str:
    return f"[Relevant]The {thing} is {colour} now.[Fully supported]"


def sample(chance: random.Random) -> tuple[str, str, str]:
    """Return a question, the text written before, and the rest of the output.

    The text written before has no passage in it, as in a prompt whose earlier passage was left out.
    """
    kind = chance.choice(("one", "two", "two", "tell", "count"))
    first, second = chance.sample(THINGS, 2)
    colour, other = chance.choice(COLOURS), chance.choice(COLOURS)
    if kind == "count":
        return "Count to three.", "", COUNTING
    if kind == "two":
        question, known = f"What are the {first} and the {second} like?", chance.sample((first, second), 2)
    else:
        question = f"What is the {first} like?" if kind == "one" else f"Tell of the {first} now."
        known = [first]
    if chance.random() < 0.3:
        strange = chance.choice([thing for thing in THINGS if thing not in known])
        return question, "", _found(strange, colour) + UNKNOWN
    begun = _found(known[0], colour) + _told(known[0], colour)
    if kind == "tell":
        return question, "", f"{begun}[Continue to Use Evidence]It is all {colour} now.[Utility:4]"
    if kind == "one":
        return question, "", f"{begun}[Utility:5]"
    strange = next(thing for thing in THINGS if thing not in known)
    about = strange if chance.random() < 0.4 else known[1]
    more = _told(about, other) + "[Utility:5]" if about == known[1] else UNKNOWN
    more = _found(about, other) + more
    if chance.random() < 0.5:
        return question, "", begun + more
    return question, f"[Retrieval]{_told(known[0], colour)}", more


def learnt_model() -> tuple[PreTrainedTokenizerFast, Any]:
    """Return a tokenizer and a model that speaks the language without a mistake.

    If one training run is not enough, two more are tried.
    """
    chance = random.Random(0)
    texts = [prompt(question) + rest for question, _, rest in (sample(chance) for _ in range(300))]
    tokens = re.compile("|".join(map(re.escape, ALL_TOKENS)))
    tokenizer = sentencepiece_tokenizer(" ".join(tokens.sub(" ", text) for text in texts), num_learned=250)
    num_plain = len(tokenizer)
    for seed in range(3):
        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_key_value_heads": 4}
        module = tiny_module("llama", vocabulary=num_plain, seed=seed, initializer_range=0.2, **sizes)
        for name, weights in module.named_parameters():
            weights.data = torch.ones_like(weights) if "norm" in name else weights.data
        add_reflection_tokens(tokenizer, module, special=True)
        module.config.eos_token_id = module.generation_config.eos_token_id = tokenizer.eos_token_id
        if _has_learnt(module.train(), tokenizer, chance):
            return tokenizer, module.eval()
    raise AssertionError("the micro-language was not learnt")


def _has_learnt(module: Any, tokenizer: Any, chance: random.Random) -> bool:
    """Train; return whether the last steps had no mistake."""
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # threads of a model this small wait for each other most of the time
    try:
        return _num_late_mistakes(module, tokenizer, chance) == 0
    finally:
        torch.set_num_threads(num_threads)


def _num_late_mistakes(module: Any, tokenizer: Any, chance: random.Random) -> int:
    """Train; return the number of mistakes in the last tenth."""
    optimiser = torch.optim.AdamW(module.parameters(), lr=_RATE, betas=(0.9, 0.98), weight_decay=0.0)
    num_mistakes = 0
    for step in range(_STEPS):
        left = (_STEPS - step) / _STEPS
        optimiser.param_groups[0]["lr"] = _RATE * min(1.0, (step + 1) / 20, left / 0.6)
        ids, labels = _batch(tokenizer, [sample(chance) for _ in range(24)])
        learnt = labels[:, 1:] != _MASKED
        logits, wanted = module(input_ids=ids).logits[:, :-1][learnt], labels[:, 1:][learnt]
        loss = torch.nn.functional.cross_entropy(logits, wanted)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
        num_mistakes += int((logits.argmax(-1) != wanted).sum()) if left < 0.1 else 0
    return num_mistakes


def _batch(tokenizer: Any, samples: list[tuple[str, str, str]]) -> tuple[torch.Tensor, torch.Tensor]:
    rows = [_row(tokenizer, *each) for each in samples]
    longest = max(len(ids) for ids, _ in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    labels = torch.full((len(rows), longest), _MASKED)
    for number, (row, wanted) in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
        labels[number, : len(row)] = torch.tensor(wanted)
    return ids, labels


def _row(tokenizer: Any, question: str, begun: str, rest: str) -> tuple[list[int], list[int]]:
    """Return ids and labels; text written before and passages are not trained on."""
    whole = [*tokenizer(prompt(question) + begun + rest)["input_ids"], tokenizer.eos_token_id]
    num_begun = len(tokenizer(prompt(question) + begun)["input_ids"])
    opens, closes = tokenizer.convert_tokens_to_ids(["<paragraph>", "</paragraph>"])
    labels, in_passage = [], False
    for at, id in enumerate(whole):
        in_passage = in_passage and id != closes
        labels.append(_MASKED if at < num_begun or in_passage else id)
        in_passage = in_passage or id == opens
    return whole, labels
