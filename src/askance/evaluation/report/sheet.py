"""A sheet on which people judge the answers of a run, and the shares and the agreement of filled sheets.

The questions are those of the human evaluation of Self-RAG (Asai et al. 2024, figure 4 d): is an answer
plausible, and supported by its passages, and are the model's relevance and support tokens right? The
agreement of two people is Cohen's kappa (Cohen 1960).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from askance.core.answers import Answer
from askance.core.errors import DatasetError, RunFolderError
from askance.core.records import Field, read_records, table_rows
from askance.core.trace import AnyEvent, Expanded
from askance.evaluation.judging.judge_run import answer_hash
from askance.evaluation.report.writers import csv_text
from askance.evaluation.run.recorded_run import RecordedRun, last_answer
from askance.evaluation.statistics.compare import MeanInterval, mean_interval
from askance.text.support import cited_passages, marked

ASKED = ("plausible", "supported", "relevance_right", "support_right")
"""The columns that people fill with yes or no, or leave empty."""
BOTH = "plausible_and_supported"
Verdicts = Mapping[str, Mapping[str, bool]]
"""The verdicts by question and column, and `BOTH` where both columns are filled."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""The first characters of cells that spreadsheets may run as formulas."""


def sheet(run: RecordedRun) -> str:
    """Return a CSV table with a row for each answer of a run, and empty columns for the verdicts.

    An apostrophe precedes a cell that a spreadsheet could take for a formula.

    Raises:
        RunFolderError: The run has no finished question.
    """
    if not run.records:
        raise RunFolderError(f"the run {run.folder} has no finished question yet: nothing to judge.")
    rows = []
    for record in run.records:
        events = run.trace(record)
        answer = last_answer(events) or Answer("")
        passages = enumerate(cited_passages(answer), start=1)
        cells = {
            "id": record.id,
            "answer_hash": _short_hash(record.text),
            "question": record.question,
            "answer": marked(answer),
            "passages": "\n\n".join(f"[{number}] {each.titled_text}" for number, each in passages),
            "relevance": _tokens("relevance", answer, events),
            "support": _tokens("support", answer, events),
        }
        rows.append({name: _safe(cell) for name, cell in cells.items()} | dict.fromkeys(ASKED, ""))
    return csv_text(rows)


def _tokens(group: str, answer: Answer, events: Sequence[AnyEvent]) -> str:
    """Return the likeliest token of Self-RAG's judgement about each cited passage, after its number.

    A passage with which several segments were written has the different tokens of all of them.
    """
    found = {each.id: list[str]() for each in cited_passages(answer)}
    steps = (each for each in events if isinstance(each, Expanded) and not each.rejected)
    for each in steps:
        probs = each.distributions.get(group)
        tokens = found.get(each.passage.passage.id if each.passage else "")
        if probs and tokens is not None and each.text.strip() and each.text in answer.text:
            tokens.append(max(probs, key=probs.__getitem__))
    numbered = enumerate(found.values(), start=1)
    return "\n".join(f"[{number}] {', '.join(dict.fromkeys(each))}" for number, each in numbered if each)


def _short_hash(answer: str) -> str:
    """Return the hash of an answer. It begins with a letter, because spreadsheets rewrite numbers."""
    return f"h{answer_hash(answer)[:15]}"


def _safe(cell: str) -> str:
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def read_sheet(path: Path, run: RecordedRun) -> Verdicts:
    """Return the verdicts of a filled sheet.

    Raises:
        DatasetError: The file can't be read, a verdict is neither yes nor no, a row is not of the run or is
            there twice, or nothing is filled. The message names the line.
    """
    answers = {_safe(record.id): _short_hash(record.text) for record in run.records}
    verdicts = dict[str, dict[str, bool]]()

    def verdict(row: Field, number: int) -> Iterator[str]:
        id = row["id"].id()
        if id in verdicts or answers.get(id) != row["answer_hash"].id():
            raise row["id"].flaw("twice, or not an answer of the run", found=True)
        texts = {name: Field(row[name].maybe_blank().strip().lower(), name) for name in ASKED}
        given = {name: each.one_of("yes", "no", "") for name, each in texts.items()}
        verdicts[id] = {name: text == "yes" for name, text in given.items() if text}
        if {"plausible", "supported"} <= verdicts[id].keys():
            verdicts[id][BOTH] = verdicts[id]["plausible"] and verdicts[id]["supported"]
        yield id

    shape = f"A row has the columns id and answer_hash as exported, and yes or no in {', '.join(ASKED)}."
    list(read_records(path, shape, convert=verdict, rows_of=table_rows))
    if not any(verdicts.values()):
        raise DatasetError(f"{path} has no verdict: write yes or no in the columns {', '.join(ASKED)}.")
    return verdicts


def shares(verdicts: Verdicts) -> dict[str, MeanInterval]:
    """Return the share of yes of each column with its 95 % interval, over the rows that are filled."""
    columns = {name: [each[name] for each in verdicts.values() if name in each] for name in (*ASKED, BOTH)}
    return {name: mean_interval([float(each) for each in given]) for name, given in columns.items() if given}


def kappas(first: Verdicts, second: Verdicts) -> dict[str, tuple[float, int]]:
    """Return Cohen's kappa of two people for each column, and the number of answers that both judged.

    Kappa is not a number where both gave all answers the same verdict, because agreement by chance is then
    certain.
    """
    found = dict[str, tuple[float, int]]()
    for name in (*ASKED, BOTH):
        pairs = [
            (first[id][name], second[id][name])
            for id in first.keys() & second
            if name in first[id] and name in second[id]
        ]
        if pairs:
            agreed = sum(one == other for one, other in pairs) / len(pairs)
            ones, others = (sum(each) / len(pairs) for each in zip(*pairs, strict=True))
            chance = ones * others + (1 - ones) * (1 - others)
            kappa = (agreed - chance) / (1 - chance) if chance < 1 else float("nan")
            found[name] = kappa, len(pairs)
    return found
