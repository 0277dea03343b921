"""Workers: other processes, each with an engine of its own, which answer the questions of an evaluation.

The process that evaluates is the driver. It alone writes the run. A worker gets names and numbers, opens its
engine by itself, and is refused if that engine is another one. If a worker ends, its questions in flight are
asked again of the others.
"""

import asyncio
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.managers import BaseManager
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any, Self, cast

from askance.ask import Engine, Result
from askance.configuration.build import find, load_models
from askance.configuration.catalogue import Kind
from askance.configuration.settings import EngineConfig
from askance.core.errors import AskanceError, InputError, WorkersLost
from askance.core.notes import doing, note, noted
from askance.core.panics import INTERRUPTIONS
from askance.core.ports import Retriever
from askance.core.spec import parse_spec
from askance.core.trace import Answered, AnyEvent, Trace
from askance.evaluation.datasets import Example
from askance.evaluation.run.dataset_retriever import NEEDED, DatasetRetrievers
from askance.evaluation.run.executor import Attempt, Executor, OnEnd, ask_engine, local_executor
from askance.evaluation.run.experiment import ReadyExperiment
from askance.evaluation.run.provenance import code_of
from askance.evaluation.run.runner import loading_once

Task = Mapping[str, Any] | Example
"""The configuration of an engine to open (see `EngineConfig.stored`), or a question for the last one."""
_INDEX, _CODE, _MACHINE = "index content", "code of askance", "machine"
MOST_TASKS = 10_000
"""The most tasks that a worker takes at a time. Its driver gives it fewer (`--in-flight`)."""
_ALL_LOST = (
    "all workers have ended, perhaps for lack of memory. Finished questions are kept: start fewer workers, "
    "or ask fewer questions at a time (--in-flight N), and the same command continues."
)


@dataclass(slots=True)
class TaskResult:
    """The result of a task.

    Attributes:
        engine: A description of the engine that was opened, which is the same for all workers except for the
            machine.
        events: The trace of a question.
        error: The error that ended the task; the name and the message of one that is not askance's own.
    """

    engine: dict[str, Any] = field(default_factory=dict)
    events: Sequence[AnyEvent] = ()
    notes: list[tuple[str, str]] = field(default_factory=list)
    error: AskanceError | tuple[str, str] | None = None

    def check(self, place: str = "") -> None:
        """Pass on the notes, and raise the error if there is one, with `place` before its message."""
        for name, text in self.notes:
            note(name, text)
        error = self.error
        if isinstance(error, tuple):
            error = type(error[0], (AskanceError,), {})(error[1])
        if error is not None:
            error.args = (f"{place}{error}",)
            raise error


