"""Questions with known answers: one file per dataset, and the one table of them, imported on use.

    examples = read_dataset("hotpotqa:hotpot_dev_distractor_v1.json", limit=500)

Files are read as their authors published them; nothing is downloaded.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from operator import attrgetter
from pathlib import Path

from askance.core.errors import DatasetError, InputError, UnknownName
from askance.core.extensions import find_with_place, known_names
from askance.core.types import Question
from askance.eval.datasets.grounds import Grounds


@dataclass(frozen=True, slots=True)
class Example:
    """A question and what is known about it.

    Attributes:
        golds: the accepted answers, the preferred one first. Empty only in a dataset that has none, such as
            biographies: metrics that compare with them don't apply there.
        supporting_titles: the titles of the documents that the answer follows from, each once; empty where
            the dataset does not say.
        kind: the dataset's type of question, such as "bridge" or "comparison"; empty where it has none.
        hops: reasoning steps that the question takes, by what the dataset says of it.
        grounds: why the answer is right, as far as the dataset tells.
        answer_groups: what a whole answer has to tell, each as the short answers that will do for it; empty
            where one answer is all there is.
    """

    question: Question
    golds: tuple[str, ...]
    supporting_titles: tuple[str, ...] = ()
    kind: str = ""
    hops: int | None = None
    grounds: Grounds = field(default=Grounds(), repr=False)
    answer_groups: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Dataset:
    """One row of the table.

    Attributes:
        spec: how it is named, its options in brackets.
        what: what the questions are, and how many the official file has.
        source: the address of its authors' page; empty for what is your own or this package's.
        licence: of the questions; texts from Wikipedia have its own.
        layouts: forms of file that can be read.
        module: where its function `read` is, if that is not its name, or ``module:function`` of a plug-in;
            the function takes the path, if there is one, and the options, and yields examples.
    """

    spec: str
    what: str
    source: str
    licence: str
    layouts: tuple[str, ...] = ("JSON", "FlashRAG")
    module: str = ""

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
    ),
    Dataset(
        "2wikimultihopqa:FILE[?aliases=FILE]",
        "over two to four Wikipedia articles, made from Wikidata; 12,576 in dev",
        "https://github.com/Alab-NII/2wikimultihop",
        "Apache-2.0",
        module="two_wiki",
    ),
    Dataset(
        "musique:FILE",
        "of two to four hops, composed of single-hop ones; 2,417 in dev",
        "https://github.com/StonyBrookNLP/musique",
        "CC BY 4.0",
        layouts=("JSON Lines", "FlashRAG"),
    ),
    Dataset(
        "iirc:FILE",
        "on a paragraph and the articles it links to; 954 answerable in dev",
        "https://allenai.org/data/iirc",
        "CC BY 4.0",
    ),
    Dataset(
        "strategyqa:FILE",
        "answered by yes or no, with hidden steps; 2,290 in train",
        "https://allenai.org/data/strategyqa",
        "MIT",
    ),
    Dataset(
        "nq:FILE",
        "typed into a search engine (Natural Questions, open form); 3,610 in dev",
        "https://ai.google.com/research/NaturalQuestions",
        "CC BY-SA 3.0",
        layouts=("JSON Lines", "FlashRAG"),
    ),
    Dataset(
        "triviaqa:FILE",
        "of quiz writers, with every name of the answer; 11,313 in unfiltered dev",
        "https://nlp.cs.washington.edu/triviaqa/",
        "Apache-2.0; questions not the authors' own",
    ),
    Dataset(
        "popqa:FILE",
        "about entities of all degrees of fame, made from Wikidata; 14,267",
        "https://github.com/AlexTMallen/adaptive-retrieval",
        "MIT",
        layouts=("TSV", "FlashRAG"),
    ),
    Dataset(
        "squad2:FILE[?unanswerable=keep]",
        "on paragraphs of Wikipedia (SQuAD 2.0); 5,928 answerable of 11,873 in dev",
        "https://rajpurkar.github.io/SQuAD-explorer/",
        "CC BY-SA 4.0",
    ),
    Dataset(
        "pubhealth:FILE",
        "whether a claim about health is true (PubHealth); 987 true or false ones in test",
        "https://github.com/neemakot/Health-Fact-Checking",
        "MIT",
        layouts=("JSON Lines", "TSV"),
    ),
    Dataset(
        "arc:FILE",
        "of science exams, with lettered choices (ARC); 1,172 in Challenge test",
        "https://allenai.org/data/arc",
        "CC BY-SA 4.0",
        layouts=("JSON Lines",),
    ),
    Dataset(
        "asqa:FILE[?split=train]",
        "with several readings, for a long answer to all of them (ASQA, ALCE); 948 in dev",
        "https://github.com/princeton-nlp/ALCE",
        "Apache-2.0",
        layouts=("JSON",),
    ),
    Dataset(
        "biographies:FILE",
        "for a biography, without accepted answers (FActScore); 500 people",
        "https://github.com/shmsw25/FActScore",
        "MIT",
        layouts=("names", "JSON Lines"),
    ),
    Dataset(
        "jsonl:FILE",
        "your own, or any dataset of FlashRAG's",
        "",
        "your own",
        layouts=("JSON Lines", "JSON", "FlashRAG"),
    ),
    Dataset(
        "csv:FILE",
        "your own, as a table with a header",
        "",
        "your own",
        layouts=("CSV", "TSV"),
        module="table",
    ),
    Dataset(
        "sample",
        "of two and three hops over the sample corpus; 96",
        "",
        "CC0 1.0",
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
    examples = tuple(islice(_open(spec), limit))
    if not examples:
        raise DatasetError(f"dataset {spec!r} holds no questions with answers: name the file that has them.")
    _check_ids(spec, examples)
    return examples


def _open(spec: str) -> Iterator[Example]:
    dataset, path, options = located(spec)
    target = dataset.module or dataset.name
    module, _, read = (target if ":" in target else f"{__name__}.{target}:read").partition(":")
    reader = attrgetter(read)(import_module(module))
    examples: Iterator[Example] = reader(*([path] if path else ()), **options)
    return examples


def located(spec: str) -> tuple[Dataset, Path | None, dict[str, str]]:
    """What ``NAME:FILE[?OPTION=VALUE]`` names: a row of the table, the file, if it takes one, and options.

    Raises:
        UnknownName, DatasetError: as for `read_dataset`.
    """
    named, _, query = spec.partition("?")
    name, _, path = named.partition(":")
    if name not in DATASETS:
        return _extension(spec)
    dataset = DATASETS[name]
    if bool(path) != dataset.takes_path:
        problem = "names no file" if dataset.takes_path else f"takes no file; leave out {path!r}"
        raise DatasetError(f"dataset {spec!r} {problem}: write {dataset.spec}.")
    return dataset, Path(path) if path else None, _options(dataset, spec, query)


def _extension(spec: str) -> tuple[Dataset, Path | None, dict[str, str]]:
    """The same of a plug-in, ``NAME:FILE``, or of ``module:function``: each is a reader, or a row."""
    named, _, query = spec.partition("?")
    name = named.partition(":")[0]
    extension = find_with_place("datasets", named)
    if extension is None:
        known = known_names("datasets", DATASETS)
        place = "(write NAME:FILE)"
        raise UnknownName("dataset", name, known, place=place, remedy=_with_its_name(name))
    found, path = extension
    if not isinstance(found, Dataset):
        spec = f"{name}:FILE" if path else name
        found = Dataset(spec, "", "", "", (), f"{found.__module__}:{found.__qualname__}")
    options = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
    return found, Path(path) if path else None, options


def _with_its_name(file: str) -> str:
    """What to write in place of a file's bare name, or nothing where it is a misspelt dataset."""
    kinds = {".jsonl": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "csv"}
    kind = kinds.get(Path(file).suffix.lower())
    if kind is None:
        return ""
    return f"write {kind}:{file} for questions of your own, or the dataset's name in place of {kind}."


def _options(dataset: Dataset, spec: str, query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in query.split("&") if query else ():
        option, _, value = pair.partition("=")
        if option not in dataset.options:
            raise UnknownName("dataset option", option, dataset.options, place=f"in {spec!r}")
        if not value or option in options:
            raise DatasetError(f"dataset {spec!r}: give {option} one value, such as {option}=….")
        options[option] = value
    return options


def _check_ids(spec: str, examples: tuple[Example, ...]) -> None:
    seen: dict[str, int] = {}
    for number, example in enumerate(examples, start=1):
        id = example.question.id
        if id in seen:
            raise DatasetError(
                f"dataset {spec!r}: questions {seen[id]} and {number} have the same id {id!r}; give each its "
                "own, since results and randomness are kept by id."
            )
        seen[id] = number
