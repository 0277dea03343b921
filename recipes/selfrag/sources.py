"""Put the sources of Self-RAG's training data together: instructions with answers, for `askance annotate`.

python -m recipes.selfrag.sources --source nq=nq-train-kilt.jsonl --source asqa=ASQA.json --out answers.jsonl

The authors took 145,619 rows from eleven sources (Asai et al. 2024, appendix). Each source is a file as it is
published; those that are not named are left out. Five are collections of conversations, of which only those
with one question and one answer in English are taken.
"""

import random
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_uppercase

from studies.shared import markdown, parser_of

from askance.core.errors import InputError
from askance.core.records import Field, read_records
from askance.methods.selfrag.prompts import OWN_INSTRUCTIONS, SEPARATOR
from askance.retrieval.bm25_analysis import STOP_WORDS
from askance.storage.durable_files import write_atomically
from askance_lab.training.selfrag.rows import SelfRagRow, json_row

MAX_WORDS = 500
"""The greatest number of words of a question, and of an answer."""
NUM_OPTIONS = 4
"""The number of options of a question that is taken."""
MIN_STOP_WORDS = 0.1
"""The least share of English stop words in a text of ten words or more that counts as English."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source of instructions with answers.

    Attributes:
        format: The name of the reader in `READERS`.
        instruction: The name of the task instruction that precedes the question; empty for none.
        answers: Answers to take, and what they become; empty to take all as they are.
    """

    rows: int
    format: str
    instruction: str = ""
    answers: Mapping[str, str] = field(default_factory=dict)


SOURCES: Mapping[str, Source] = {
    name: Source(**values)
    for name, values in tomllib.loads(
        Path(__file__).with_name("sources.toml").read_text(encoding="utf-8")
    ).items()
}
Pair = tuple[str, str, str]
"""An id, a question and an answer."""


def read_source(name: str, path: Path, seed: int = 0) -> tuple[tuple[SelfRagRow, ...], Counter[str]]:
    """Return rows drawn from a source, and the number of records that were left out, by the reason.

    Raises:
        InputError: The file can't be read, or a record is malformed. The message gives the line.
    """
    source, left_out, rows = SOURCES[name], Counter[str](), dict[str, SelfRagRow]()
    instruction = getattr(OWN_INSTRUCTIONS, source.instruction) if source.instruction else ""
    shape = f"Give the file of {name} as it is published."

    for found in read_records(path, shape, convert=READERS[source.format]):
        if isinstance(found, str):
            left_out[found] += 1
            continue
        id, question, answer = found
        reason = _unusable(found, source) or ("the same id again" if f"{name}_{id}" in rows else "")
        if reason:
            left_out[reason] += 1
            continue
        before = f"{instruction}{SEPARATOR}" if instruction else ""
        row = SelfRagRow(
            f"{name}_{id}",
            name,
            f"{before}{question.strip()}",
            "",
            source.answers.get(answer, answer).strip(),
        )
        rows[row.id] = row
    drawn = random.Random(f"{seed} {name}").sample(list(rows.values()), min(source.rows, len(rows)))
    return tuple(drawn), left_out


def _unusable(pair: Pair, source: Source) -> str:
    """Return the reason why a pair is left out, or an empty string."""
    _, question, answer = pair
    if not question.strip() or not answer.strip():
        return "no question or no answer"
    if source.answers and answer not in source.answers:
        return f"an answer other than {' or '.join(source.answers)}"
    if max(len(question.split()), len(answer.split())) > MAX_WORDS:
        return f"more than {MAX_WORDS} words"
    if source.format == "messages" and not (is_english(question) and is_english(answer)):
        return "not English"
    return ""


def is_english(text: str) -> bool:
    """Return whether a text seems to be English, by its share of stop words. Short texts always do."""
    words = text.lower().split()
    return len(words) < 10 or sum(word in STOP_WORDS for word in words) / len(words) >= MIN_STOP_WORDS


def _messages(record: Field, number: int) -> Iterator[Pair | str]:
    """Read a conversation in the format of Open-Instruct."""
    turns = [(turn["role"].text(), turn["content"].maybe_blank()) for turn in record["messages"].filled()]
    turns = [turn for turn in turns if turn[0] != "system"]
    if [role for role, _ in turns] != ["user", "assistant"]:
        yield "not one question and one answer"
    else:
        yield record.get("id", number).id(), turns[0][1], turns[1][1]


def _kilt(record: Field, number: int) -> Iterator[Pair | str]:
    """Read a question in the format of KILT, with its first answer."""
    answers = (each["answer"].text() for each in record["output"].each() if each["answer"].is_given)
    yield record.get("id", number).id(), record["input"].text(), next(answers, "")


def _choices(record: Field, number: int) -> Iterator[Pair | str]:
    """Read a question in the format of ARC and OpenBookQA. The options 1 to 4 become A to D."""
    question = record["question"]
    options = question["choices"].each()
    labels = [option["label"].id() for option in options]
    if len(options) != NUM_OPTIONS or record["answerKey"].id() not in labels:
        yield f"not {NUM_OPTIONS} options with one answer"
        return
    letters = ascii_uppercase[:NUM_OPTIONS]
    lines = (f"{letter}: {option['text'].text()}" for letter, option in zip(letters, options, strict=True))
    answer = letters[labels.index(record["answerKey"].id())]
    yield record.get("id", number).id(), "\n".join((question["stem"].text(), *lines)), answer


def _asqa(record: Field, number: int) -> Iterator[Pair | str]:
    """Read all training questions of ASQA, each with its first long answer."""
    for id in record["train"].object():
        each = record["train"][id]
        yield id, each["ambiguous_question"].text(), each["annotations"].filled()[0]["long_answer"].text()


READERS: Mapping[str, Callable[[Field, int], Iterator[Pair | str]]] = {
    "messages": _messages,
    "kilt": _kilt,
    "choices": _choices,
    "asqa": _asqa,
}


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--source", action="append", default=[], help=f"NAME=FILE: {', '.join(SOURCES)}")
    parser.add_argument("--out", type=Path, required=True, help="the file to write")
    options = parser.parse_args(arguments)
    rows, table = list[SelfRagRow](), list[tuple[str, ...]]()
    for given in options.source:
        name, _, path = given.partition("=")
        if name not in SOURCES or not path:
            raise InputError(f"--source {given}: write NAME=FILE, with one of {', '.join(SOURCES)}.")
        drawn, left_out = read_source(name, Path(path))
        rows += drawn
        reasons = ", ".join(f"{reason} {count:,}" for reason, count in left_out.items())
        table.append((name, f"{len(drawn):,}", f"{SOURCES[name].rows:,}", reasons))
    write_atomically(options.out, "".join(map(json_row, rows)))
    print(markdown(("source", "rows", "the authors' rows", "left out"), table))


if __name__ == "__main__":
    main()
