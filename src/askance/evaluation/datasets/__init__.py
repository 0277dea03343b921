"""Questions with known answers: datasets, and the files that are read as one.

A file has the layout that the dataset's authors published or, for most datasets, FlashRAG's layout. Nothing
is downloaded.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from askance.core.errors import DatasetError, InputError
from askance.evaluation.datasets.example import Example as Example

Read = Callable[..., Iterator[Example]]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset. The catalogue's `datasets.toml` explains all fields.

    Attributes:
        read: A function that yields the examples or, in the catalogue, its ``module:name``. Its positional
            arguments are the path, if the dataset has a file, and then `shape`, unless it is empty. The
            options are keyword arguments.
    """

    spec: str
    read: Read | str
    what: str = ""
    source: str = ""
    licence: str = ""
    layouts: Sequence[str] = ()
    shape: str = ""

    @property
    def takes_path(self) -> bool:
        """Return whether the dataset is read from a file that the user names."""
        return ":" in self.spec

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options in `spec`."""
        return tuple(re.findall(r"(\w+)[=<]", self.spec))


@dataclass(frozen=True, slots=True)
class DatasetFile:
    """A file that is read as a dataset.

    Attributes:
        spec: The file as the user named it, such as "hotpotqa:FILE".
        path: The file; None if the dataset takes no file.
    """

    spec: str
    dataset: Dataset
    path: Path | None
    options: Mapping[str, str]

    def examples(self, limit: int | None = None) -> tuple[Example, ...]:
        """Return the examples in the order of the file.

        Args:
            limit: The maximum number of examples, counted from the first; None for all.

        Raises:
            DatasetError: The file can't be read, has no questions, or has two questions with the same id.
            InputError: The limit is below 1.
        """
        if limit is not None and limit < 1:
            raise InputError(f"a limit of {limit} questions leaves none: give 1 or more, or no limit.")
        read, shape = self.dataset.read, self.dataset.shape
        assert callable(read), "the catalogue's datasets are opened before they are read"
        arguments = (self.path, shape) if shape else (self.path,) if self.path else ()
        examples = tuple(islice(read(*arguments, **self.options), limit))
        if not examples:
            raise DatasetError(
                f"dataset {self.spec!r} holds no questions with answers: name the file that has them."
            )
        self._check_ids(examples)
        return examples

    def _check_ids(self, examples: Sequence[Example]) -> None:
        numbers: dict[str, int] = {}
        for number, example in enumerate(examples, start=1):
            id = example.question.id
            if numbers.setdefault(id, number) != number:
                raise DatasetError(
                    f"dataset {self.spec!r}: questions {numbers[id]} and {number} have the same id {id!r}; "
                    "give each its own, since results and randomness are kept by id."
                )
