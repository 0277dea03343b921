"""Kept calibrations: the scores of a model, by which a threshold may be given as ``70%`` or ``1.5/question``.

`askance calibrate --quick` keeps the scores in the folder of the caches, in a file for each model, method and
choice of the parameters that the threshold belongs to. Reading one runs no code.
"""

import asyncio
import math
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import Any

from pydantic import ValidationError

from askance.ask import Engine
from askance.configuration.evaluation import read_dataset
from askance.core.errors import AskanceError, InputError, ThresholdError, about
from askance.core.notes import doing, note
from askance.core.parameters import RELATIVE, changed_parameters, name_of, search_parameter
from askance.core.ports import Method, language_model
from askance.core.safe_text import json_line
from askance.core.spec import call_spec
from askance.evaluation.choose.calibrate import KeptScores, choose_parameter, inert_before, measure
from askance.evaluation.run.provenance import code_of
from askance.models.bundled import cache_folder
from askance.storage.durable_files import checksum
from askance.storage.trace_file import write_file

SAMPLE, NUM_QUESTIONS = "sample", 30
_MOST_SECONDS = 60.0
"""The longest estimate with which a calibration goes on that nobody asked for."""
_MOST_BYTES = 8_000_000
_LOCAL, _SERVERS = ("bundled", "gguf", "hf"), ("openai",)


def number_of(cls: type[Any], name: str, text: str, values: Mapping[str, Any], model: str) -> float:
    """Return the threshold that a relative one stands for, by the kept scores.

    Args:
        values: The other parameters of the method.
        model: The specification of the answering model.

    Raises:
        InputError: The parameter is not the method's threshold, no scores are kept, or the number is out of
            range.
    """
    own = search_parameter(cls)
    with about(f"parameters.{name}"):
        if own is None or own.name != name:
            known = f"{name_of(cls)} has none" if own is None else f"that of {name_of(cls)} is {own.name}"
            raise InputError(f"{name}={text}: only a threshold can be given so, and {known}.")
        return kept_scores(cls(**values), model).threshold(text, cls)


def key_of(method: Method, model: str) -> str:
    """Return what the right threshold depends on, as options of a command."""
    own = search_parameter(type(method))
    belongs_to = own.belongs_to if own else ()
    changed = {name: value for name, value in changed_parameters(method).items() if name in belongs_to}
    settings = (f"--set {name}={text}" for name, text in call_spec("", changed).options.items())
    return " ".join((f"--method {name_of(type(method))} --model {quote(model)}", *settings))


def command(key: str) -> str:
    """Return the command that makes the scores for a key."""
    return f"askance calibrate --quick {key} --index DIR"


def kept_scores(method: Method, model: str) -> KeptScores:
    """Return the scores kept for a method.

    Raises:
        ThresholdError: There are none, or the file can't be read. The message says how to make them.
    """
    key, path = key_of(method, model), _path(method, model)
    try:
        with path.open("rb") as file:
            return KeptScores.model_validate_json(file.read(_MOST_BYTES))
    except FileNotFoundError:
        raise ThresholdError(f"no calibration is kept. Make one: {command(key)}") from None
    except (OSError, ValidationError) as error:
        remedy = f"remove it, and make another: {command(key)}"
        raise ThresholdError(f"the calibration {path} can't be read: {remedy}") from error


