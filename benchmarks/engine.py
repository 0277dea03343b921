"""Compare the runtime's time, tokens and decisions with those of a reference model, in one process."""

import asyncio
import statistics
from collections.abc import Iterator, Mapping
from typing import Any

from askance.ask import Engine, Result
from askance.configuration.catalogue import METHODS
from askance.configuration.methods import make_method
from askance.core.trace import Decided
from askance.models.bundled import BUNDLED_BASE
from askance.models.hf.adapter import torch_folder
from askance.models.hf.load import load_hf, load_parts
from benchmarks.calls import Calls, needed_tokens
from benchmarks.reference_model import ReferenceModel
from benchmarks.setup import IN_FLIGHT, Setup, ask_all
from benchmarks.table import Row

NUM_QUESTIONS = 8
CODE = {"threshold": 4.0, "max_tokens": 64}
"""These parameters lead to about three searches per question. With a lower threshold, the reference model
alone would take most of an hour."""
SHORT = {"max_tokens": 64}
SETTINGS: dict[str, dict[str, Any]] = {
    **{name: {} for name in METHODS if not name.endswith("_authors")},
    "selfrag": {"passages": 3, "max_tokens": 64},
    "airrag": SHORT,
    "airrag_lite": SHORT,
    "iterdrag": {"line_tokens": 32, "answer_tokens": 32},
    "blender": {"methods": "single,iterdrag", "summary_tokens": 32},
    "dragin_authors": CODE,
}


def against_the_reference(setup: Setup) -> Iterator[Row]:
    """Compare DRAGIN's decisions and time with the reference model's, with one and eight in flight."""
    folder, questions = str(torch_folder()), setup.questions(NUM_QUESTIONS)
    model = load_hf(folder, dtype="float32", display_name=BUNDLED_BASE)
    module, _ = load_parts(folder, dtype="float32")
    module.set_attn_implementation("eager")
    reference = ReferenceModel(model, module.eval())
    calls = Calls(reference)
    code, default = ("dragin_authors", CODE), ("dragin", SHORT)
    setups: dict[str, tuple[tuple[str, Mapping[str, Any]], Any, int]] = {
        "reference loop, DRAGIN code": (code, calls, 1),
        "askance, DRAGIN code, one at a time": (code, model, 1),
        f"askance, DRAGIN code, {IN_FLIGHT} in flight": (code, model, IN_FLIGHT),
        "askance, DRAGIN default, one at a time": (default, model, 1),
        f"askance, DRAGIN default, {IN_FLIGHT} in flight": (default, model, IN_FLIGHT),
    }
    seconds: dict[str, list[float]] = {name: [] for name in setups}
    decisions: dict[str, list[list[tuple[str, str, str]]]] = {}
    for _ in range(setup.num_repeats):
        for name, ((method, settings), answering, in_flight) in setups.items():
            asyncio.run(model.clear_cache())
            taken, results = ask_all(_engine(setup, method, settings, answering), questions, in_flight)
            seconds[name].append(taken)
            decisions.setdefault(name, [_decisions(each) for each in results])
    expected, ours, *_ = decisions.values()
    same = sum(one == other for one, other in zip(ours, expected, strict=True))
    yield Row("questions with the reference's decisions", same, f"of {len(questions)}")
    medians = {name: statistics.median(each) for name, each in seconds.items()}
    slowest = max(medians.values())
    for name, median in medians.items():
        yield Row(name, median, "s", slowest / median, "times faster")
    computed = reference.num_computed / setup.num_repeats
    texts, attention = needed_tokens(calls.made)
    ratio = computed / (texts + attention / setup.num_repeats)
    yield Row("tokens computed by the reference loop", computed, "tokens", ratio, "needed")


def computed_and_needed(setup: Setup) -> Iterator[Row]:
    """Compare the tokens that each method computes and needs."""
    model, questions = load_hf(str(torch_folder()), display_name=BUNDLED_BASE), setup.questions(NUM_QUESTIONS)
    for in_flight in (1, IN_FLIGHT):
        for name, settings in SETTINGS.items():
            asyncio.run(model.clear_cache())
            calls, before = Calls(model), model.computed_tokens
            ask_all(_engine(setup, name, settings, calls), questions, in_flight)
            computed = model.computed_tokens - before
            ratio = computed / sum(needed_tokens(calls.made))
            yield Row(f"{name}, {in_flight} in flight: computed", computed, "tokens", ratio, "needed")


def _engine(setup: Setup, method: str, settings: Mapping[str, Any], model: Any) -> Engine:
    made = make_method(method, settings, model="bundled:base")
    return Engine(made, {"answer": model}, setup.retriever)


def _decisions(result: Result) -> list[tuple[str, str, str]]:
    events = result.trace.events
    return [(each.name, each.outcome, each.query) for each in events if isinstance(each, Decided)]
