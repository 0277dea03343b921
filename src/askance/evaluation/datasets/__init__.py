"""Questions with known answers: the table of datasets, and functions that read a dataset.

    examples = read_dataset("hotpotqa:hotpot_dev_distractor_v1.json", limit=500)

A file has the layout that the dataset's authors published or, for most datasets, FlashRAG's layout. Nothing
is downloaded.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from askance.core.errors import DatasetError, InputError, UnknownName
from askance.core.extensions import find_with_place, known_names
from askance.core.records import read_records, rows, rows_or_table, table_rows
from askance.evaluation.datasets import choices, long_form, multi_hop, own, single_hop
from askance.evaluation.datasets.example import Example as Example
from askance.evaluation.datasets.flashrag import read_either

Read = Callable[..., Iterator[Example]]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset and its description in `datasets.toml`, which explains all fields except `read`.

    Attributes:
        read: A function that yields the examples. Its positional arguments are the path, if the dataset has a
            file, and then `shape`, unless it is empty. The options are keyword arguments.
    """

    spec: str
    read: Read
    what: str = ""
    source: str = ""
    licence: str = ""
    layouts: tuple[str, ...] = ()
    shape: str = ""

    @property
    def name(self) -> str:
        """The name of the dataset, which is the part of `spec` before the file."""
        return self.spec.partition(":")[0]

    @property
    def takes_path(self) -> bool:
        """Return whether the dataset is read from a file that the user names."""
        return ":" in self.spec

    @property
    def options(self) -> tuple[str, ...]:
        """The names of the options in `spec`."""
        return tuple(re.findall(r"(\w+)=", self.spec))


_READERS: Mapping[str, Read] = {
    "hotpotqa": partial(read_either, convert=multi_hop.hotpotqa),
    "2wikimultihopqa": multi_hop.read_two_wiki,
    "musique": partial(read_either, convert=multi_hop.musique),
    "iirc": partial(read_either, convert=multi_hop.iirc),
    "strategyqa": partial(read_either, convert=multi_hop.strategyqa, task="yes_no"),
    "nq": partial(read_either, convert=single_hop.nq),
    "triviaqa": partial(read_either, convert=single_hop.triviaqa, rows_of=partial(rows, inside="Data")),
    "popqa": partial(read_either, convert=single_hop.popqa, rows_of=rows_or_table),
    "squad2": single_hop.read_squad2,
    "pubhealth": partial(read_records, convert=choices.pubhealth, rows_of=rows_or_table),
    "arc": partial(read_records, convert=choices.arc),
    "asqa": long_form.read_asqa,
    "biographies": partial(read_records, convert=long_form.biographies, rows_of=long_form.biography_rows),
    "jsonl": partial(read_either, convert=own.jsonl),
    "csv": partial(read_records, convert=own.csv, rows_of=table_rows),
    "sample": own.read_sample,
}
_TABLE = tomllib.loads(Path(__file__).with_name("datasets.toml").read_text(encoding="utf-8"))
DATASETS: Mapping[str, Dataset] = {
    name: Dataset(read=_READERS[name], **row | {"layouts": tuple(row["layouts"])})
    for name, row in _TABLE.items()
}


def read_dataset(spec: str, limit: int | None = None) -> tuple[Example, ...]:
    """Return the examples of the dataset ``NAME:FILE[?OPTION=VALUE]``, in the order of the file.

    Args:
        limit: The maximum number of examples, counted from the first; None for all.

    Raises:
        UnknownName: There is no such dataset or option.
        DatasetError: The file can't be read, has no questions, or has two questions with the same id.
        InputError: The limit is below 1.
    """
    if limit is not None and limit < 1:
        raise InputError(f"a limit of {limit} questions leaves none: give 1 or more, or no limit.")
    dataset, path, options = located(spec)
    arguments = (path, dataset.shape) if dataset.shape else (path,) if path else ()
    examples = tuple(islice(dataset.read(*arguments, **options), limit))
    if not examples:
        raise DatasetError(f"dataset {spec!r} holds no questions with answers: name the file that has them.")
    _check_ids(spec, examples)
    return examples


def located(spec: str) -> tuple[Dataset, Path | None, dict[str, str]]:
    """Return the dataset, the file and the options that ``NAME:FILE[?OPTION=VALUE]`` names.

    The file is None if the dataset takes no file. The questions may also be read by a plug-in (``NAME:FILE``)
    or by a ``module:function``; these may take any options.

    Raises:
        UnknownName, DatasetError: As for `read_dataset`.
    """
    named, _, query = spec.partition("?")
    name, _, path = named.partition(":")
    dataset = DATASETS.get(name)
    if dataset is None:
        extension = find_with_place("datasets", named)
        if extension is None:
            known = known_names("datasets", DATASETS)
            raise UnknownName("dataset", name, known, place="(write NAME:FILE)", remedy=_with_its_name(name))
        extension.check_declared((Dataset,), f"the dataset {named}")
        path = extension.place
        dataset = Dataset(f"{name}:FILE" if path else name, extension.target)
    elif bool(path) != dataset.takes_path:
        problem = "names no file" if dataset.takes_path else f"takes no file; leave out {path!r}"
        raise DatasetError(f"dataset {spec!r} {problem}: write {dataset.spec}.")
    options: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        option, _, value = pair.partition("=")
        if name in DATASETS and option not in dataset.options:
            raise UnknownName("dataset option", option, dataset.options, place=f"in {spec!r}")
        if not value or option in options:
            raise DatasetError(f"dataset {spec!r}: give {option} one value, such as {option}=….")
        options[option] = value
    return dataset, Path(path) if path else None, options


def _with_its_name(file: str) -> str:
    """Return a hint for a user who named a file without a dataset.

    The hint is an empty string if `file` does not look like the name of a file with questions.
    """
    kinds = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv"}
    kind = kinds.get(Path(file).suffix.lower())
    if kind is None:
        return ""
    return f"write {kind}:{file} for questions of your own, or the dataset's name in place of {kind}."


def _check_ids(spec: str, examples: tuple[Example, ...]) -> None:
    numbers: dict[str, int] = {}
    for number, example in enumerate(examples, start=1):
        id = example.question.id
        if numbers.setdefault(id, number) != number:
            raise DatasetError(
                f"dataset {spec!r}: questions {numbers[id]} and {number} have the same id {id!r}; give each "
                "its own, since results and randomness are kept by id."
            )
