"""Measure transformers and askance's torch backend on a GPU, in at most eight minutes.

    python -m benchmarks.gpu [NAME ...] [--dry-run] [--log FILE]

The decoding parts compare the tokens per second of plain forward passes with a KV cache (one token of each
text per pass, and none is chosen), of `generate` of transformers, and of askance without and with signals.
They need no download: the model has the shape of Llama 2 7B, and random weights in bfloat16. `prefix_reuse`
records DRAGIN's calls of the bundled model, and repeats them on that large model with and without the prefix
cache. `dragin` answers questions about the sample corpus with the bundled model.

Each part has a process and a time limit of its own. Each row is printed and stored as soon as it is measured,
so a part that fails or hangs costs only its own rows. With `--dry-run`, a tiny model on the CPU takes the
place of both models.
"""

import argparse
import asyncio
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

from askance.configuration.build import load_model
from askance.core.types import GenerateRequest, Raw, Sampling, TokenIds, Want
from askance.models.hf import HfModel
from askance.models.hf.load import as_model
from benchmarks.calls import Call, Calls, needed_tokens
from benchmarks.setup import Setup, ask_all
from benchmarks.table import Row, show, timed

_SIGNALS = {"no signals": Want(), "entropy and attention": Want(entropy=True, attention="mean")}


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of all parts; the defaults are for a GPU.

    Attributes:
        num_recorded: The number of questions whose calls `prefix_reuse` repeats.
        num_questions: The number of questions that `dragin` has in flight.
    """

    device: str = "cuda"
    hidden: int = 4096
    inner: int = 11_008
    layers: int = 32
    vocabulary: int = 32_000
    prompt_tokens: int = 512
    new_tokens: int = 64
    num_repeats: int = 3
    num_recorded: int = 2
    num_questions: int = 64


DRY = Sizes("cpu", 32, 48, 2, 300, 24, 12, 1, 1, 2)


def decoding(sizes: Sizes, num_texts: int) -> Iterator[Row]:
    """Measure the tokens per second for a number of texts that are generated together."""

    def works() -> Iterator[tuple[str, Callable[[int], object]]]:
        module, tokenizer = _random_llama(sizes)
        numbers = torch.arange(num_texts * sizes.prompt_tokens, device=sizes.device)
        prompts = (1 + 131 * numbers % (sizes.vocabulary - 1)).reshape(num_texts, -1)
        yield "plain forward passes", partial(_passes, module, prompts)
        yield "generate of transformers", partial(_generate, module, prompts)
        model = as_model(module, tokenizer, name="random")
        for signals, want in _SIGNALS.items():
            yield f"askance with {signals}", partial(_write, model, prompts.tolist(), want)

    limit = 0.0
    for what, work in works():
        speed, memory = _measured(sizes, partial(_speed, sizes, num_texts, work))
        limit = limit or speed
        yield Row(f"{what}, batch {num_texts}", speed, "tokens/s", speed / limit, f"the limit{memory}")


def prefix_reuse(sizes: Sizes) -> Iterator[Row]:
    """Measure DRAGIN's calls with the prefix cache, against the same calls without it.

    The large model generates other texts than those in the recorded prompts. The cache therefore holds a
    little less of each prompt than in real rounds.
    """
    _, calls = _ask_dragin(_answering(sizes), sizes.num_recorded)
    model, found = as_model(*_random_llama(sizes), name="random"), list[tuple[float, float]]()

    def repeat(*, reuses: bool) -> float:
        asyncio.run(model.clear_cache())
        began = time.perf_counter()
        for call in calls:
            for ids in filter(None, call.written):
                _write(model, [tuple(id % sizes.vocabulary for id in call.prompts[0])], Want(), len(ids))
            if not reuses:
                asyncio.run(model.clear_cache())
        return time.perf_counter() - began

    for reuses in (False, True):
        before = model.computed_tokens
        seconds, _ = _measured(sizes, partial(repeat, reuses=reuses))
        found.append((seconds, (model.computed_tokens - before) / (1 + sizes.num_repeats)))
        what = f"{len(calls)} calls of DRAGIN, {'with' if reuses else 'without'} prefix cache"
        for value, without, unit in zip(found[-1], found[0], ("s", "tokens computed"), strict=True):
            yield Row(what, value, unit, value / without, "without")


def dragin(sizes: Sizes) -> Iterator[Row]:
    """Measure DRAGIN with the bundled model, with all questions in flight."""
    model, number, calls = _answering(sizes), sizes.num_questions, list[Call]()

    def ask() -> float:
        seconds, calls[:] = _ask_dragin(model, number)
        return number / seconds

    speed, memory = _measured(sizes, ask)
    computed = model.computed_tokens / (1 + sizes.num_repeats)
    yield Row(f"DRAGIN, {number} in flight", speed, "questions/s", against=f"the bundled model{memory}")
    ratio = computed / sum(needed_tokens(calls))
    yield Row(f"DRAGIN, {number} in flight", computed, "tokens computed", ratio, "needed")


PARTS: dict[str, tuple[Callable[[Sizes], Iterator[Row]], float]] = {
    **{f"decoding_{number}": (partial(decoding, num_texts=number), 80) for number in (1, 8, 32)},
    "prefix_reuse": (prefix_reuse, 90),
    "dragin": (dragin, 110),
}
"""The parts, each with its time limit in seconds, which includes loading the model."""


def rows_of(name: str, part: Callable[[Sizes], Iterator[Row]], sizes: Sizes, limit_s: float) -> Iterator[Row]:
    """Run a part in another process and yield its rows, and one more if it does not finish."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["askance.models.hf"])  # otherwise each part would import torch
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send_rows, args=(part, sizes, sender), daemon=True)
    process.start()
    sender.close()
    until = time.monotonic() + limit_s
    try:
        while receiver.poll(max(0.0, until - time.monotonic())):
            yield receiver.recv()
        yield Row(f"{name}: stopped at its time limit", limit_s, "s")
    except EOFError:
        process.join()
        if process.exitcode:
            yield Row(f"{name}: failed, see the error above", process.exitcode, "exit code")
    finally:
        process.kill()
        process.join()


