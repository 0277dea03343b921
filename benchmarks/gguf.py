"""The bundled model by llama.cpp: what signals and many texts cost, and DRAGIN against the reference loop.

    python -m benchmarks.gguf [decoding] [together] [dragin] [--log FILE]

Figures of llama.cpp alone are of a plain loop over its functions, greedy, without anything of askance.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np

from askance.core.types import Raw, Sampling, Token, Want
from askance.models.bundled import load_plain, load_plain_gguf, load_plain_parts
from askance.models.llama_cpp import LlamaModel
from askance.models.llama_cpp.context import num_threads
from benchmarks.engine import CODE, REPEATS, _ask, _method, _questions, _sample_index
from benchmarks.measures import Row
from benchmarks.reference_model import ReferenceModel
from benchmarks.report import report

PROMPT_TOKENS, TOKENS, IN_FLIGHT = 256, 128, 8
ROUNDS = 9
"""Of short ways in turn: the machine wanders by more than they are apart."""
ALL = Want(entropy=True, attention="mean")


def decoding() -> Iterator[Row]:
    """Tokens a second of one text behind a prompt."""
    speeds = _speeds({told: (name, 1) for name, told in _ONE_TEXT.items()})
    default, without_flash = (_ONE_TEXT[name] for name in ("default", "without_flash"))
    for told in speeds:
        yield _row(told, speeds, told, default)
        yield _row("", speeds, told, without_flash)


def together() -> Iterator[Row]:
    """Tokens a second of several texts."""
    for name, told in (("plain", "askance"), ("watching", "askance with entropy and attention")):
        speeds = _speeds({f"{count} in flight": (name, count) for count in (1, IN_FLIGHT)})
        for number in speeds:
            yield _row(f"{told}, {number}", speeds, number, "1 in flight")


def _row(what: str, speeds: Mapping[str, Sequence[float]], way: str, against: str) -> Row:
    """Medians of the speeds, and of the ratios in each round."""
    ratios = [one / other for one, other in zip(speeds[way], speeds[against], strict=True)]
    return Row(what, statistics.median(speeds[way]), "tokens/s", statistics.median(ratios), against)


def dragin() -> Iterator[Row]:
    """DRAGIN `default` by llama.cpp, against its authors' loop by transformers."""
    with tempfile.TemporaryDirectory() as folder:
        retriever, questions = _sample_index(Path(folder)), _questions()
        module, _ = load_plain_parts(dtype="float32")
        module.set_attn_implementation("eager")
        reference = ReferenceModel(load_plain(dtype="float32"), module.eval())
        began = time.perf_counter()
        _ask(_method("dragin", CODE), {"answer": reference}, retriever, questions, 1)
        base = time.perf_counter() - began
        yield Row("reference loop, DRAGIN code", base, "s", 1.0, "itself")
        model = load_plain_gguf()
        for told, settings in (("default", {"max_tokens": 64}), ("code", CODE)):
            for in_flight in (1, IN_FLIGHT):
                seconds = []
                for _ in range(REPEATS):
                    asyncio.run(model.forget())
                    method = _method("dragin", settings)
                    seconds.append(_ask(method, {"answer": model}, retriever, questions, in_flight).seconds)
                median = statistics.median(seconds)
                yield Row(f"DRAGIN {told}, {in_flight} in flight", median, "s", base / median, "times faster")


MEASURES: dict[str, Callable[[], Iterator[Row]]] = {
    measure.__name__: measure for measure in (decoding, together, dragin)
}


class _Alone:
    """A plain loop over llama.cpp's functions."""

    def __init__(self, weights: Any, *, flash: bool) -> None:
        settings = llama_cpp.llama_context_default_params()
        settings.n_ctx, settings.n_threads, settings.n_threads_batch = 2048, num_threads(), num_threads()
        if not flash:
            settings.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
        self._weights = weights
        self._pointer = llama_cpp.llama_init_from_model(weights.pointer, settings)

    def write(self) -> float:
        """Tokens a second behind the first."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self._pointer), False)
        id, began = self._next(_prompt(0)), time.perf_counter()
        for _ in range(TOKENS - 1):
            id = self._next((id,))
        return (TOKENS - 1) / (time.perf_counter() - began)

    def _next(self, ids: tuple[int, ...]) -> int:
        row = (llama_cpp.llama_token * len(ids))(*ids)
        llama_cpp.llama_decode(self._pointer, llama_cpp.llama_batch_get_one(row, len(ids)))
        logits = llama_cpp.llama_get_logits_ith(self._pointer, -1)
        return int(np.ctypeslib.as_array(logits, (self._weights.num_tokens,)).argmax())


def _weights() -> Any:
    return load_plain_gguf()._weights


def _prompt(number: int) -> tuple[int, ...]:
    """Other words for each number; nothing ends soon behind them."""
    return tuple(1000 + (number * 977 + at * 131) % 30_000 for at in range(PROMPT_TOKENS))


def _write(model: Any, want: Want, num_texts: int) -> float:
    """Tokens a second behind the first of each text."""
    asyncio.run(model.forget())
    began: list[float] = []

    def note_beginning(tokens: Sequence[Token]) -> None:
        if not began:
            began.append(time.perf_counter())

    async def write(max_tokens: int) -> int:
        calls = [
            model.generate(
                Raw((_prompt(number),)), Sampling(max_tokens), want, note_beginning, key=("bench",)
            )
            for number in range(num_texts)
        ]
        return sum(written.generated_tokens - 1 for (written,) in await asyncio.gather(*calls))

    asyncio.run(write(1))  # the prompts are known from here on, and all first tokens come in one pass
    began.clear()
    num_written = asyncio.run(write(TOKENS))
    return num_written / (time.perf_counter() - began[0])


_ONE_TEXT = {
    "default": "llama.cpp",
    "without_flash": "llama.cpp without flash attention",
    "plain": "askance",
    "watching": "askance with entropy and attention",
    "guessing": "  with guesses, too",
}


def _way(name: str) -> Callable[[int], float]:
    """What measures the speed of so many texts in one of the ways of `_ONE_TEXT`."""
    if name in ("default", "without_flash"):
        alone = _Alone(_weights(), flash=name == "default")
        return lambda num_texts: alone.write()
    model = LlamaModel(_weights(), name=name, guesses=name == "guessing")
    return partial(_write, model, Want() if name == "plain" else ALL)


_own: list[Callable[[int], float]] = []
"""Of a process that measures one way."""


def _begin(name: str) -> None:
    _own.append(_way(name))


def _measured(num_texts: int) -> float:
    return _own[0](num_texts)


def _speeds(ways: Mapping[str, tuple[str, int]]) -> dict[str, list[float]]:
    """Tokens a second in each round, in which they follow each other, so that none has the quieter machine.

    Each way has a process of its own: two teams of OpenMP's threads in one would slow each other.
    """
    speeds: dict[str, list[float]] = {told: [] for told in ways}
    with ExitStack() as open_ones:
        apart = {
            name: open_ones.enter_context(
                ProcessPoolExecutor(1, get_context("spawn"), initializer=_begin, initargs=(name,))
            )
            for name in {name for name, _ in ways.values()}
        }
        for _ in range(ROUNDS):
            for told, (name, num_texts) in ways.items():
                speeds[told].append(apart[name].submit(_measured, num_texts).result())
    return speeds


if __name__ == "__main__":
    report(MEASURES, (__doc__ or "").splitlines()[0])
