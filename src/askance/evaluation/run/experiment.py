"""One cell of an evaluation: the configuration of an engine, and the questions that it is asked."""

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
from askance.config import STRICT, EngineConfig, PathOrNone
from askance.core.errors import DatasetError, InputError, about
from askance.core.parameters import name_of, short_repr
from askance.core.ports import Encoder, Method, Retriever
from askance.core.records import opened
from askance.core.version import VERSION
from askance.evaluation.datasets import Example, read_dataset
from askance.evaluation.metrics import DEFAULT_METRICS, Scoring, open_metrics
from askance.evaluation.run.gold_retriever import GOLD, GoldRetrievers
from askance.evaluation.run.readings import DEFAULT_READING, open_reading
from askance.evaluation.run.record import Settings, machine_here, versions_here
from askance.loaders import DEFAULT_RETRIEVER, load_encoder, open_retriever
from askance.prompts import PROMPT_SETS
from askance.registry import DEFAULT_METHOD, plain_method, prompts_parameter

PROMPTS_OF_DATASET = "dataset"
SAMPLING_SEED = 0
Chosen = Mapping[int, Example]
"""Questions by their place in the dataset, from 1."""
Load = Callable[..., Any]
"""Calls a function that reads or opens something, given first, with what is given behind it."""


@checked_dataclass(frozen=True, kw_only=True, config=STRICT)
class Experiment(EngineConfig):
    """What is asked of what: the configuration of an engine, and questions: all, or by at most one of three.

    The index may be "@gold", too (see `GoldRetriever`), and the prompts "dataset": the set with the dataset's
    name, or askance's own where there is none; nothing where the method has prompts of its own alone.

    Attributes:
        dataset: such as "hotpotqa:FILE".
        limit: so many questions, the first ones.
        sample: so many, each kind of question with about its share; those of a smaller sample are among those
            of a greater one.
        ids: a text file with the id of one question a line.
        reading: how short answers are read, see `evaluation.run.readings`.
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
        # What is asked of a dataset is said beforehand: nothing but the default answers where none is named.
        object.__setattr__(self, "method", self.method or DEFAULT_METHOD)
        if self.prompts == PROMPTS_OF_DATASET:
            name = self.dataset.partition(":")[0]
            prompts = name if name in PROMPT_SETS else "own"
            object.__setattr__(self, "prompts", prompts if takes_prompts(plain_method(self.method)) else None)

    @property
    def is_gold(self) -> bool:
        """Whether searches find what the dataset says supports the answers."""
        return self.index == Path(GOLD)

    def check_retrieval(self, method: Method) -> None:
        """As of every configuration; what needs no searching can't be searched in a way."""
        super().check_retrieval(method)
        if self.is_gold and self.retriever != DEFAULT_RETRIEVER:
            raise InputError(
                f"--index {GOLD} finds the supporting texts without searching: leave out --retriever "
                f"{self.retriever}, or name an index folder."
            )


def takes_prompts(method: Method) -> bool:
    """Whether a method takes the prompt sets of datasets, rather than having prompts of its own alone."""
    return prompts_parameter(method) == "wording"


@dataclass(frozen=True, slots=True)
class ReadyCell:
    """A cell whose names have all been looked up, but for the models, which may take long to load."""

    cell: Experiment
    questions: Chosen
    method: Method
    retriever: Retriever | None
    scoring: Scoring
    encoder: Encoder | None = None

    def settings(self, models: Mapping[str, str], precisions: Mapping[str, str]) -> Settings:
        """The settings of a run that begins now.

        Args:
            models, precisions: the names of the loaded models by role, and what they compute in.
        """
        cell, examples = self.cell, tuple(self.questions.values())
        return Settings(
            dataset=cell.dataset,
            num_questions=len(examples),
            questions_sha256=sha256(repr(examples).encode()).hexdigest(),
            method=name_of(type(self.method)),
            title=short_repr(self.method),
            parameters=_parameters(self.method),
            models=models,
            model_specs=cell.model_specs,
            index="" if cell.index is None else str(cell.index),
            index_content="" if self.retriever is None else self.retriever.fingerprint,
            seed=cell.seed,
            metrics=self.scoring.names,
            askance=VERSION,
            versions=versions_here(),
            machine=machine_here(),
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            budget={name: value for name, value in asdict(cell.budget).items() if value is not None},
            retriever=cell.retriever if isinstance(cell.retriever, str) else cell.retriever.name,
            precisions=precisions,
            encoder="" if self.encoder is None else f"{self.encoder.name}, {self.encoder.fingerprint}",
            reading=self.scoring.reading.name,
            config=cell.stored(),
        )


