"""Measure `askance serve` against the engine without a server, and against llama.cpp's own server.

    python -m benchmarks.serving [NAME ...] [--quick] [--model bundled] [--log FILE]

All servers run in separate processes, and the questions come over loopback. Both sides of a ratio are
measured in turn, with questions that are new to both; the first round only warms them up. No other process
should run meanwhile. The measurements take about six minutes.
"""

import asyncio
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial

from askance.configuration.settings import EngineConfig
from askance.core.types import Question
from benchmarks.calls import Calls
from benchmarks.servers import ServedEngine, serve, serve_llama
from benchmarks.setup import IN_FLIGHT, Setup, ask_all, measure
from benchmarks.table import Row, row, timed

_WITHOUT_SHORT = {"ask_short_answer": False}
_SCRIPTED = ("--model", "scripted", "--method", "closed_book")
_WARM_AFTER, _MEASURED_UNTIL = 1_000, 10_000


def throughput(setup: Setup) -> Iterator[Row]:
    """Compare the throughput for eight users with llama.cpp's server with eight slots (`closed_book`), and
    with the engine without a server (all methods that the model supports).
    """
    calls, number = Calls(setup.model), 0
    methods = [("closed_book", _WITHOUT_SHORT), ("single", {})]
    if "attention" in setup.model.signals:
        methods.append(("dragin", {}))
    with _served(setup) as served, serve_llama(setup.model, IN_FLIGHT) as theirs:
        for method, parameters in methods:
            engine = setup.engine(method, calls, parameters)
            of_engine, of_llama = list[float](), list[float]()
            for _ in range(setup.num_repeats + 1):
                calls.made.clear()
                questions, number = setup.questions(IN_FLIGHT, number), number + IN_FLIGHT
                alone, _ = ask_all(engine, questions, IN_FLIGHT)
                texts = [question.text for question in questions]
                began = time.perf_counter()
                replies = served.ask_all(texts, method, parameters)
                seconds = max(reply.last for reply in replies) - began
                of_engine.append(alone / seconds)
                if method == "closed_book":
                    began = time.perf_counter()
                    written = theirs.write(calls.made)
                    their_seconds = max(each.last for each in written) - began
                    their_speed = sum(each.num_tokens for each in written) / their_seconds
                    own_speed = sum(reply.num_tokens for reply in replies) / seconds
                    of_llama.append(own_speed / their_speed)
            if of_llama:
                details = f"llama.cpp's server; {own_speed:.0f} and {their_speed:.0f} tokens/s at last"
                yield row(f"{method}, 8 users", of_llama[1:], "of the throughput", details, at_least=0.95)
            goal = {} if of_llama else {"at_least": 0.9}
            details = f"the engine without a server; {seconds:.1f} and {alone:.1f} s at last"
            yield row(f"{method}, 8 users", of_engine[1:], "of the throughput", details, **goal)


def first_word(setup: Setup) -> Iterator[Row]:
    """Compare the time to the first text of `single` with that of llama.cpp's server and a search."""
    calls = Calls(setup.model)
    engine, number = setup.engine("single", calls, _WITHOUT_SHORT), setup.num_questions + 2
    own, theirs = list[float](), list[float]()
    with _served(setup) as served, serve_llama(setup.model, 1) as server:
        for question in setup.questions(number):
            calls.made.clear()
            ask_all(engine, [question], 1)  # the prompt for llama.cpp's server
            began = time.perf_counter()
            own.append(served.ask(question.text, "single", _WITHOUT_SHORT, stream=True).first - began)
            began = time.perf_counter()
            asyncio.run(setup.retriever.search(question.text, 3))
            (written,) = server.write(calls.made[:1])
            theirs.append(written.first - began)
    ratios = [one / other for one, other in zip(own[2:], theirs[2:], strict=True)]
    details = f"llama.cpp's server and a search; {_ms(own[2:])} and {_ms(theirs[2:])} ms"
    yield row("first text of single, warm", ratios, "of the time", details, at_most=1.1)


def ready(setup: Setup) -> Iterator[Row]:
    """Time the start of the server until /readyz answers, with converted weights."""
    _ = setup.model  # converts the weights
    seconds = list[float]()
    for _ in range(setup.num_repeats + 1):
        began = time.perf_counter()
        with _served(setup) as served:
            urllib.request.urlopen(f"{served.url}/readyz").read()
            seconds.append(time.perf_counter() - began)
    yield row("ready after start", seconds[1:], "s", at_most=3)


def overhead(setup: Setup) -> Iterator[Row]:
    """Time requests with the scripted model, and subtract the time of the engine without a server."""
    engine = EngineConfig(models={"answer": "scripted"}, method="closed_book").open()
    number = 100 * setup.num_questions
    with serve(*_SCRIPTED) as served:
        for kind, stream in (("in one piece", False), ("as a stream", True)):
            ask = partial(served.ask, "Why?", "closed_book", stream=stream)
            questions = [Question(str(at), "Why?") for at in range(number)]
            alone = ask_all(engine, questions, 1)[0] / number
            times = [1000 * (timed(ask) - alone) for _ in range(number + 50)][50:]
            details = f"the engine, {_ms([alone])} ms; {statistics.median(times):.2f} ms at the median"
            p95 = statistics.quantiles(times, n=20)[-1]
            yield row(f"overhead of a request {kind}, p95", [p95], "ms", details, at_most=5)


def memory(setup: Setup) -> Iterator[Row]:
    """Measure the growth of the server's resident memory over many requests with the scripted model."""
    until = _MEASURED_UNTIL if setup.num_repeats > 1 else _WARM_AFTER + 100
    with serve(*_SCRIPTED) as served:
        sizes = [_resident_after(served, number) for number in (_WARM_AFTER, until - _WARM_AFTER)]
    details = f"{sizes[-1]:.0f} MB at the end"
    what = f"memory from request {_WARM_AFTER:,} to {until:,}"
    yield row(what, [sizes[-1] - sizes[0]], "MB more", details, at_most=5)


MEASURES: dict[str, Callable[[Setup], Iterator[Row]]] = {
    each.__name__: each for each in (ready, overhead, memory, first_word, throughput)
}


def _served(setup: Setup) -> AbstractContextManager[ServedEngine]:
    return serve("--index", str(setup.index), "--model", setup.spec, "--in-flight", str(IN_FLIGHT))


def _resident_after(served: ServedEngine, number: int) -> float:
    for _ in range(number):
        served.ask("Why?", "closed_book")
    return served.resident_mb


def _ms(seconds: list[float]) -> str:
    return f"{1000 * statistics.median(seconds):.1f}"


if __name__ == "__main__":
    measure(MEASURES, __doc__)