def calibrate_quickly(
    engine: Engine, model: str, dataset: str, limit: int, in_flight: int, most_seconds: float = math.inf
) -> KeptScores:
    """Measure the scores of the engine's method, and keep them. A note says what it costs.

    Nothing is kept of a calibration that is interrupted.

    Raises:
        InputError: The dataset or the folder can't be used, or no fingerprint distinguishes the model.
        AskanceError: No question has scores, or the estimate exceeds `most_seconds`.
    """
    fingerprint = language_model(engine.models["answer"]).fingerprint
    if not fingerprint:
        why = "since no fingerprint distinguishes it: name a model that has one, or leave out --quick"
        raise InputError(f"the calibration of {model} can't be kept, {why}.")
    examples = list(read_dataset(dataset, limit))
    what = f"calibrating {name_of(type(engine.method))} with {len(examples)} questions of {dataset}"

    def on_first(calls: int, seconds: float) -> None:
        left = seconds * (len(examples) - 1)
        end = ", too long to go on unasked" if left > most_seconds else ""
        note("calibration", f"{what}: about {calls * len(examples)} model calls and {left:.0f} s more{end}.")
        if left > most_seconds:
            raise AskanceError("this takes too long.")

    key, path = key_of(engine.method, model), _path(engine.method, model)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        remedy = "name another folder in the environment variable ASKANCE_CACHE."
        raise InputError(f"can't make {path.parent}: {error.strerror}: {remedy}") from error
    with doing(what):
        searches, sentences = asyncio.run(measure(engine, examples, in_flight, on_first))
    source = f"{len(sentences)} questions of {dataset} with {model}, {datetime.now(UTC):%Y-%m-%d}"
    kept = KeptScores(key=key, fingerprint=fingerprint, source=source, searches=searches, sentences=sentences)
    write_file(path, json_line(kept.model_dump()))
    return kept


def check_fingerprint(methods: Iterable[Method], engine: Engine, model: str, settings: str) -> None:
    """Check that the model has the weights by whose kept scores a threshold was found.

    Args:
        settings: The text of the methods' settings, which has the relative thresholds.

    Raises:
        ThresholdError: The scores are those of another model with the same name.
    """
    for method in methods:
        kept = _scores_for(method, model)
        fingerprint = language_model(engine.models["answer"]).fingerprint
        if kept and kept.fingerprint != fingerprint and _is_found(method, kept, settings):
            remedy = f"Make another: {command(kept.key)}"
            raise ThresholdError(f"{model} has changed since its calibration. {remedy}")


def say_thresholds(methods: Iterable[Method], engine: Engine, model: str, in_flight: int) -> None:
    """Note thresholds that always or never fire, and defaults that no calibration of the model supports.

    At its first use at a terminal, a local model is calibrated if that takes less than a minute. No threshold
    changes.
    """
    kind = re.split("[:?]", model)[0]
    for method in methods:
        own, changed = search_parameter(type(method)), changed_parameters(method)
        if own is None or (own.name not in changed and own.value_of(method) in (None, math.inf)):
            continue  # nothing is compared with it
        kept = _scores_for(method, model)
        if kept is None and own.name not in changed and kind in (*_LOCAL, *_SERVERS):
            key, tried = key_of(method, model), _path(method, model).with_suffix(".tried")
            if kind in _LOCAL and sys.stderr.isatty() and not (tried.exists() or _is_in_loop()):
                with suppress(AskanceError, OSError):
                    tried.parent.mkdir(parents=True, exist_ok=True)
                    tried.touch()
                    given = model, SAMPLE, NUM_QUESTIONS, in_flight, _MOST_SECONDS
                    kept = calibrate_quickly(replace(engine, method=method), *given)
            if kept is None:
                value = f"{own.name}={own.value_of(method):g} of {name_of(type(method))}"
                note("threshold", f"{value} was not calibrated for {model}. To do so: {command(key)}")
        if remark := inert_before(method, kept):
            note("threshold", remark)


def _is_in_loop() -> bool:
    """Return whether an event loop runs in this thread, in which a calibration can't run another."""
    with suppress(RuntimeError):
        return bool(asyncio.get_running_loop())
    return False


def _is_found(method: Method, kept: KeptScores, settings: str) -> bool:
    """Return whether the threshold of a method is that of a relative one in a text."""
    cls, found = type(method), set[float]()
    for wanted in RELATIVE.finditer(settings):
        with suppress(InputError):  # it may be out of the range of this member
            found.add(kept.threshold(wanted[0], cls))
    return getattr(method, choose_parameter(cls, None).name) in found


def _scores_for(method: Method, model: str) -> KeptScores | None:
    """Return the scores kept for a method, or None."""
    with suppress(InputError):
        return kept_scores(method, model)
    return None


def _path(method: Method, model: str) -> Path:
    """Return the file of a method's scores. It changes with the source of a gate that is not askance's."""
    text, gate = key_of(method, model), getattr(method, "gate", None)
    if gate:
        code = code_of([gate.function.__module__])
        text += "".join(source for name, source in code.items() if name != "askance")
    return cache_folder() / "thresholds" / f"{checksum(text.encode())}.json"
