"""Compare the runtime's time, tokens and decisions with those of a reference model, in one process."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from askance.ask import Engine
from askance.configuration.build import open_retriever
from askance.configuration.catalogue import METHODS
from askance.configuration.methods import make_method
from askance.core.concurrency import map_concurrent
from askance.core.ports import Method, Retriever
from askance.core.trace import AnyEvent, Decided
from askance.core.types import Question, Role
from askance.models.bundled import BUNDLED_BASE
from askance.models.hf.adapter import torch_folder
from askance.models.hf.load import load_hf, load_parts
from askance.retrieval.index.build import build_index
from askance.sample import CORPUS
from benchmarks.needed import Noted
from benchmarks.reference_model import ReferenceModel
from benchmarks.row import Row
from benchmarks.setup import sample_questions

NUM_QUESTIONS = 8
REPEATS = 3
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


@dataclass(frozen=True, slots=True)
class Asked:
    """The result of asking all questions once."""

    seconds: float
    events: tuple[tuple[AnyEvent, ...], ...]

    @property
    def decisions(self) -> list[list[tuple[str, str, str]]]:
        """The decisions of each question."""
        return [
            [(event.name, event.outcome, event.query) for event in events if isinstance(event, Decided)]
            for events in self.events
        ]


def against_the_reference() -> Iterator[Row]:
    """Compare DRAGIN's decisions and time with the reference model's, with one and eight in flight."""
    with tempfile.TemporaryDirectory() as folder:
        retriever = _sample_index(Path(folder))
        folder_of_model, questions = str(torch_folder()), sample_questions()[:NUM_QUESTIONS]
        model = load_hf(folder_of_model, dtype="float32", display_name=BUNDLED_BASE)
        module, _ = load_parts(folder_of_model, dtype="float32")
        module.set_attn_implementation("eager")
        reference = ReferenceModel(model, module.eval())
        code, default = _method("dragin_authors", CODE), _method("dragin", {"max_tokens": 64})
        setups: dict[str, tuple[Method, dict[Role, Any], int]] = {
            "reference": (code, {"answer": reference}, 1),
            "code": (code, {"answer": model}, 1),
            "code, 8": (code, {"answer": model}, 8),
            "default": (default, {"answer": model}, 1),
            "default, 8": (default, {"answer": model}, 8),
        }
        found: dict[str, list[Asked]] = {name: [] for name in setups}
        for _ in range(REPEATS):
            for name, (method, models, in_flight) in setups.items():
                asyncio.run(model.clear_cache())
                found[name].append(_ask(method, models, retriever, questions, in_flight))
    expected = found["reference"][0].decisions
    same = sum(mine == theirs for mine, theirs in zip(found["code"][0].decisions, expected, strict=True))
    yield Row("questions with the reference's decisions", same, f"of {len(questions)}")
    seconds = {name: statistics.median(each.seconds for each in asked) for name, asked in found.items()}
    yield Row("reference loop, DRAGIN code", seconds["reference"], "s", 1.0, "itself")
    for name, details in (
        ("code", "askance, DRAGIN code, one at a time"),
        ("code, 8", "askance, DRAGIN code, 8 in flight"),
        ("default", "askance, DRAGIN default, one at a time"),
        ("default, 8", "askance, DRAGIN default, 8 in flight"),
    ):
        yield Row(details, seconds[name], "s", seconds["reference"] / seconds[name], "times faster")
    per_run = reference.num_computed / REPEATS
    yield Row(
        "tokens computed by the reference loop", per_run, "tokens", per_run / _needed(reference), "needed"
    )


def _needed(reference: ReferenceModel) -> float:
    """Return the tokens needed per repeat: for all texts, and for the attention passes of one repeat."""
    needed = reference.needed
    return needed.num_unique + needed.num_attended / REPEATS


def computed_and_needed() -> Iterator[Row]:
    """Compare the tokens that each method computes and needs."""
    with tempfile.TemporaryDirectory() as folder:
        retriever, questions = _sample_index(Path(folder)), sample_questions()[:NUM_QUESTIONS]
        model = load_hf(str(torch_folder()), display_name=BUNDLED_BASE)
        for in_flight in (1, 8):
            for name, settings in SETTINGS.items():
                asyncio.run(model.clear_cache())
                noted, before = Noted(model), model.computed_tokens
                method = _method(name.partition(" ")[0], settings)
                _ask(method, {"answer": noted}, retriever, questions, in_flight)
                computed = model.computed_tokens - before
                needed = noted.needed.num_tokens
                details = f"{name}, {in_flight} in flight: computed"
                yield Row(details, computed, "tokens", computed / needed, "needed")


def _method(name: str, settings: Mapping[str, Any]) -> Method:
    return make_method(name, settings, model="bundled:base")


def _ask(
    method: Method,
    models: Mapping[Role, Any],
    retriever: Retriever,
    questions: Sequence[Question],
    in_flight: int,
) -> Asked:
    engine = Engine(method, models, retriever)
    began = time.perf_counter()
    events = asyncio.run(_ask_all(engine, questions, in_flight))
    return Asked(time.perf_counter() - began, events)


async def _ask_all(
    engine: Engine, questions: Sequence[Question], in_flight: int
) -> tuple[tuple[AnyEvent, ...], ...]:
    found: dict[str, tuple[AnyEvent, ...]] = {}
    async for outcomes in map_concurrent(questions, engine.answer, in_flight):
        for outcome in outcomes:
            if outcome.result is None:
                raise RuntimeError(f"question {outcome.item.id} failed") from outcome.error
            found[outcome.item.id] = tuple(outcome.result.trace.events)
    return tuple(found[question.id] for question in questions)


def _sample_index(folder: Path) -> Retriever:
    build_index([CORPUS], folder / "index")
    return open_retriever(folder / "index")
