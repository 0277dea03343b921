"""Experiments, each of which is the configuration of an engine and the questions to ask it."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from askance.ask import Engine, check_can_search
from askance.configuration.build import plugin_module
from askance.configuration.catalogue import BM25, DEFAULT_METHOD, DEFAULT_METRICS, PROMPT_SETS
from askance.configuration.evaluation import open_metrics, open_reading, read_dataset
from askance.configuration.methods import choose_method, class_of, defaults_of, prompts_class, with_members
from askance.configuration.settings import (
    SELECTIONS,
    STRICT,
    EngineConfig,
    Load,
    PathOrNone,
    load_now,
    setting,
)
from askance.core.errors import InputError, about
from askance.core.extensions import NamedFunction
from askance.core.ports import Needs, RoleModel
from askance.core.types import Role
from askance.evaluation.run.dataset_retriever import NEEDED, DatasetRetrievers
from askance.evaluation.run.experiment import ReadyExperiment, select_examples
from askance.evaluation.run.provenance import code_of
from askance.evaluation.run.readings import DEFAULT_READING
from askance.methods.common.prompts import PromptTemplate
from askance.retrieval.filters import filtered_retriever

PROMPTS_OF_DATASET = "dataset"


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Experiment(EngineConfig):
    """An experiment: the configuration of an engine, and the questions to ask it.

    The questions are all questions of a dataset, or those that `limit`, `sample` or `ids` selects. The index
    may also be "@gold" or "@supplied" (see `dataset_retriever`). The prompts may also be "dataset", which
    stands for the prompt set with the name of the dataset or, if there is none, for askance's own prompts. A
    method with its own prompts ignores "dataset".

    Attributes:
        dataset: The dataset, as NAME:FILE; `askance datasets` lists the names.
        limit: Ask only the first N questions.
        sample: Ask a sample of N questions, in which each kind is as frequent as in the dataset. A smaller
            sample is a subset of a larger one.
        ids: Ask only the questions whose ids this file lists, one per line.
        metrics: A metric to use instead of the default ones; the option may be repeated.
        reading: Whose rules extract the short answers before they are scored: own (those of askance), authors
            (those of the DRAGIN authors, for 2wikimultihopqa, hotpotqa, iirc and strategyqa), a plug-in or
            module:function. In an existing run, short answers are extracted again.
    """

    dataset: str = setting("", "NAME:FILE")
    limit: Annotated[int, Field(ge=1)] | None = setting(None, "N")
    sample: Annotated[int, Field(ge=1)] | None = setting(None, "N")
    ids: PathOrNone = setting(None, "FILE")
    metrics: Annotated[tuple[str, ...], Field(strict=False)] = setting(DEFAULT_METRICS, "NAME", "--metric")
    reading: str = setting(DEFAULT_READING, "NAME")

    def __post_init__(self) -> None:
        given = [name for name in SELECTIONS if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} both say which questions to ask: give one of them.")
        # An experiment names its method, so that the default method is explicit.
        object.__setattr__(self, "method", self.method or DEFAULT_METHOD)
        if self.prompts == PROMPTS_OF_DATASET:
            name = self.dataset.partition(":")[0]
            prompts = name if name in PROMPT_SETS else "own"
            takes_prompts = prompts_class(class_of(self.method)) is PromptTemplate
            object.__setattr__(self, "prompts", prompts if takes_prompts else None)

    @property
    def searches_dataset(self) -> bool:
        """Return whether searches return passages of the dataset instead of those of an index."""
        return str(self.index) in NEEDED

    def check_retrieval(self, needs: Needs) -> None:
        """Check the retriever as `EngineConfig` does, and refuse one with passages of the dataset."""
        super().check_retrieval(needs)
        if self.searches_dataset and self.retriever_spec != BM25:
            option, value = ("rerank", self.rerank) if self.rerank else ("retriever", self.retriever)
            raise InputError(
                f"--index {self.index} finds texts of the dataset without searching: leave out "
                f"--{option} {value}, or name an index folder."
            )


def prepare_experiment(experiment: Experiment, load: Load = load_now) -> ReadyExperiment:
    """Load and check everything that an experiment needs, except its models.

    Args:
        load: A function that calls a loader; it may cache results that several experiments share.

    Raises:
        InputError: A name, file, parameter or index can't be used.
        MissingExtra: The package of a metric is missing; the message gives the pip command.
    """
    with about("reading"):
        reading = open_reading(experiment.reading, experiment.dataset)
    with about("metrics"):
        scoring = open_metrics(experiment.metrics, reading)
    method = experiment.make()
    experiment.check_retrieval(method.needs)
    encoder = experiment.open_encoder(load)
    retriever = None if experiment.searches_dataset else experiment.open_retriever(encoder, load)
    with about("dataset"):
        examples = load(read_dataset, experiment.dataset, experiment.limit)
    with about("ids"):
        questions = select_examples(experiment.dataset, examples, experiment.sample, experiment.ids)
    if experiment.searches_dataset:
        retriever = filtered_retriever(
            DatasetRetrievers(tuple(questions.values()), str(experiment.index)), experiment.where
        )
    check_can_search(method, retriever, encoder)
    encoder = encoder if method.needs.encoder else None

    def engine(models: Mapping[Role, RoleModel]) -> Engine:
        cached = experiment.cached_models(models)
        chosen, _ = choose_method(method, experiment.make, cached, retriever, encoder, is_named=True)
        return experiment.engine(chosen, cached, retriever, encoder)

    return ReadyExperiment(
        dataset=experiment.dataset,
        questions=questions,
        method=method,
        retriever=retriever,
        scoring=scoring,
        encoder=encoder,
        models=experiment.models,
        model_specs=experiment.model_specs,
        retriever_spec=experiment.retriever_spec,
        in_flight=experiment.questions_in_flight,
        config=experiment.stored(),
        code=code_of(_modules(experiment, method, reading.rules)),
        engine=engine,
    )


def _modules(experiment: Experiment, method: Any, *functions: Any) -> Iterator[str]:
    """Yield the names of the modules of the objects and plug-ins that answers and scores depend on."""
    for what in ("encoder", "retriever", "dataset"):
        yield plugin_module(what, getattr(experiment, what))
    yield plugin_module("reranker", experiment.rerank)
    yield from (plugin_module("model", model) for model in experiment.models.values())
    yield from (plugin_module("metric", metric) for metric in experiment.metrics)
    values = [*functions]
    for member in with_members(method):
        yield type(member).__module__
        values += (getattr(member, parameter) for parameter in defaults_of(type(member)))
    for value in values:
        yield (value.function if isinstance(value, NamedFunction) else type(value)).__module__
