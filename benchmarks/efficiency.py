"""Measure the efficiency of methods against llama.cpp alone, with the same weights on the same machine.

    python -m benchmarks.efficiency [NAME ...] [--quick] [--model bundled] [--log FILE]

Efficiency is the least time that the model calls of a question need, divided by the time that the question
took. The least time is that of plain forward passes with llama.cpp: first for the prompt tokens, with common
prefixes computed only once, and then for the sequential decoding passes, with the same number of texts per
pass and of tokens before them. The speeds of both kinds of passes are measured just before and just after the
questions, with llama.cpp's defaults. The table also has the efficiency against llama.cpp without flash
attention, since askance turns flash attention off to read attention weights. No other process should run
meanwhile. A value well above 1 means that something slowed the plain passes down.
"""

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from askance.core.types import Cut, GenerateRequest, Raw, Sampling, Token, Want
from askance.models.llama_cpp import LlamaModel
from benchmarks.calls import Calls, Work
from benchmarks.first_use import demo, install
from benchmarks.plain import Speeds
from benchmarks.setup import IN_FLIGHT, Setup, ask_all, measure
from benchmarks.table import Row, row

BEAM = {"form": "long", "mode": "always", "passages": 3, "max_tokens": 40, "max_segments": 3}
TREE = {"rollouts": 4}
SIGNALS = Want(entropy=True, attention="mean")


def decoding(setup: Setup) -> Iterator[Row]:
    """Compare the speed of generating one text with all signals to the speed of plain passes."""
    for flash, details in (
        (True, "llama.cpp as it is by default"),
        (False, "llama.cpp without flash attention"),
    ):
        plain, ratios, speeds = setup.plain(flash=flash), list[float](), list[float]()
        for _ in range(3 * setup.num_repeats):
            before, own = plain.speeds().passes, _writing_speed(setup.model)
            speeds.append(own)
            ratios.append(2 * own / (before + plain.speeds().passes))
        goal = {"at_least": 0.95} if flash else {}
        against = f"{details}; {statistics.median(speeds):.1f} tokens/s"
        yield row("decoding with entropy and attention", ratios, "of plain", against, **goal)


def methods(setup: Setup) -> Iterator[Row]:
    """Measure the efficiency of methods."""
    yield _efficiency(setup, "single", {}, 0.85)
    yield _efficiency(setup, "dragin", {}, 0.85)
    yield _efficiency(setup, "dragin", {}, 0.90, in_flight=IN_FLIGHT)
    yield _efficiency(setup, "selfrag", {**BEAM, "scorer": "prompted"}, 0.80)
    yield _efficiency(setup, "airrag", TREE, 0.80)


def native(setup: Setup) -> Iterator[Row]:
    """Measure Self-RAG with reflection tokens, in a separate process with another model."""
    with ProcessPoolExecutor(1, get_context("spawn")) as apart:
        other = Setup("bundled:selfrag", setup.folder, setup.num_questions, setup.num_repeats)
        yield apart.submit(_efficiency, other, "selfrag", {**BEAM, "scorer": "native"}, 0.80).result()


MEASURES: dict[str, Callable[[Setup], Iterator[Row]]] = {
    each.__name__: each for each in (install, demo, decoding, methods, native)
}


def _efficiency(setup: Setup, name: str, settings: Mapping[str, Any], goal: float, in_flight: int = 1) -> Row:
    """Return the row for the efficiency of a method, which each repeat measures over all questions.

    Args:
        in_flight: The number of questions asked concurrently. Their common prompt prefixes count only once.
    """
    calls = Calls(setup.model)
    engine = setup.engine(name, calls, settings)
    questions = setup.questions(max(setup.num_questions, in_flight))

    def ask(first: int) -> tuple[float, Work]:
        asyncio.run(setup.model.clear_cache())
        calls.made.clear()
        seconds, _ = ask_all(engine, questions[first : first + in_flight], in_flight)
        return seconds, Work.of(calls.made)

    _, alike = ask(0)
    # Plain passes have the mean number of texts, and texts of the mean length.
    num_texts, depth = min(IN_FLIGHT, max(1, round(alike.num_texts))), round(alike.depth)

    found: dict[bool, list[float]] = {True: [], False: []}  # by whether the passes use flash attention

    def speeds() -> dict[bool, Speeds]:
        return {flash: setup.plain(flash=flash).speeds(num_texts, depth) for flash in found}

    for _ in range(setup.num_repeats):
        before = speeds()
        asked = [ask(first) for first in range(0, len(questions), in_flight)]
        after = speeds()
        taken = sum(seconds for seconds, _ in asked)
        prompt_tokens = sum(work.prompt_tokens for _, work in asked)
        passes = sum(work.critical_passes for _, work in asked)
        for flash, ratios in found.items():
            reading = (before[flash].prompt + after[flash].prompt) / 2
            writing = (before[flash].passes + after[flash].passes) / 2
            ratios.append((prompt_tokens / reading + passes / writing) / taken)
    details = (
        f"{prompt_tokens:,} tokens and {passes:,} passes of {num_texts} behind {depth:,} in {taken:.1f} s; "
    )
    details += f"{statistics.median(found[False]):.2f} of it without flash attention"
    words = "".join(f", {value}" for value in settings.values() if isinstance(value, str))
    what = f"efficiency: {name}{words}, {in_flight} in flight"
    return row(what, found[True], "of plain", details, at_least=goal)


def _writing_speed(model: LlamaModel, num_tokens: int = 64) -> float:
    """Return the tokens per second after the first token, for a prompt as long as in plain passes."""
    times: list[float] = []

    def note(tokens: Sequence[Token]) -> Cut | None:
        times.append(time.perf_counter())
        return None

    ids = tuple(2000 + 131 * at % 30_000 for at in range(768))
    asyncio.run(
        model.generate(GenerateRequest(Raw((ids,)), Sampling(num_tokens), SIGNALS, note, key=("bench",)))
    )
    return (len(times) - 1) / (times[-1] - times[0])


if __name__ == "__main__":
    measure(MEASURES, __doc__)
