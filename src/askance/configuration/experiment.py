"""Experiments, each of which is the configuration of an engine and the questions to ask it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass

from askance.ask import check_can_search
from askance.configuration.build import load_encoder, open_retriever
from askance.configuration.catalogue import DEFAULT_METHOD, DEFAULT_RETRIEVER, PROMPT_SETS
from askance.configuration.methods import make_method, prompts_class
from askance.configuration.settings import STRICT, EngineConfig, PathOrNone
from askance.core.errors import DatasetError, InputError, about
from askance.core.parameters import method_spec, name_of
from askance.core.ports import Encoder, Method, Retriever, filtered_retriever
from askance.core.records import opened
from askance.core.version import VERSION
from askance.evaluation.datasets import Example, read_dataset
from askance.evaluation.metrics import DEFAULT_METRICS, Scoring, open_metrics
from askance.evaluation.run.gold_retriever import GOLD, GoldRetrievers
from askance.evaluation.run.readings import DEFAULT_READING, open_reading
from askance.evaluation.run.record import Settings, machine_here, versions_here
from askance.methods.common.prompts import PromptTemplate

PROMPTS_OF_DATASET = "dataset"
SAMPLING_SEED = 0
NumberedExamples = Mapping[int, Example]
"""Examples by their number in the dataset, from 1."""
Load = Callable[..., Any]
"""A function that calls its first argument, a loader, with the other arguments, and returns the result."""


@checked_dataclass(frozen=True, kw_only=True, config=STRICT)
class Experiment(EngineConfig):
    """An experiment: the configuration of an engine, and the questions to ask it.

    The questions are all questions of a dataset, or those that `limit`, `sample` or `ids` selects. The index
    may also be "@gold" (see `GoldRetriever`). The prompts may also be "dataset", which stands for the prompt
    set with the name of the dataset or, if there is none, for askance's own prompts. A method with its own
    prompts ignores "dataset".

    Attributes:
        dataset: The dataset, such as "hotpotqa:FILE".
        limit: The maximum number of questions to ask, counted from the first.
        sample: The number of questions to sample. Each kind of question is about as frequent in the sample as
            in the dataset. A smaller sample is a subset of a larger one.
        ids: A text file with one question id per line.
        metrics: The metrics to score answers by.
        reading: The rules by which short answers are extracted (see `evaluation.run.readings`).
    """

    dataset: str
    limit: Annotated[int, Field(ge=1)] | None = None
    sample: Annotated[int, Field(ge=1)] | None = None
    ids: PathOrNone = None
    metrics: Annotated[tuple[str, ...], Field(strict=False)] = DEFAULT_METRICS
    reading: str = DEFAULT_READING

    def __post_init__(self) -> None:
        super().__post_init__()
        given = [name for name in ("limit", "sample", "ids") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} both say which questions to ask: give one of them.")
        # An experiment names its method, so that the default method is explicit.
        object.__setattr__(self, "method", self.method or DEFAULT_METHOD)
        if self.prompts == PROMPTS_OF_DATASET:
            name = self.dataset.partition(":")[0]
            prompts = name if name in PROMPT_SETS else "own"
            object.__setattr__(self, "prompts", prompts if takes_prompts(make_method(self.method)) else None)

    @property
    def is_gold(self) -> bool:
        """Return whether searches return the supporting facts of the dataset."""
        return self.index == Path(GOLD)

    def check_retrieval(self, method: Method) -> None:
        """Check the retriever as `EngineConfig` does, and refuse a retriever or reranker with "@gold"."""
        super().check_retrieval(method)
        if self.is_gold and self.retriever_spec != DEFAULT_RETRIEVER:
            option, value = ("rerank", self.rerank) if self.rerank else ("retriever", self.retriever)
            raise InputError(
                f"--index {GOLD} finds the supporting texts without searching: leave out --{option} "
                f"{value}, or name an index folder."
            )


def takes_prompts(method: Method) -> bool:
    """Return whether a method accepts the prompt sets of datasets, rather than only its own prompts."""
    return prompts_class(type(method)) is PromptTemplate


@dataclass(frozen=True, slots=True)
class ReadyExperiment:
    """An experiment with everything loaded and checked except its models, which may take long to load."""

    experiment: Experiment
    questions: NumberedExamples
    method: Method
    retriever: Retriever | None
    scoring: Scoring
    encoder: Encoder | None = None

    def settings(self, models: Mapping[str, str], precisions: Mapping[str, str]) -> Settings:
        """Return the settings of a run that starts now.

        Args:
            models: The names of the loaded models, by role.
            precisions: The data types that the models compute in, by role.
        """
        experiment, examples = self.experiment, tuple(self.questions.values())
        return Settings(
            dataset=experiment.dataset,
            num_questions=len(examples),
            questions_sha256=sha256(repr(examples).encode()).hexdigest(),
            method=name_of(type(self.method)),
            title=str(method_spec(self.method)),
            parameters=_parameters(self.method),
            models=models,
            model_specs=experiment.model_specs,
            index="" if experiment.index is None else str(experiment.index),
            index_content="" if self.retriever is None else self.retriever.fingerprint,
            seed=experiment.seed,
            metrics=self.scoring.names,
            askance=VERSION,
            versions=versions_here(),
            machine=machine_here(),
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            budget={name: value for name, value in asdict(experiment.budget).items() if value is not None},
            retriever=experiment.retriever_spec,
            precisions=precisions,
            encoder="" if self.encoder is None else f"{self.encoder.name}, {self.encoder.fingerprint}",
            reading=self.scoring.reading.name,
            config=experiment.stored(),
        )


def _parameters(method: Any) -> dict[str, str]:
    known = fields(method) if is_dataclass(method) else ()
    values = {field.name: getattr(method, field.name) for field in known}
    return {name: value if isinstance(value, str) else repr(value) for name, value in values.items()}


def prepare_experiment(
    experiment: Experiment, load: Load = lambda function, *given: function(*given)
) -> ReadyExperiment:
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
    experiment.check_retrieval(method)
    index, encoder = experiment.index, experiment.encoder
    with about("encoder"):
        encoder = load(load_encoder, encoder) if isinstance(encoder, str) else encoder
    retriever: Retriever | None = None
    if not experiment.is_gold and (index is not None or experiment.retriever != DEFAULT_RETRIEVER):
        with about("retriever" if index is None else "index"):
            opened_index = load(open_retriever, index, experiment.retriever, encoder, experiment.rerank)
            retriever = experiment.cached_retriever(filtered_retriever(opened_index, experiment.where))
    with about("questions"):
        examples = load(read_dataset, experiment.dataset, experiment.limit)
    with about("ids"):
        questions = select_examples(experiment.dataset, examples, experiment.sample, experiment.ids)
    if experiment.is_gold:
        retriever = filtered_retriever(GoldRetrievers(tuple(questions.values())), experiment.where)
    check_can_search(method, retriever, encoder)
    encoder = encoder if method.needs.encoder else None
    return ReadyExperiment(experiment, questions, method, retriever, scoring, encoder)


def select_examples(
    dataset: str, examples: Sequence[Example], sample: int | None = None, ids: Path | None = None
) -> NumberedExamples:
    """Return the selected examples of a dataset by their numbers, in the order of the dataset.

    Args:
        examples: All examples of the dataset, which are the result without `sample` and `ids`.
        sample: The number of examples to sample.
        ids: A text file with the ids of the examples to select.

    Raises:
        DatasetError: The list of ids can't be read, or names a question that the dataset does not have.
    """
    indices: Sequence[int] = range(len(examples))
    if sample is not None:
        indices = stratified(examples, sample)
    elif ids is not None:
        indices = _listed(dataset, examples, ids)
    return {index + 1: examples[index] for index in sorted(indices)}


def stratified(examples: Sequence[Example], num_wanted: int) -> tuple[int, ...]:
    """Return the indices of a stratified sample of `num_wanted` examples.

    Each kind of question is about as frequent in the sample as in the dataset. The examples of each kind are
    shuffled with a fixed seed, and all examples are ranked by their relative position within their kind.
    Therefore a smaller sample is a subset of a larger one.
    """
    random = np.random.default_rng(SAMPLING_SEED)
    ranked = []
    for kind in sorted({example.kind for example in examples}):
        members = [index for index, example in enumerate(examples) if example.kind == kind]
        order = random.permutation(len(members)).tolist()
        ranked += [((rank + 0.5) / len(members), kind, members[i]) for rank, i in enumerate(order)]
    return tuple(index for _, _, index in sorted(ranked)[:num_wanted])


def _listed(dataset: str, examples: Sequence[Example], path: Path) -> tuple[int, ...]:
    indices = {example.question.id: index for index, example in enumerate(examples)}
    with opened(path) as file:
        ids = [line.strip() for line in file.read().split("\n") if line.strip()]
    if not ids:
        raise DatasetError(f"{path} names no questions: write one question id per line.")
    for id, times in Counter(ids).items():
        if times > 1:
            raise DatasetError(f"{path} names the question {id!r} {times} times: name it once.")
        if id not in indices:
            near = get_close_matches(id, indices, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "check the list, or name another file."
            raise DatasetError(f"{path} names the question {id!r}, which {dataset!r} does not have: {remedy}")
    return tuple(indices[id] for id in ids)
