"""Questions with known answers: the one table of datasets, and reading one of them.

    examples = read_dataset("hotpotqa:hotpot_dev_distractor_v1.json", limit=500)

Files are read as their authors published them, or in FlashRAG's layout; nothing is downloaded.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from askance.core.errors import DatasetError, InputError, UnknownName
from askance.core.extensions import find_with_place, known_names
from askance.eval.datasets import choices, long_form, multi_hop, own, single_hop
from askance.eval.datasets.example import Example as Example
from askance.eval.datasets.flashrag import read_either
from askance.eval.datasets.records import read_records, rows, rows_or_table, table_rows
from askance.eval.datasets.sample import read_sample

Read = Callable[..., Iterator[Example]]


@dataclass(frozen=True, slots=True)
class Dataset:
    """One row of the table.

    Attributes:
        spec: how it is named, its options in brackets.
        what: what the questions are, and how many the official file has.
        source: the address of its authors' page; empty for what is your own or this package's.
        licence: of the questions; texts from Wikipedia have its own.
        read: gives the examples; takes the path, if there is one, and the options.
        layouts: forms of file that can be read.
    """

    spec: str
    what: str
    source: str
    licence: str
    read: Read
    layouts: tuple[str, ...] = ("JSON", "FlashRAG")

    @property
    def name(self) -> str:
        """What stands before the file."""
        return self.spec.partition(":")[0]

    @property
    def takes_path(self) -> bool:
        """Whether a file is named."""
        return ":" in self.spec

    @property
    def options(self) -> tuple[str, ...]:
        """The names of its options."""
        return tuple(re.findall(r"(\w+)=", self.spec))


_ROWS = (
    Dataset(
        "hotpotqa:FILE",
        "over two Wikipedia articles; 7,405 in dev",
        "https://hotpotqa.github.io",
        "CC BY-SA 4.0",
        partial(read_either, convert=multi_hop.hotpotqa, shape=multi_hop.HOTPOTQA_SHAPE),
    ),
    Dataset(
        "2wikimultihopqa:FILE[?aliases=FILE]",
        "over two to four Wikipedia articles, made from Wikidata; 12,576 in dev",
        "https://github.com/Alab-NII/2wikimultihop",
        "Apache-2.0",
        multi_hop.read_two_wiki,
    ),
    Dataset(
        "musique:FILE",
        "of two to four hops, composed of single-hop ones; 2,417 in dev",
        "https://github.com/StonyBrookNLP/musique",
        "CC BY 4.0",
        partial(read_either, convert=multi_hop.musique, shape=multi_hop.MUSIQUE_SHAPE),
        layouts=("JSON Lines", "FlashRAG"),
    ),
    Dataset(
        "iirc:FILE",
        "on a paragraph and the articles it links to; 954 answerable in dev",
        "https://allenai.org/data/iirc",
        "CC BY 4.0",
        partial(read_either, convert=multi_hop.iirc, shape=multi_hop.IIRC_SHAPE),
    ),
    Dataset(
        "strategyqa:FILE",
        "answered by yes or no, with hidden steps; 2,290 in train",
        "https://allenai.org/data/strategyqa",
        "MIT",
        partial(read_either, convert=multi_hop.strategyqa, shape=multi_hop.STRATEGYQA_SHAPE, task="yes_no"),
    ),
    Dataset(
        "nq:FILE",
        "typed into a search engine (Natural Questions, open form); 3,610 in dev",
        "https://ai.google.com/research/NaturalQuestions",
        "CC BY-SA 3.0",
        partial(read_either, convert=single_hop.nq, shape=single_hop.NQ_SHAPE),
        layouts=("JSON Lines", "FlashRAG"),
    ),
    Dataset(
        "triviaqa:FILE",
        "of quiz writers, with every name of the answer; 11,313 in unfiltered dev",
        "https://nlp.cs.washington.edu/triviaqa/",
        "Apache-2.0; questions not the authors' own",
        partial(
            read_either,
            convert=single_hop.triviaqa,
            shape=single_hop.TRIVIAQA_SHAPE,
            rows_of=partial(rows, inside="Data"),
        ),
    ),
    Dataset(
        "popqa:FILE",
        "about entities of all degrees of fame, made from Wikidata; 14,267",
        "https://github.com/AlexTMallen/adaptive-retrieval",
        "MIT",
        partial(read_either, convert=single_hop.popqa, shape=single_hop.POPQA_SHAPE, rows_of=rows_or_table),
        layouts=("TSV", "FlashRAG"),
    ),
    Dataset(
        "squad2:FILE[?unanswerable=keep]",
        "on paragraphs of Wikipedia (SQuAD 2.0); 5,928 answerable of 11,873 in dev",
        "https://rajpurkar.github.io/SQuAD-explorer/",
        "CC BY-SA 4.0",
        single_hop.read_squad2,
    ),
    Dataset(
        "pubhealth:FILE",
        "whether a claim about health is true (PubHealth); 987 true or false ones in test",
        "https://github.com/neemakot/Health-Fact-Checking",
        "MIT",
        partial(
            read_records, convert=choices.pubhealth, shape=choices.PUBHEALTH_SHAPE, rows_of=rows_or_table
        ),
        layouts=("JSON Lines", "TSV"),
    ),
    Dataset(
        "arc:FILE",
        "of science exams, with lettered choices (ARC); 1,172 in Challenge test",
        "https://allenai.org/data/arc",
        "CC BY-SA 4.0",
        partial(read_records, convert=choices.arc, shape=choices.ARC_SHAPE),
        layouts=("JSON Lines",),
    ),
    Dataset(
        "asqa:FILE[?split=train]",
        "with several readings, for a long answer to all of them (ASQA, ALCE); 948 in dev",
        "https://github.com/princeton-nlp/ALCE",
        "Apache-2.0",
        long_form.read_asqa,
        layouts=("JSON",),
    ),
    Dataset(
        "biographies:FILE",
        "for a biography, without accepted answers (FActScore); 500 people",
        "https://github.com/shmsw25/FActScore",
        "MIT",
        partial(
            read_records,
            convert=long_form.biographies,
            shape=long_form.BIOGRAPHIES_SHAPE,
            rows_of=long_form.biography_rows,
        ),
        layouts=("names", "JSON Lines"),
    ),
    Dataset(
        "jsonl:FILE",
        "your own, or any dataset of FlashRAG's",
        "",
        "your own",
        partial(read_either, convert=own.jsonl, shape=own.JSONL_SHAPE),
        layouts=("JSON Lines", "JSON", "FlashRAG"),
    ),
    Dataset(
        "csv:FILE",
        "your own, as a table with a header",
        "",
        "your own",
        partial(read_records, convert=own.csv, shape=own.CSV_SHAPE, rows_of=table_rows),
        layouts=("CSV", "TSV"),
    ),
    Dataset(
        "sample",
        "of two and three hops over the sample corpus; 96",
        "",
        "CC0 1.0",
        read_sample,
        layouts=(),
    ),
)
DATASETS: Mapping[str, Dataset] = {each.name: each for each in _ROWS}


def read_dataset(spec: str, limit: int | None = None) -> tuple[Example, ...]:
    """The first `limit` examples of ``NAME:FILE[?OPTION=VALUE]``, or all of them, in the order of the file.

    Raises:
        UnknownName: no such dataset or option.
        DatasetError: a file that can't be read, has no questions, or two with one id.
        InputError: a limit below 1.
    """
    if limit is not None and limit < 1:
        raise InputError(f"a limit of {limit} questions leaves none: give 1 or more, or no limit.")
    dataset, path, options = located(spec)
    examples = tuple(islice(dataset.read(*([path] if path else ()), **options), limit))
    if not examples:
        raise DatasetError(f"dataset {spec!r} holds no questions with answers: name the file that has them.")
    _check_ids(spec, examples)
    return examples


def located(spec: str) -> tuple[Dataset, Path | None, dict[str, str]]:
    """What ``NAME:FILE[?OPTION=VALUE]`` names: a row of the table, the file, if it takes one, and options.

    A plug-in, ``NAME:FILE``, and ``module:function`` are what reads the file; they take any options.

    Raises:
        UnknownName, DatasetError: as for `read_dataset`.
    """
    named, _, query = spec.partition("?")
    name, _, path = named.partition(":")
    dataset = DATASETS.get(name)
    if dataset is None:
        extension = find_with_place("datasets", named)
        if extension is None:
            known = known_names("datasets", DATASETS)
            raise UnknownName("dataset", name, known, place="(write NAME:FILE)", remedy=_with_its_name(name))
        read, path = extension
        dataset = Dataset(f"{name}:FILE" if path else name, "", "", "", read, ())
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
    """What to write in place of a file's bare name, or nothing where it is a misspelt dataset."""
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
