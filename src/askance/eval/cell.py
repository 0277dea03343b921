"""One cell of an evaluation: a method with its models, asked the questions of one dataset."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass as checked_dataclass

from askance.ask import Engine, check_can_search
from askance.config import STRICT, EngineConfig
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
from askance.loading import DEFAULT_RETRIEVER, load_encoder, open_retriever
from askance.wire import DEFAULT_METHOD, choose_method, method_class
from askance.wordings import WORDINGS

PROMPTS_OF_DATASET = "dataset"
LoadModels = Callable[[Mapping[str, Any]], dict[Role, Model]]
"""Models by role from specifications by role, as `loading.load_models`."""
OpenRetriever = Callable[[Path | None, Any, Encoder | None], Retriever]
"""What is searched: an index folder in some way, with an encoder, as `loading.open_retriever`."""
LoadEncoder = Callable[[Any], Encoder]
"""The encoder of a specification, as `loading.load_encoder`."""


@checked_dataclass(frozen=True, kw_only=True, config=STRICT)
class Cell(EngineConfig):
    """What is asked of what: the configuration of an engine, and questions.

    The index may be "@gold", too (see `GoldRetriever`), and the prompts "dataset": the set with the dataset's
    name, or askance's own where there is none; nothing where the method has prompts of its own alone.

    Attributes:
        dataset: such as "hotpotqa:FILE".
        reading: how short answers are read, see `eval.readings`.
    """

    dataset: str
    selection: Selection = Selection()
    metrics: tuple[str, ...] = DEFAULT_METRICS
    reading: str = DEFAULT_READING

    def __post_init__(self) -> None:
        super().__post_init__()
        # What is asked of a dataset is said beforehand: nothing but the default answers where none is named.
        object.__setattr__(self, "method", self.method or DEFAULT_METHOD)

    @property
    def is_gold(self) -> bool:
        """Whether searches find what the dataset says supports the answers."""
        return self.index == Path(GOLD)

    def make(self, method: Any = None) -> Method:
        """As of every configuration, with the prompts of the dataset where these are wanted."""
        if self.prompts != PROMPTS_OF_DATASET:
            return super().make(method)
        name = self.dataset.partition(":")[0]
        prompts = (name if name in WORDINGS else "own") if takes_prompts(method or self.method) else None
        return replace(self, prompts=prompts).make(method)

    def check_retrieval(self, method: Method) -> None:
        """As of every configuration; what needs no searching can't be searched in a way."""
        super().check_retrieval(method)
        if self.is_gold and self.retriever != DEFAULT_RETRIEVER:
            raise InputError(
                f"--index {GOLD} finds the supporting texts without searching: leave out --retriever "
                f"{self.retriever}, or name an index folder."
            )


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
        max_failures: see `ask_all`.
        retry_failures: ask the questions again that failed before.
    """

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
    method = cell.make()
    cell = cell if settle is None else settle(cell, method)
    cell.check_retrieval(method)
    encoder = load_encoder(cell.encoder) if isinstance(cell.encoder, str) else cell.encoder
    retriever: Retriever | None = None
    if not cell.is_gold and (cell.index is not None or cell.retriever != DEFAULT_RETRIEVER):
        retriever = cell.cached_retriever(open_retriever(cell.index, cell.retriever, encoder))
    questions = choose(cell.dataset, cell.selection)
    retriever = GoldRetrievers(tuple(questions.values())) if cell.is_gold else retriever
    check_can_search(method, retriever, encoder)
    return ReadyCell(cell, questions, method, retriever, scoring, encoder if method.needs.encoder else None)


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
            await ask_all(
                engine, left, writer, ready.scoring, standing,
                in_flight=ready.cell.questions_in_flight, max_failures=terms.max_failures, progress=progress,
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
    models = cell.cached_models(load_models(cell.models))

    def make(method: Any) -> Method:
        return ready.method if method is cell.method else cell.make(method)

    method, _ = choose_method(make, cell.method, models, ready.retriever, ready.encoder)
    return cell.engine(method, models, ready.retriever, ready.encoder)


def _opened(
    ready: ReadyCell, models: LoadedModels, folder: Path, terms: Terms
) -> AbstractContextManager[tuple[RunWriter, RecordedRun]]:
    examples = tuple(ready.questions.values())
    settings = settings_of(
        ready.cell, ready.method, models, ready.cell.dataset, examples, ready.scoring,
        searched=ready.retriever, encoder=ready.encoder,
    )  # fmt: skip
    return open_run(folder, settings, examples, ready.scoring, retry_failures=terms.retry_failures)


def takes_prompts(method: Any) -> bool:
    """Whether a method has prompts that can be changed, or its own alone.

    Raises:
        UnknownName: there is no such method.
    """
    cls = method_class(method) if isinstance(method, str) else type(method)
    return is_dataclass(cls) and any(field.name == "wording" for field in fields(cls))
