"""The decode loop: prefill once, then one token at a time for each sample."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from askance.core.types import Generation, Key, Sampling, Scored, Token, TokenIds, Until, Want, Watch
from askance.models.hf.detokenise import Detokeniser
from askance.models.hf.network import Context, Network
from askance.models.hf.signals import Chooser, Reading, read
from askance.models.hf.vocabulary import Vocabulary
from askance.runtime.writing import Writing

Check = Callable[[], None]
"""Called before every step; raises when nobody waits for the result any more."""


@dataclass(frozen=True, slots=True)
class Job:
    """One call of `generate`, checked and with its prompt as ids."""

    prompt_ids: TokenIds
    named_ids: TokenIds
    sampling: Sampling
    want: Want
    until: Until | None
    n: int
    key: Key
    watch: Watch | None
    model_name: str
    reused_tokens: int = 0


@torch.inference_mode()
def generate(network: Network, vocabulary: Vocabulary, job: Job, check: Check) -> tuple[Generation, ...]:
    """All samples of a job, one after the other. The prompt is computed once."""
    context, logits, reused_tokens = network.prefill(job.prompt_ids, check)
    job = replace(job, reused_tokens=reused_tokens)
    if job.sampling.temperature == 0:
        return (_write(network, vocabulary, job, 0, context, logits, check),) * job.n
    samples = []
    for sample in range(job.n):
        own = context.fork() if sample < job.n - 1 else context
        samples.append(_write(network, vocabulary, job, sample, own, logits, check))
    return tuple(samples)


def _write(
    network: Network,
    vocabulary: Vocabulary,
    job: Job,
    sample: int,
    context: Context,
    logits: Tensor,
    check: Check,
) -> Generation:
    chooser = Chooser(job.sampling, job.key, sample, job.model_name)
    writing = Writing(job.sampling, job.until, job.watch if sample == 0 else None)
    detokeniser = Detokeniser(vocabulary, job.prompt_ids)
    while True:
        check()
        token_id = chooser.choose(logits[-1])
        reading = read(logits[-1], token_id, job.want, job.named_ids)
        _append(writing, detokeniser, vocabulary, job.sampling, token_id, reading)
        if writing.is_finished:
            return writing.generation(job.prompt_ids, len(job.prompt_ids), job.reused_tokens)
        if job.want.attention is None:
            logits = network.feed(context, (token_id,))
        else:
            logits, rows = network.feed_watched(context, token_id)
            row = _over_heads(rows, job.want.attention)
            writing.tokens[-1] = replace(writing.tokens[-1], attention=row)


def _append(
    writing: Writing,
    detokeniser: Detokeniser,
    vocabulary: Vocabulary,
    sampling: Sampling,
    token_id: int,
    reading: Reading,
) -> None:
    """Give the chosen token, with text and signals, to `writing`."""
    top = tuple((detokeniser.peek(id), logprob) for id, logprob in reading.top)
    is_end = token_id in vocabulary.end_ids
    text = "" if is_end else detokeniser.add(token_id)
    if not is_end and len(writing.tokens) + 1 == sampling.max_tokens:
        text += detokeniser.flush()
    start = writing.tokens[-1].end if writing.tokens else 0
    token = Token(
        token_id, text, start, start + len(text), reading.logprob, reading.entropy, top, reading.probs
    )
    if is_end:
        writing.end(token)
    else:
        writing.add(token)


def _over_heads(rows: NDArray[np.float32], how: Literal["mean", "max", "heads"]) -> NDArray[np.float32]:
    if how == "heads":
        return rows
    over: NDArray[np.float32] = rows.mean(axis=0) if how == "mean" else rows.max(axis=0)
    return over


@torch.inference_mode()
def score(
    network: Network, prompt_ids: TokenIds, options: Sequence[TokenIds], check: Check
) -> tuple[Scored, ...]:
    """Summed log-probability (nats) of each option after the prompt, which is computed once."""
    context, first, _ = network.prefill(prompt_ids, check)
    scores = []
    for ids in options:
        check()
        logits = first
        if len(ids) > 1:
            rest = network.feed(context.fork(), ids[:-1], keep_logits=len(ids) - 1)
            logits = torch.cat((first, rest))
        logprobs = torch.log_softmax(logits.float(), dim=-1)
        chosen = logprobs[torch.arange(len(ids)), torch.tensor(ids)]
        scores.append(Scored(float(chosen.double().sum()), len(ids)))
    return tuple(scores)


@torch.inference_mode()
def attend(network: Network, ids: TokenIds, check: Check) -> NDArray[np.float32]:
    """The last layer's weights over `ids`: shape [heads, ids, ids]."""
    check()
    return network.attend(ids)
