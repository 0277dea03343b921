"""The speed measurements: starting, indexing and searching, decoding with each signal, answering."""

import asyncio
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from askance.ask import Engine
from askance.configuration.build import load_model, open_retriever
from askance.configuration.catalogue import METHODS
from askance.configuration.methods import make_method
from askance.core.types import GenerateRequest, Question, Raw, Sampling, Span, Want
from askance.models.hf.adapter import torch_folder
from askance.models.hf.load import as_model, load_parts
from askance.retrieval.index.build import build_index
from askance.sample import CORPUS, QUESTIONS
from benchmarks.row import Row

PASSAGES = 15_000
TOKENS = 64
REPEATS = 5
BATCHES = (1, 8, 32)


def starting() -> Iterator[Row]:
    """Time the import of the package, and a new process until its first committed words."""
    yield Row("import askance", 1000 * _timed(lambda: _python("import askance")), "ms with the interpreter")
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        build_index([CORPUS], index)
        for method in ("closed_book", "dragin"):
            seconds = [_first_words(method, index) for _ in range(3)]
            yield Row(f"process start to first committed words, {method}", statistics.median(seconds), "s")


def indexing() -> Iterator[Row]:
    """Measure the build time, memory, size and query time of an index of synthetic 100-word passages."""
    with tempfile.TemporaryDirectory() as folder:
        docs, index = Path(folder) / "docs.jsonl", Path(folder) / "index"
        queries = _synthetic(docs)
        code = (
            "import resource, sys, pathlib; from askance.retrieval.index.build import build_index; "
            f"report = build_index([pathlib.Path({str(docs)!r})], pathlib.Path({str(index)!r})); "
            "print(report.seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
        )
        seconds, peak = map(float, _python(code).split())
        yield Row(f"index {PASSAGES:,} passages", seconds, "s")
        yield Row("  peak memory", peak, "MB")
        size = sum(file.stat().st_size for file in index.rglob("*") if file.is_file())
        yield Row("  size", size / 1e6, "MB")
        retriever = open_retriever(index)
        times = [_timed(lambda q=query: asyncio.run(retriever.search(q, 10)), 1) for query in queries]  # type: ignore[misc]
        yield Row("  search, top 10", 1000 * statistics.median(times), "ms")


def decoding() -> Iterator[Row]:
    """Compare the plain bundled model's tokens per second to those of transformers' `generate` function.

    Askance generates with and without signals.
    """
    folder = str(torch_folder())
    model = as_model(*load_parts(folder, dtype="float32"), name="bundled:base")
    plain, all_signals = Want(), Want(entropy=True, attention="mean")
    for batch in BATCHES:
        ways: dict[str, Callable[[], None]] = {
            "transformers generate": partial(_transformers_generate, model, batch),
            "askance": partial(_generate, model, plain, batch),
            "askance with entropy and attention": partial(_generate, model, all_signals, batch),
        }
        seconds = _timed_in_turn(ways)
        speeds = {name: batch * TOKENS / taken for name, taken in seconds.items()}
        base, own, signalling = speeds.values()
        yield Row(f"transformers generate, batch {batch}", base, "tokens/s", 1.0, "itself")
        yield Row(f"askance, batch {batch}", own, "tokens/s", own / base, "transformers generate")
        yield Row("  with entropy and attention", signalling, "tokens/s", signalling / own, "without signals")


def answering() -> Iterator[Row]:
    """Measure each method's seconds, searches and tokens per sample question, on the plain bundled model."""
    model = load_model("bundled:base")
    questions = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()][:5]
    with tempfile.TemporaryDirectory() as folder:
        build_index([CORPUS], Path(folder) / "index")
        retriever = open_retriever(Path(folder) / "index")
        for name in METHODS:
            engine = Engine(make_method(name), {"answer": model}, retriever)
            usages = [engine.ask(Question(q["id"], q["question"])).usage for q in questions]
            yield Row(f"{name}: time", statistics.median(u.seconds for u in usages), "s per question")
            yield Row("  searches", statistics.mean(u.searches for u in usages), "per question (mean)")
            tokens = statistics.mean(u.prompt_tokens + u.generated_tokens for u in usages)
            yield Row("  tokens computed", tokens, "per question (mean)")


def _timed(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the median seconds that `work` takes."""
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def _timed_in_turn(ways: Mapping[str, Callable[[], object]], repeats: int = REPEATS) -> dict[str, float]:
    """Return the median seconds that each function takes, by name.

    Each round runs all functions, so that no function has a quieter machine than the others.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, work in ways.items():
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(each) for name, each in seconds.items()}


def _python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def _first_words(method: str, index: Path) -> float:
    code = (
        "import time; from askance.configuration.settings import open_engine\n"
        "def heard(event):\n"
        "    if event.type == 'commit': print(time.time(), flush=True)\n"
        f"engine = open_engine(method={method!r}, index={str(index)!r})\n"
        "engine.ask('Where was Ingmar Bergman born?', listener=heard)"
    )
    began = time.time()
    return float(_python(code).split()[0]) - began


def _synthetic(path: Path) -> list[str]:
    """Write passages of 100 words drawn by Zipf's law, and return 200 queries of 10 such words."""
    rng = random.Random(7)
    vocabulary = [f"w{rank}" for rank in range(50_000)]
    weights = [1 / (rank + 10) for rank in range(50_000)]
    with path.open("w", encoding="utf-8") as file:
        for number in range(PASSAGES):
            text = " ".join(rng.choices(vocabulary, weights, k=100))
            file.write(json.dumps({"id": f"d{number}", "title": f"Title {number}", "text": text}) + "\n")
    return [" ".join(rng.choices(vocabulary, weights, k=10)) for _ in range(200)]


_PROMPT = "The history of the river begins in the mountains, where"


def _generate(model: Any, want: Want, batch: int) -> None:
    asyncio.run(_generate_all(model, want, batch))


async def _generate_all(model: Any, want: Want, batch: int) -> None:
    prompts = [Raw((Span(f"{number}. {_PROMPT}"),)) for number in range(batch)]
    await model.clear_cache()
    written = await asyncio.gather(
        *(
            model.generate(GenerateRequest(prompt, Sampling(TOKENS), want, key=("bench",)))
            for prompt in prompts
        )
    )
    assert all(each.generated_tokens == TOKENS for (each,) in written), "it ended early: another prompt"


def _transformers_generate(model: Any, batch: int) -> None:
    import torch

    module = model._backend.module
    texts = [model.tokenize(f"{number}. {_PROMPT}") for number in range(batch)]
    longest = max(map(len, texts))
    ids = torch.tensor([[0] * (longest - len(text)) + list(text) for text in texts])
    mask = torch.tensor([[0] * (longest - len(text)) + [1] * len(text) for text in texts])

    def work() -> None:
        with torch.inference_mode():
            module.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=TOKENS,
                min_new_tokens=TOKENS,
                do_sample=False,
            )

    # Both run in one thread: with a team of threads for each, both would be slower than alone.
    asyncio.run(model._engine.run_exclusively(work))
