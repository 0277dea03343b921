"""The bundled model by llama.cpp: what signals and many texts cost, and DRAGIN against the reference loop.

    python -m benchmarks.gguf [decoding] [together] [dragin]

Figures of llama.cpp alone are of a plain loop over its functions, greedy, without anything of askance.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
from rich.console import Console
from rich.table import Table

from askance.core.types import Raw, Sampling, Want
from askance.models.bundled import load_plain, load_plain_gguf, load_plain_parts
from askance.models.llama_cpp import LlamaModel
from askance.models.llama_cpp.context import num_threads
from benchmarks.engine import CODE, REPEATS, _ask, _method, _questions, _sample_index
from benchmarks.measures import Row
from benchmarks.reference_model import ReferenceModel

PROMPT_TOKENS, TOKENS, IN_FLIGHT = 256, 128, 8
ALL = Want(entropy=True, attention="mean")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("name", nargs="*", choices=[[], *MEASURES], help="what to measure; all if not given")
    options = parser.parse_args()
    table = Table("what", "value", "unit", "ratio", "against", box=None, header_style="bold")
    for name in options.name or MEASURES:
        for row in MEASURES[name]():
            ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
            cells = (row.what, f"{row.median:,.2f}", row.unit, ratio, row.against)
            table.add_row(*cells)
            print(" · ".join(filter(None, cells)), file=sys.stderr, flush=True)  # the rest may take long
    Console(width=110).print(table)


def decoding() -> Iterator[Row]:
    """Tokens a second of one text behind a prompt."""
    plain, watching = LlamaModel(_weights(), name="plain"), LlamaModel(_weights(), name="watching")
    guessing = LlamaModel(_weights(), name="guessing", guesses=True)
    default, without_flash = _Alone(_weights(), flash=True), _Alone(_weights(), flash=False)
    ways: dict[str, Callable[[], float]] = {
        "llama.cpp": default.write,
        "llama.cpp without flash attention": without_flash.write,
        "askance": partial(_write, plain, Want()),
        "askance with entropy and attention": partial(_write, watching, ALL),
        "  with guesses, too": partial(_write, guessing, ALL),
    }
    speeds = _speeds(ways)
    first, second = speeds["llama.cpp"], speeds["llama.cpp without flash attention"]
    for name, speed in speeds.items():
        yield Row(name, speed, "tokens/s", speed / first, "llama.cpp")
        yield Row("", speed, "", speed / second, "llama.cpp without flash attention")


def together() -> Iterator[Row]:
    """Tokens a second of several texts."""
    model = load_plain_gguf()
    for want, told in ((Want(), "askance"), (ALL, "askance with entropy and attention")):
        speeds = _speeds({f"{n}": partial(_write, model, want, n) for n in (1, IN_FLIGHT)})
        for number, speed in speeds.items():
            yield Row(f"{told}, {number} in flight", speed, "tokens/s", speed / speeds["1"], "1 in flight")


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


def _write(model: Any, want: Want, num_texts: int = 1) -> float:
    """Tokens a second behind the first of each text."""
    asyncio.run(model.forget())

    async def write(max_tokens: int) -> int:
        calls = [
            model.generate(Raw((_prompt(number),)), Sampling(max_tokens), want, key=("bench",))
            for number in range(num_texts)
        ]
        return sum(written.generated_tokens - 1 for (written,) in await asyncio.gather(*calls))

    asyncio.run(write(1))  # the prompts are known from here on
    began = time.perf_counter()
    num_written = asyncio.run(write(TOKENS))
    return num_written / (time.perf_counter() - began)


def _speeds(ways: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Tokens a second; one after the other in every round, so that none has the quieter machine."""
    speeds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(REPEATS):
        for name, work in ways.items():
            speeds[name].append(work())
    return {name: statistics.median(each) for name, each in speeds.items()}


if __name__ == "__main__":
    main()
