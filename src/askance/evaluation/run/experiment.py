"""Experiments that are ready to run, and the selection of their questions."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from askance.ask import Engine
from askance.core.errors import DatasetError
from askance.core.parameters import method_spec, name_of
from askance.core.ports import Encoder, Method, Retriever, RoleModel
from askance.core.records import opened
from askance.core.types import Role
from askance.core.version import VERSION
from askance.evaluation.datasets import Example
from askance.evaluation.metrics.scoring import Scoring
from askance.evaluation.run.provenance import machine_here, versions_here
from askance.evaluation.run.record import Settings

SAMPLING_SEED = 0
NumberedExamples = Mapping[int, Example]
"""Examples by their number in the dataset, from 1."""


@dataclass(frozen=True, slots=True)
class ReadyExperiment:
    """An experiment with everything loaded and checked except its models, which may take long to load.

    Attributes:
        dataset: The dataset as the user named it, such as "hotpotqa:FILE".
        models: The specification or the object of each model, by role.
        model_specs: The models as the user named them, by role.
        retriever_spec: The retriever as the user named it, with its reranker.
        in_flight: The number of questions that are answered at the same time.
        config: The whole configuration of the engine, as run folders store it.
        code: A hash of the source of askance and of each plug-in (see `provenance.code_of`).
        engine: A function that makes the engine from the loaded models.
    """

    dataset: str
    questions: NumberedExamples
    method: Method
    retriever: Retriever | None
    scoring: Scoring
    encoder: Encoder | None
    models: Mapping[str, Any]
    model_specs: Mapping[str, str]
    retriever_spec: str
    in_flight: int
    config: Mapping[str, Any]
    code: Mapping[str, str]
    engine: Callable[[Mapping[Role, RoleModel]], Engine]

    def settings(self, models: Mapping[str, str], precisions: Mapping[str, str]) -> Settings:
        """Return the settings of a run that starts now.

        Args:
            models: The names of the loaded models, by role.
            precisions: The data types that the models compute in, by role.
        """
        return Settings(
            dataset=self.dataset,
            num_questions=len(self.questions),
            method=name_of(type(self.method)),
            title=str(method_spec(self.method)),
            parameters=_parameters(self.method),
            models=models,
            model_specs=self.model_specs,
            index=self.config["index"] or "",
            index_content="" if self.retriever is None else self.retriever.fingerprint,
            seed=self.config["seed"],
            metrics=self.scoring.names,
            askance=VERSION,
            versions=versions_here(),
            machine=machine_here(),
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            budget=self.config["budget"],
            retriever=self.retriever_spec,
            precisions=precisions,
            encoder="" if self.encoder is None else f"{self.encoder.name}, {self.encoder.fingerprint}",
            reading=self.scoring.reading.name,
            config=self.config,
            in_flight=str(self.in_flight),
            code=self.code,
        )


def _parameters(method: Any) -> dict[str, str]:
    known = fields(method) if is_dataclass(method) else ()
    values = {field.name: getattr(method, field.name) for field in known}
    return {name: value if isinstance(value, str) else repr(value) for name, value in values.items()}


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
    indices: Collection[int] = range(len(examples))
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


def _listed(dataset: str, examples: Sequence[Example], path: Path) -> set[int]:
    indices = {example.question.id: index for index, example in enumerate(examples)}
    with opened(path) as file:
        ids = [line.strip() for line in file.read().split("\n") if line.strip()]
    if not ids:
        raise DatasetError(f"{path} names no questions: write one question id per line.")
    for id in ids:
        if id not in indices:
            near = get_close_matches(id, indices, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "check the list, or name another file."
            raise DatasetError(f"{path} names the question {id!r}, which {dataset!r} does not have: {remedy}")
    return {indices[id] for id in ids}
