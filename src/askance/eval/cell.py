"""One cell of an evaluation: a method with its models, asked the questions of one dataset."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from askance.choosing import choose_method
from askance.core.errors import InputError
from askance.core.ports import Encoder, Method, Model, Retriever
from askance.core.types import Role
from askance.eval.gold import GOLD, GoldRetrievers
from askance.eval.harness import Progress, ask_all, check_failures
from askance.eval.metrics import DEFAULT_METRICS, Scoring, open_metrics
from askance.eval.readings import DEFAULT_READING, open_reading
from askance.eval.recorded_run import SETTINGS, RecordedRun, read_run
from askance.eval.run_folder import RunWriter, claimed, open_run
from askance.eval.selection import Chosen, Selection, choose
from askance.eval.settings import LoadedModels, settings_of
from askance.eval.standing import Standing
from askance.loading import (
    DEFAULT_MODEL,
    DEFAULT_RETRIEVER,
    check_has_index,
    check_is_used,
    load_encoder,
    open_retriever,
)
from askance.models.kinds import suits_in_flight
from askance.runtime.limit import Budget
from askance.wire import Engine, method_class, ready_method
from askance.wordings import WORDINGS

PROMPTS_OF_DATASET = "dataset"
LoadModels = Callable[[Mapping[str, str]], dict[Role, Model]]
"""Models by role from specifications by role, as `wire.load_models`."""
OpenRetriever = Callable[[Path, str, Encoder | None], Retriever]
"""The retriever over an index folder, by its kind and an encoder, as `loading.open_retriever`."""
LoadEncoder = Callable[[str], Encoder]
"""The encoder of a specification, as `loading.load_encoder`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What is asked of what, in names.

    Attributes:
        dataset: such as "hotpotqa:FILE".
        index: its folder, or "@gold"; see `GoldRetriever`.
        retriever: how the index is searched.
        encoder: specification of one, for methods that need it, and of queries; None for the index's own.
        knobs: of the method; `preset` fills those left open.
        prompts: a packaged set, a file, or "dataset": the set with the dataset's name, or askance's own where
            there is none; nothing where the method has prompts of its own alone.
        models: specifications by role.
        budget: of each question.
        reading: how short answers are read, see `eval.readings`.
    """

    dataset: str
    method: str
    selection: Selection = Selection()
    index: Path | None = None
    retriever: str = DEFAULT_RETRIEVER
    encoder: str | None = None
    knobs: Mapping[str, Any] = field(default_factory=dict)
    preset: str | None = None
    prompts: str | None = None
    models: Mapping[str, str] = field(default_factory=lambda: {"answer": DEFAULT_MODEL})
    seed: int = 0
    budget: Budget = Budget()
    metrics: tuple[str, ...] = DEFAULT_METRICS
    reading: str = DEFAULT_READING


@dataclass(frozen=True, slots=True)
class ReadyCell:
    """A cell whose names have all been looked up, but for the models, which may take long to load."""

    cell: Cell
    questions: Chosen
    method: Method
    retriever: Retriever | None
    scoring: Scoring
    encoder: Encoder | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """How a run is carried out; none of it changes an answer.

    Attributes:
        in_flight: questions asked at the same time; None for what suits the model.
        max_failures: see `ask_all`.
        retry_failures: ask the questions again that failed before.
    """

    in_flight: int | None = None
    max_failures: int | None = None
    retry_failures: bool = False


def look_up(
    cell: Cell,
    choose: Callable[[str, Selection], Chosen] = choose,
    open_retriever: OpenRetriever = open_retriever,
    load_encoder: LoadEncoder = load_encoder,
    settle: Callable[[Cell, Method], Cell] | None = None,
) -> ReadyCell:
    """Find out all that can be wrong with a cell before a model is loaded for it.

    Args:
        settle: changes what is said of retrieval, once the method is known.

    Raises:
        InputError: a name, file, knob or index that can't be used.
        MissingExtra: a metric's package is missing; names the pip line.
    """
    scoring = open_metrics(cell.metrics, open_reading(cell.reading, cell.dataset))
    is_gold = cell.index == Path(GOLD)
    method = ready_method(
        cell.method, cell.knobs, cell.models["answer"], prompts=_prompts(cell), preset=cell.preset
    )
    cell = cell if settle is None else settle(cell, method)
    _check_retrieval(cell, method)
    encoder = None if cell.encoder is None else load_encoder(cell.encoder)
    retriever = None if cell.index is None or is_gold else open_retriever(cell.index, cell.retriever, encoder)
    questions = choose(cell.dataset, cell.selection)
    retriever = GoldRetrievers(tuple(questions.values())) if is_gold else retriever
    return ReadyCell(cell, questions, method, retriever, scoring, encoder if method.needs.encoder else None)


def _check_retrieval(cell: Cell, method: Method) -> None:
    check_has_index(cell.index, cell.retriever)
    if cell.index == Path(GOLD) and cell.retriever != DEFAULT_RETRIEVER:
        raise InputError(
            f"--index {GOLD} finds the supporting texts without searching: leave out --retriever "
            f"{cell.retriever}, or name an index folder."
        )
    check_is_used(cell.encoder, retriever=cell.retriever, is_needed=method.needs.encoder)


async def evaluate(
    ready: ReadyCell,
    folder: Path,
    load_models: LoadModels,
    terms: Terms = Terms(),
    progress: Progress = lambda standing: None,
) -> RecordedRun:
    """Ask the questions of a cell that are not finished in `folder` yet; gives the whole run.

    No model is loaded where none is left to ask.

    Raises:
        RunFolderError: the folder can't be used for this cell.
        MissingAbility: models or index do not meet the method's needs.
        TooManyFailures: see `ask_all`.
    """
    with claimed(folder):
        engine, models = None, _models_of_finished(ready, folder, terms)
        if models is None:
            engine = _engine(ready, load_models)
            models = LoadedModels.of(engine.models)
        with _opened(ready, models, folder, terms) as (writer, before):
            standing = Standing.of(len(ready.questions), ready.scoring.names, before.records)
            if engine is None:
                progress(standing)
                check_failures(standing, terms.max_failures)
                return read_run(folder)
            done = {record.id for record in before.records}
            left = {n: each for n, each in ready.questions.items() if each.question.id not in done}
            in_flight = terms.in_flight or suits_in_flight(ready.cell.models["answer"])
            await ask_all(
                engine, left, writer, ready.scoring, standing,
                in_flight=in_flight, max_failures=terms.max_failures, progress=progress,
            )  # fmt: skip
        return read_run(folder)


def begin(ready: ReadyCell, folder: Path, load_models: LoadModels) -> None:
    """Find out what else can be wrong with a cell once its models are there, and begin its run.

    Raises:
        RunFolderError, MissingAbility: as for `evaluate`.
    """
    with claimed(folder):
        finished = _models_of_finished(ready, folder, Terms())
        models = finished or LoadedModels.of(_engine(ready, load_models).models)
        with _opened(ready, models, folder, Terms()):
            pass


def _models_of_finished(ready: ReadyCell, folder: Path, terms: Terms) -> LoadedModels | None:
    """The models that answered a run, where none of its questions is left to ask."""
    if not (folder / SETTINGS).exists():
        return None
    run = read_run(folder)
    done = {record.id for record in run.records if not (terms.retry_failures and record.is_failure)}
    asked = {example.question.id for example in ready.questions.values()}
    return LoadedModels(run.settings.models, run.settings.precisions) if asked <= done else None


def _engine(ready: ReadyCell, load_models: LoadModels) -> Engine:
    cell = ready.cell
    models = load_models(cell.models)

    def make(name: str) -> Method:
        if name == cell.method:
            return ready.method
        answering = cell.models["answer"]
        return ready_method(name, cell.knobs, answering, prompts=_prompts(cell), preset=cell.preset)

    # What is asked of a dataset is said beforehand: nothing else answers, and the refusal names what could.
    chosen = choose_method(make, cell.method, models, ready.retriever, ready.encoder)
    return Engine(chosen.method, models, ready.retriever, cell.seed, cell.budget, encoder=ready.encoder)


def _opened(
    ready: ReadyCell, models: LoadedModels, folder: Path, terms: Terms
) -> AbstractContextManager[tuple[RunWriter, RecordedRun]]:
    cell, examples = ready.cell, tuple(ready.questions.values())
    settings = settings_of(
        ready.method, models, cell.models, cell.dataset, examples, ready.scoring,
        searched=ready.retriever, index=cell.index, retriever=cell.retriever, encoder=ready.encoder,
        seed=cell.seed, budget=cell.budget,
    )  # fmt: skip
    return open_run(folder, settings, examples, ready.scoring, retry_failures=terms.retry_failures)


def takes_prompts(method: str) -> bool:
    """Whether a method has prompts that can be changed, or its own alone.

    Raises:
        UnknownName: there is no such method.
    """
    return any(field.name == "wording" for field in fields(method_class(method)))


def _prompts(cell: Cell) -> str | None:
    if cell.prompts != PROMPTS_OF_DATASET:
        return cell.prompts
    if not takes_prompts(cell.method):
        return None
    name = cell.dataset.partition(":")[0]
    return name if name in WORDINGS else "own"