def main() -> None:
    """Measure the parts that the command line names, by default all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", nargs="*", choices=[[], *PARTS], help="what to measure; all if not given")
    parser.add_argument("--log", type=Path, help="enter the table in this Markdown file, newest first")
    parser.add_argument("--dry-run", action="store_true", help="a tiny model on the CPU: whether it runs")
    options = parser.parse_args()
    if not options.dry_run and not torch.cuda.is_available():
        parser.error("torch finds no GPU; --dry-run tries this script on the CPU")
    sizes = DRY if options.dry_run else Sizes()
    rows = (
        row for name in options.name or PARTS for row in rows_of(name, PARTS[name][0], sizes, PARTS[name][1])
    )
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    show(rows, options.log, f"{'dry run' if options.dry_run else _gpu()}, {versions}")


def _gpu() -> str:
    """Return the name of the GPU and the version of its driver."""
    query = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()


def _send_rows(part: Callable[[Sizes], Iterator[Row]], sizes: Sizes, sender: Connection) -> None:
    for row in part(sizes):
        sender.send(row)


def _answering(sizes: Sizes) -> HfModel:
    """Return the bundled model on the GPU, or a tiny model on the CPU."""
    if sizes.device == "cpu":
        return as_model(*_random_llama(sizes), name="random")
    model = load_model(f"bundled?device={sizes.device}")
    assert isinstance(model, HfModel)
    return model


def _random_llama(sizes: Sizes) -> tuple[Any, PreTrainedTokenizerFast]:
    """Return a module with random weights, and a tokenizer whose tokens are bytes."""
    shape = {"hidden_size": sizes.hidden, "intermediate_size": sizes.inner, "num_hidden_layers": sizes.layers}
    shape |= {"num_attention_heads": sizes.layers, "vocab_size": sizes.vocabulary, "eos_token_id": 0}
    config = AutoConfig.for_model("llama", **shape, max_position_embeddings=16_384)
    torch.manual_seed(0)
    with torch.device(sizes.device):
        module = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    module.lm_head.weight.data[0] = 0  # so the end token is never the most probable one
    letters = ("</s>", *sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer = Tokenizer(BPE({letter: id for id, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return module, PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="</s>")


def _ask_dragin(model: HfModel, number: int) -> tuple[float, list[Call]]:
    """Return the seconds for a number of questions, which are all in flight, and the calls of the model."""
    calls = Calls(model)
    with tempfile.TemporaryDirectory() as folder:
        setup = Setup("bundled", Path(folder), 1, 1)
        asyncio.run(model.clear_cache())
        seconds, _ = ask_all(setup.engine("dragin", calls, {}), setup.questions(number), number)
    return seconds, calls.made


def _measured(sizes: Sizes, work: Callable[[], float]) -> tuple[float, str]:
    """Return the median of the results of `work`, without the first, and a text with the peak memory."""
    if sizes.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    values = [work() for _ in range(1 + sizes.num_repeats)]
    return statistics.median(values[1:]), f"; peak memory {torch.cuda.max_memory_allocated() / 1e9:.1f} GB"


def _speed(sizes: Sizes, num_texts: int, work: Callable[[int], object]) -> float:
    """Return the tokens per second of all texts after their first token, without the time for the prompts."""
    first, whole = timed(partial(work, 1)), timed(partial(work, 1 + sizes.new_tokens))
    return num_texts * sizes.new_tokens / (whole - first)


@torch.inference_mode()
def _passes(module: Any, prompts: torch.Tensor, num_tokens: int) -> object:
    output = module(input_ids=prompts, use_cache=True, logits_to_keep=1)
    for _ in range(num_tokens - 1):
        output = module(input_ids=prompts[:, -1:], past_key_values=output.past_key_values, use_cache=True)
    return output.logits[0, 0, 0].item()  # waits for the GPU


def _generate(module: Any, prompts: torch.Tensor, num_tokens: int) -> object:
    options = {"max_new_tokens": num_tokens, "do_sample": False, "pad_token_id": 0}
    return module.generate(prompts, attention_mask=torch.ones_like(prompts), **options).tolist()


def _write(model: HfModel, prompts: Sequence[TokenIds], want: Want, num_tokens: int) -> None:
    async def write() -> None:
        sampling = Sampling(num_tokens)
        requests = (GenerateRequest(Raw((tuple(ids),)), sampling, want, key=()) for ids in prompts)
        await asyncio.gather(*map(model.generate, requests))

    asyncio.run(write())


if __name__ == "__main__":
    main()