class Worker:
    """The part of a worker that runs in its process.

    Args:
        device: The device of the models that name none; empty to leave the choice to them.
    """

    def __init__(self, device: str = "") -> None:
        self._device, self._engine = device, cast(Engine, None)
        self._answer_spec, self._load = "", loading_once(load_models)

    async def work(self, task: Task) -> TaskResult:
        """Open an engine, or ask it a question. Errors are part of the reply."""
        reply = TaskResult()
        try:
            with noted(lambda name, text: reply.notes.append((name, text))):
                if isinstance(task, Example):
                    trace = Trace()
                    reply.events = trace.events
                    await ask_engine(self._engine, Attempt(0, task, trace))
                else:
                    reply.engine = self._opened(task)
        except INTERRUPTIONS:
            raise
        except BaseException as error:  # the panic of an extension is no Exception
            if isinstance(error, AskanceError) and type(error).__module__ == AskanceError.__module__:
                reply.error = error
            else:
                reply.error = type(error).__name__, str(error)
        return reply

    def _opened(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        settings = {name: value for name, value in stored.items() if name != "schema"}
        config = EngineConfig(**(on_device(settings, self._device) if self._device else settings))
        encoder, retriever, index = config.open_encoder(), cast(Retriever | None, None), str(config.index)
        if index in NEEDED:  # each question brings its passages
            retriever, content = DatasetRetrievers((), index), None
        else:
            retriever = config.open_retriever(encoder)
            content = "" if retriever is None else retriever.fingerprint
        if config.answer_spec != self._answer_spec:  # frees the models of the experiments before
            self._answer_spec, self._load = config.answer_spec, loading_once(load_models)
        models = config.cached_models(self._load(config.models))
        self._engine = config.open(models=models, encoder=encoder, retriever=retriever)
        self._engine.config = stored
        local = local_executor(self._engine, 1)
        return {
            _INDEX: content,
            _CODE: code_of(())["askance"],
            "models": local.models,
            "precisions": local.precisions,
            "fingerprints": {role: getattr(model, "fingerprint", "") for role, model in models.items()},
            _MACHINE: local.machine,
        }


def on_device(settings: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return settings whose models and encoder name a device, where they can and do not yet.

    Raises:
        InputError: No model can.
    """

    def placed(what: str, text: str) -> str:
        spec = parse_spec(text)
        kind = find(what, spec)
        takes = isinstance(kind, Kind) and "device" in {*kind.options} - {*spec.options}
        return str(replace(spec, options={**spec.options, "device": device})) if takes else text

    models = {role: placed("model", text) for role, text in settings["models"].items()}
    if models == settings["models"]:
        names = ", ".join(models.values())
        raise InputError(f"the models ({names}) take no device {device}: give --workers a number.")
    encoder = settings["encoder"] and placed("encoder", settings["encoder"])
    return {**settings, "models": models, "encoder": encoder}


@dataclass(frozen=True, slots=True, eq=False)
class RemoteWorker:
    """A worker as its driver sees it.

    Attributes:
        work: A function that gives the worker a task.
        close: A function that ends the worker.
        lost: The types of the error with which a task fails whose worker has ended.
    """

    name: str
    work: Callable[[Task], Future[TaskResult]]
    close: Callable[[], None]
    lost: type[Exception] | tuple[type[Exception], ...] = (EOFError, OSError)


class _HostedWorker(Worker):
    """A worker whose tasks arrive in threads."""

    def __init__(self, device: str) -> None:
        super().__init__(device)
        self._loop = asyncio.new_event_loop()
        for target in (self._loop.run_forever, _end_with_driver):
            Thread(target=target, daemon=True).start()

    def work_in_loop(self, task: Task) -> TaskResult:
        return asyncio.run_coroutine_threadsafe(self.work(task), self._loop).result()


def _end_with_driver() -> None:
    cast(BaseProcess, parent_process()).join()
    os._exit(1)


class _Host(BaseManager):
    """A process that holds a worker."""


_Host.register("worker", _HostedWorker)


def processes(devices: Sequence[str]) -> list[RemoteWorker]:
    """Start a worker process for each device, which is empty for models that choose their own."""
    # A forked process would share the threads, locks and GPU of this one.
    hosts: list[Any] = [_Host(ctx=get_context("spawn")) for _ in devices]
    with ThreadPoolExecutor(len(hosts)) as together:
        list(together.map(_Host.start, hosts))
    started = [(host, host.worker(device).work_in_loop) for host, device in zip(hosts, devices, strict=True)]
    return [
        RemoteWorker(f"worker {number}", partial(ThreadPoolExecutor(MOST_TASKS).submit, work), host.shutdown)
        for number, (host, work) in enumerate(started, start=1)
    ]


def read_devices(text: str) -> list[str]:
    """Read the devices of workers: "3" means three without a device, and "cuda:0,cuda:1" two with one each.

    Raises:
        InputError: The text is neither a number from 1 nor a list of devices.
    """
    if re.fullmatch("[1-9][0-9]{0,3}", text):
        return [""] * int(text)
    if re.fullmatch("[a-z]+(:[0-9]+)?(,[a-z]+(:[0-9]+)?)*", text):
        return text.split(",")
    raise InputError(f"--workers {text}: give a number from 1, or devices such as cuda:0,cuda:1.")


class Workers:
    """The workers of a driver. They start when the first engine is needed, and end with the `with` block.

    Args:
        start: A function that starts the workers.
    """

    def __init__(self, start: Callable[[], list[RemoteWorker]]) -> None:
        self._start, self._started = start, list[RemoteWorker]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        for worker in self._started:
            worker.close()

    def open(self, ready: ReadyExperiment, on_end: OnEnd) -> Executor:
        """Let all workers open the engine of an experiment, and return the executor that asks them.

        Raises:
            AskanceError: A worker can't open the engine, or opens another one than the others; the message
                names it. Or all workers have ended.
        """
        engines = dict[RemoteWorker, dict[str, Any]]()
        with doing("opening the engine in the workers"):
            self._started = self._started or self._start()
            for worker, task in [(each, each.work(ready.config)) for each in self._started]:
                try:
                    reply = task.result()
                except worker.lost:
                    _note_loss(worker)
                    continue
                reply.check(f"{worker.name}: ")
                engines[worker] = reply.engine
        if not engines:
            raise WorkersLost(_ALL_LOST)
        expected = {**next(iter(engines.values())), _CODE: ready.code["askance"]}
        if expected[_INDEX] is not None:
            expected[_INDEX] = "" if ready.retriever is None else ready.retriever.fingerprint
        for worker, engine in engines.items():
            for name, value in engine.items():
                if name != _MACHINE and value != expected[name]:
                    raise InputError(
                        f"{worker.name} differs from the driver or another worker in its {name} ({value}, "
                        f"not {expected[name]}): give all of them the same index, models and software."
                    )
        machines = Counter(engine[_MACHINE] for engine in engines.values()).items()
        return Executor(
            _Pool([*engines] * ready.in_flight, on_end).ask,
            in_flight=len(engines) * ready.in_flight,
            models=expected["models"],
            precisions=expected["precisions"],
            machine="; ".join(
                f"{number} worker{'s' * (number > 1)} on {machine}" for machine, number in machines
            ),
        )


def _note_loss(worker: RemoteWorker) -> None:
    note("worker", f"{worker.name} has ended: the others go on, and answer its questions.")


class _Pool:
    """Workers with an open engine.

    Args:
        places: The workers, each as often as it may have questions in flight.
    """

    def __init__(self, places: Sequence[RemoteWorker], on_end: OnEnd) -> None:
        self._free, self._num_places = asyncio.Queue[RemoteWorker | None](), len(places)
        self._on_end = on_end
        for worker in places:
            self._free.put_nowait(worker)

    async def ask(self, attempt: Attempt) -> Result:
        """Ask a question of the next free worker, and of another one if that worker ends meanwhile."""
        reply, trace = await self._reply(attempt.example), attempt.trace
        trace.events[:] = reply.events
        for event in reply.events:
            if trace.listener is not None:
                trace.listener(event)
        if self._on_end is not None:
            self._on_end(trace)
        reply.check()
        answered = cast(Answered, trace.events[-1])
        return Result(answered.answer, answered.usage, trace)

    async def _reply(self, example: Example) -> TaskResult:
        while worker := await self._free.get():
            try:
                reply = await asyncio.wrap_future(worker.work(example))
            except worker.lost:
                _note_loss(worker)
                self._num_places -= 1
                if not self._num_places:
                    self._free.put_nowait(None)
            else:
                self._free.put_nowait(worker)
                return reply
        self._free.put_nowait(None)  # for the next question that waits
        raise WorkersLost(_ALL_LOST)
