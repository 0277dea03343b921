"""Which questions of a dataset are asked: the first, a sample, those of a list, or all."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from askance.core.errors import DatasetError, InputError
from askance.eval.datasets import Example, read_dataset
from askance.eval.datasets.records import opened

SAMPLING_SEED = 0
Chosen = Mapping[int, Example]
"""Questions by their place in the dataset, from 1."""


@dataclass(frozen=True, slots=True)
class Selection:
    """All questions, or by at most one of these.

    Attributes:
        limit: so many, the first ones.
        sample: so many, each kind of question with about its share; those of a smaller sample are among those
            of a greater one.
        ids: a text file with the id of one question a line.
    """

    limit: int | None = None
    sample: int | None = None
    ids: Path | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("limit", "sample", "ids") if getattr(self, name) is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} both say which questions to ask: give one of them.")
        for name in ("limit", "sample"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"{name} {value} leaves no questions: give 1 or more.")


def choose(dataset: str, selection: Selection = Selection()) -> Chosen:
    """The chosen questions of a dataset, in its order.

    Raises:
        UnknownName, DatasetError, InputError: the dataset or the list of ids can't be read, or names a
            question that is not there.
    """
    examples = read_dataset(dataset, selection.limit)
    if selection.sample is not None:
        places = stratified(examples, selection.sample)
    elif selection.ids is not None:
        places = _listed(dataset, examples, selection.ids)
    else:
        places = tuple(range(len(examples)))
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
    ids = _read_ids(path)
    for id in ids:
        if id not in places:
            near = get_close_matches(id, places, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "check the list, or name the file it is of."
            raise DatasetError(f"{path} names the question {id!r}, which {dataset!r} does not have: {remedy}")
    return tuple(places[id] for id in ids)


def _read_ids(path: Path) -> list[str]:
    with opened(path) as file:
        ids = [line.strip() for line in file.read().split("\n") if line.strip()]
    if not ids:
        raise DatasetError(f"{path} names no questions: write the id of one question a line.")
    id, times = Counter(ids).most_common(1)[0]
    if times > 1:
        raise DatasetError(f"{path} names the question {id!r} {times} times: name it once.")
    return ids
