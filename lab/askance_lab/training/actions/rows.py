"""Rows of training data for AirRAG's actions: what an action is shown, and the reply to be learned.

A file has one row on each line:

    {"action": "qt", "question": "Where did the composer of Carmen die?",
     "history": [{"question": "Who composed Carmen?", "answer": "Georges Bizet"}],
     "sub_question": "Where did the composer of Carmen die?", "reply": "Where did Georges Bizet die?"}

`history` holds the answered sub-questions. `sub_question` is the next one: RA answers it, and QT transforms
it, if there is one. `passages`, each {"title": "…", "text": "…"}, are shown by RA and SA. The reply of SAY or
QT has one query on each line, or is None.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from askance.core.errors import InputError
from askance.core.ports import Model
from askance.core.records import Field, Flaw, read_records
from askance.core.types import Demo, Hit, Passage, Prompt, Question
from askance.methods.airrag.prompts import MOST_QUERIES, READER, PromptBuilder, parse_final, parse_queries
from askance.methods.airrag.state import DA, QT, RA, SA, SAY
from askance_lab.training.reader.training_example import TrainingExample, reply_example

ACTIONS = (SAY, QT, RA, SA, DA)
NO_QUERY = "None"
"""The reply of SAY or QT that no query is needed."""
_SHOWN = {
    SAY: (),
    QT: ("history", "sub_question"),
    RA: ("sub_question", "passages"),
    SA: ("history", "passages"),
    DA: (),
}
"""The fields of a row that each action's prompt shows beside the question."""
_SHAPE = (
    'A row is a JSON object, such as {"action": "say", "question": "Where did the composer of Carmen die?", '
    '"reply": "Who composed Carmen?\\nWhere did the composer of Carmen die?"}.'
)
_KNOWN = frozenset({"action", "question", "history", "sub_question", "passages", "reply", "id"})


@dataclass(frozen=True, slots=True)
class ActionRow:
    """A call of one action and its reply.

    Attributes:
        id: The name of the dataset or file, and the id of the question.
        kind: What the reply does, such as "rewriting"; counts are reported by kind.
        history: The answered sub-questions with their answers.
        sub_question: The next sub-question; empty if there is none.
    """

    id: str
    action: str
    kind: str
    question: Question
    reply: str
    history: tuple[Demo, ...] = ()
    sub_question: str = ""
    hits: tuple[Hit, ...] = ()

    @property
    def is_none(self) -> bool:
        """Return whether the reply says that no query is needed."""
        return self.action in (SAY, QT) and self.reply == NO_QUERY

    def prompt(self, model: Model) -> Prompt:
        """Return the prompt, as the search writes it for a model that was trained here."""
        builder = PromptBuilder(model, self.question, READER)
        if self.action == RA:
            return builder.ra(self.hits, self.sub_question)
        if self.action == QT:
            return builder.qt(self.history, self.sub_question)
        if self.action == SA:
            return builder.sa(self.history, self.hits)
        return builder.say() if self.action == SAY else builder.da()

    def example(self, model: Model) -> TrainingExample:
        """Return the training example."""
        return reply_example(self.action, self.id, self.prompt(model), self.reply)


def is_well_formed(action: str, reply: str) -> bool:
    """Return whether AirRAG reads a reply completely.

    A reply of SAY or QT is None, or has 1 to `MOST_QUERIES` distinct queries, each on a line of its own, and
    nothing else. The reply of another action has an answer.
    """
    if action not in (SAY, QT):
        return bool(parse_final(reply))
    lines = [line for line in reply.splitlines() if line.strip()]
    queries = parse_queries(reply, len(lines) + MOST_QUERIES)
    if not queries:
        return reply.strip().removesuffix(".") == NO_QUERY
    return len(queries) == len(lines) <= MOST_QUERIES


def read_rows(path: Path, name: str, limit: int | None = None) -> tuple[ActionRow, ...]:
    """Return the rows of a file, at most `limit`.

    Args:
        name: The name with which the id of each row begins; it has no "/".

    Raises:
        InputError: The file can't be read, is empty, or a row is malformed. The message gives the line.
    """
    rows = tuple(islice(read_records(path, _SHAPE, convert=partial(_row, name=name)), limit))
    if not rows:
        raise InputError(f"{path} has no rows. {_SHAPE}")
    return rows


def _row(record: Field, number: int, name: str) -> Iterator[ActionRow]:
    for key in record.object():
        if key not in _KNOWN:
            raise Flaw(f", field {key}: unknown; the fields are {', '.join(sorted(_KNOWN))}")
    action = record["action"].one_of(*ACTIONS)
    for key in ("history", "sub_question", "passages"):
        if record.get(key, None).value and key not in _SHOWN[action]:
            raise record[key].flaw(f"the prompt of {action} does not show it: leave it out")
    history = tuple(
        Demo(pair["question"].text(), pair["answer"].text()) for pair in record.get("history", []).each()
    )
    passages = [
        Passage(f"{rank}", each.get("title", "").maybe_blank(), each["text"].text())
        for rank, each in enumerate(record.get("passages", []).each(), start=1)
    ]
    if action == RA and not passages:
        raise record["passages"].flaw("ra answers from passages, and there are none")
    reply = record["reply"].text().strip()
    if not is_well_formed(action, reply):
        wanted = f"None, or 1 to {MOST_QUERIES} distinct queries, each on its own line"
        raise record["reply"].flaw(f"not {wanted if action in (SAY, QT) else 'an answer'}", found=True)
    asked = record["sub_question"] if action == RA else record.get("sub_question", "")
    yield ActionRow(
        id=f"{name}/{record.get('id', str(number)).id()}",
        action=action,
        kind="none" if action in (SAY, QT) and not parse_queries(reply) else "given",
        question=Question(str(number), record["question"].text()),
        reply=NO_QUERY if action in (SAY, QT) and not parse_queries(reply) else reply,
        history=history,
        sub_question=asked.text() if action == RA else asked.maybe_blank(),
        hits=tuple(Hit(passage, 0.0, rank) for rank, passage in enumerate(passages, start=1)),
    )