def _parameters(method: Any) -> dict[str, str]:
    known = fields(method) if is_dataclass(method) else ()
    values = {field.name: getattr(method, field.name) for field in known}
    return {name: value if isinstance(value, str) else repr(value) for name, value in values.items()}


def look_up(cell: Experiment, load: Load = lambda function, *given: function(*given)) -> ReadyCell:
    """Find out all that can be wrong with a cell before a model is loaded for it.

    Args:
        load: may remember what came of a call, for cells that have an index or questions in common.

    Raises:
        InputError: a name, file, parameter or index that can't be used.
        MissingExtra: a metric's package is missing; names the pip line.
    """
    with about("reading"):
        reading = open_reading(cell.reading, cell.dataset)
    with about("metrics"):
        scoring = open_metrics(cell.metrics, reading)
    method = cell.make()
    cell.check_retrieval(method)
    with about("encoder"):
        encoder = load(load_encoder, cell.encoder) if isinstance(cell.encoder, str) else cell.encoder
    retriever: Retriever | None = None
    if not cell.is_gold and (cell.index is not None or cell.retriever != DEFAULT_RETRIEVER):
        with about("retriever" if cell.index is None else "index"):
            retriever = cell.cached_retriever(load(open_retriever, cell.index, cell.retriever, encoder))
    with about("questions"):
        examples = load(read_dataset, cell.dataset, cell.limit)
    with about("ids"):
        questions = chosen(cell.dataset, examples, cell.sample, cell.ids)
    retriever = GoldRetrievers(tuple(questions.values())) if cell.is_gold else retriever
    check_can_search(method, retriever, encoder)
    return ReadyCell(cell, questions, method, retriever, scoring, encoder if method.needs.encoder else None)


def chosen(
    dataset: str, examples: Sequence[Example], sample: int | None = None, ids: Path | None = None
) -> Chosen:
    """All questions of a dataset, a sample of them or those of a list, in its order.

    Raises:
        DatasetError: the list of ids can't be read, or names a question that is not there.
    """
    places: Sequence[int] = range(len(examples))
    if sample is not None:
        places = stratified(examples, sample)
    elif ids is not None:
        places = _listed(dataset, examples, ids)
    return {place + 1: examples[place] for place in sorted(places)}


def stratified(examples: Sequence[Example], num_wanted: int) -> tuple[int, ...]:
    """Places (from 0) of `num_wanted` examples, each kind with about its share.

    The members of each kind are shuffled, always in the same way, and all are put in the order of their share
    of their kind; so a smaller sample is the beginning of a greater one.
    """
    random = np.random.default_rng(SAMPLING_SEED)
    ranked = []
    for kind in sorted({example.kind for example in examples}):
        members = [place for place, example in enumerate(examples) if example.kind == kind]
        order = random.permutation(len(members)).tolist()
        ranked += [((rank + 0.5) / len(members), kind, members[at]) for rank, at in enumerate(order)]
    return tuple(place for _, _, place in sorted(ranked)[:num_wanted])


def _listed(dataset: str, examples: Sequence[Example], path: Path) -> tuple[int, ...]:
    places = {example.question.id: place for place, example in enumerate(examples)}
    with opened(path) as file:
        ids = [line.strip() for line in file.read().split("\n") if line.strip()]
    if not ids:
        raise DatasetError(f"{path} names no questions: write the id of one question a line.")
    for id, times in Counter(ids).items():
        if times > 1:
            raise DatasetError(f"{path} names the question {id!r} {times} times: name it once.")
        if id not in places:
            near = get_close_matches(id, places, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "check the list, or name the file it is of."
            raise DatasetError(f"{path} names the question {id!r}, which {dataset!r} does not have: {remedy}")
    return tuple(places[id] for id in ids)
