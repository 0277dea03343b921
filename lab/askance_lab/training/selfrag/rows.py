"""Rows of Self-RAG's training data: an instruction, and an output with reflection tokens and passages.

The files have the format of the authors' released data: JSON Lines with the keys "instruction", "output" and,
optionally, "input", "id" and "dataset_name". Rows that were made here also have the keys
"learned" and "topic".

    {"id": "nq_7", "dataset_name": "nq", "instruction": "Where did Greene die?", "input": "",
     "output": "[Retrieval]<paragraph>He died at Vevey.</paragraph>[Relevant]Vevey.[Fully supported]"}
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path
from typing import Literal

from askance.core.errors import InputError
from askance.core.records import Field, read_records
from askance.core.safe_text import json_line
from askance.core.types import Passage, Raw, Span, untrusted
from askance.methods.selfrag.prompts import instruction_prompt
from askance.methods.selfrag.tokens import (
    ALL_TOKENS,
    GROUPS,
    PARAGRAPH_END,
    PARAGRAPH_START,
    RETRIEVAL,
    TOKEN,
    escape_tokens,
)
from askance_lab.training.held_out import is_held_out_unit
from askance_lab.training.reader.training_example import TargetSpan, TrainingExample

_SHAPE = (
    'A row is a JSON object, such as {"instruction": "Where did he die?", "output": "At Vevey.[Utility:5]"}.'
)


Learned = Literal["all", "tokens"]
"""What of an output is learned: its text and its reflection tokens, or only the latter."""


@dataclass(frozen=True, slots=True)
class SelfRagRow:
    """A row of the training data.

    Attributes:
        dataset: The dataset that the row comes from; empty if the file does not say.
        output: The answer with reflection tokens, in which passages stand between paragraph tokens.
        learned: What is learned of the output: "tokens" if its text is wrong or follows from nothing.
        topic: What rows that are held out together have in common, such as the title of a document. Without
            one, rows with the same instruction are held out together.
    """

    id: str
    dataset: str
    instruction: str
    input: str
    output: str
    learned: Learned = "all"
    topic: str = ""


def read_rows(path: Path, limit: int | None = None) -> tuple[SelfRagRow, ...]:
    """Return the rows of a file, at most `limit`.

    Raises:
        InputError: The file can't be read, is empty, or a row is malformed. The message gives the line.
    """
    rows = tuple(islice(read_records(path, _SHAPE, convert=_row), limit))
    if not rows:
        raise InputError(f"{path} has no rows. {_SHAPE}")
    return rows


def _row(record: Field, number: int) -> Iterator[SelfRagRow]:
    yield SelfRagRow(
        id=record.get("id", str(number)).id(),
        dataset=record.get("dataset_name", "").maybe_blank(),
        instruction=record["instruction"].text(),
        input=record.get("input", "").maybe_blank(),
        output=record["output"].maybe_blank(),
        learned=record.get("learned", "all").one_of("all", "tokens"),
        topic=record.get("topic", "").maybe_blank(),
    )


def json_row(row: SelfRagRow) -> str:
    """Return a row as a line of a file."""
    fields = {"id": row.id, "dataset_name": row.dataset, "topic": row.topic, "instruction": row.instruction}
    written = {"input": row.input, "output": row.output, "learned": row.learned}
    return f"{json_line({**fields, **written})}\n"


def is_held_out(row: SelfRagRow, share: float) -> bool:
    """Return whether a row is held out from training, if this share of all rows is."""
    return is_held_out_unit(f"{row.dataset} {row.topic or row.instruction}", share)


def segment(passage: Passage, relevance: str, text: str, support: str = "") -> str:
    """Return a segment of an output: a passage with its relevance, and a text with its support."""
    shown = escaped(f"{passage.title}\n{passage.text}")
    return f"{RETRIEVAL}{PARAGRAPH_START}{shown}{PARAGRAPH_END}{relevance}{escaped(text)}{support}"


def escaped(text: str) -> str:
    """Return a text in which the strings of reflection tokens are data."""
    return escape_tokens(text)[0]


@dataclass(frozen=True, slots=True)
class WrittenSegment:
    """A segment of an output as strings. Tokens that the output lacks are empty."""

    retrieve: str = ""
    passage: Passage | None = None
    relevance: str = ""
    text: str = ""
    support: str = ""


def written_segments(output: str) -> tuple[list[WrittenSegment], str]:
    """Return the segments of an output, and its utility token.

    A segment begins with a retrieve token, or with text after a support token. Tokens in an unknown order are
    taken as they come. An output with a passage without an end has no segments.
    """
    segments, utility = [WrittenSegment()], ""
    pieces = iter(() if parse_output(output).is_cut else TOKEN.split(output))
    for piece in pieces:
        last, text = segments[-1], piece.strip()
        if piece not in ALL_TOKENS:
            if text and last.support:
                segments.append(WrittenSegment(text=text))
            elif text:
                segments[-1] = replace(last, text=f"{last.text} {text}".strip())
        elif piece in GROUPS["retrieve"]:
            segments.append(WrittenSegment(piece))
        elif piece == PARAGRAPH_START:
            inside = list(takewhile(lambda each: each != PARAGRAPH_END, pieces))
            title, _, body = "".join(inside).partition("\n")
            segments[-1] = replace(last, passage=Passage("", title, body) if body else Passage("", "", title))
        elif piece in GROUPS["relevance"]:
            segments[-1] = replace(last, relevance=piece)
        elif piece in GROUPS["support"]:
            segments[-1] = replace(last, support=piece)
        elif piece in GROUPS["utility"]:
            utility = piece
    return [each for each in segments if each != WrittenSegment()], utility


@dataclass(frozen=True, slots=True)
class ParsedOutput:
    """An output as spans with their weights.

    Attributes:
        spans: Reflection tokens as trusted spans, and everything else as untrusted ones. Passages have the
            weight 0.
        tokens: The reflection tokens and paragraph tokens, in order.
        is_cut: Whether a passage has no end. Such an output has no spans, since nothing says where it ends.
    """

    spans: tuple[TargetSpan, ...]
    tokens: tuple[str, ...]
    is_cut: bool = False


def parse_output(output: str, reflection_weight: float = 1.0, learned: Learned = "all") -> ParsedOutput:
    """Parse an output. What stands between a paragraph token and the next end of a paragraph is a passage.

    The loss leaves out passages, but not the tokens around them, as in the authors' code. Reflection tokens
    inside a passage are text: they are escaped as they are when a method shows a passage.

    Args:
        reflection_weight: The weight of each reflection token; text has the weight 1.
        learned: What is learned. With "tokens", text has the weight 0.
    """
    spans, tokens = list[TargetSpan](), list[str]()
    pieces, at = TOKEN.split(output), 0  # text and tokens by turns
    while at < len(pieces):
        piece, is_token = pieces[at], at % 2 == 1
        at += 1
        if not is_token:
            spans += [TargetSpan(untrusted(piece), float(learned == "all"))] if piece else []
            continue
        tokens.append(piece)
        spans.append(TargetSpan(Span(piece), reflection_weight))
        if piece != PARAGRAPH_START:
            continue
        try:
            end = pieces.index(PARAGRAPH_END, at)
        except ValueError:
            return ParsedOutput((), tuple(tokens), is_cut=True)
        passage = "".join(pieces[at:end])
        spans += [TargetSpan(untrusted(escaped(passage)), 0.0)] if passage else []
        at = end
    return ParsedOutput(tuple(spans), tuple(tokens))


def training_example(row: SelfRagRow, parsed: ParsedOutput, name: str) -> TrainingExample:
    """Return the training example of a row.

    Args:
        name: The name of the file's data, for the example's id.
    """
    return TrainingExample(row.dataset or "selfrag", f"{name}/{row.id}", Raw(prompt_of(row)), parsed.spans)


def prompt_of(row: SelfRagRow) -> tuple[Span, ...]:
    """Return the prompt of a row, up to where its output begins."""
    instruction, inputs = ((untrusted(escaped(text)),) for text in (row.instruction, row.input))
    return instruction_prompt(instruction, inputs if row.input.strip() else ())


def drawn_rows(
    rows_by_file: Mapping[str, Sequence[SelfRagRow]], size: int, seed: int
) -> dict[str, list[SelfRagRow]]:
    """Return `size` rows, drawn by the seed from all files, by file. A smaller draw is part of a larger one.

    Raises:
        InputError: There are fewer rows.
    """
    every = [(name, row) for name, rows in rows_by_file.items() for row in rows]
    if size > len(every):
        raise InputError(f"there are {len(every):,} rows, fewer than --size {size:,}: give more rows.")
    random.Random(f"{seed} drawn").shuffle(every)
    drawn: dict[str, list[SelfRagRow]] = {}
    for name, row in every[:size]:
        drawn.setdefault(name, []).append(row)
    return drawn
