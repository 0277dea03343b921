"""Multiple-choice datasets: ARC and PubHealth.

Each function converts a record of the authors' file into examples. The catalogue has files and licences.
"""

from collections.abc import Iterator
from functools import partial

from askance.core.records import Field, read_records, rows_or_table, unique
from askance.core.types import Question
from askance.evaluation.datasets.example import Example, Paragraph, SupportingFacts, whole, with_passages

_LETTERS = dict(zip("12345", "ABCDE", strict=True))
_VERDICTS = {"true": "true", "supports": "true", "false": "false", "refutes": "false"}
_LEFT_OUT = ("", "mixture", "unproven")


def arc(record: Field, number: int) -> Iterator[Example]:
    """Yield the question in a record of ARC: a science exam question with three to five choices.

    Clark et al. 2018, "Think you have Solved Question Answering? Try ARC, the AI2 Reasoning Challenge" (arXiv
    1803.05457). The file is JSON Lines, for example ``ARC-Challenge-Test.jsonl``.

        {"id": "M_7", "question": {"stem": "Which is a metal?", "choices": [
            {"text": "iron", "label": "A"}, {"text": "wood", "label": "B"}]}, "answerKey": "A"}

    becomes a choice between "A: iron" and "B: wood". An option consists of a letter, a colon, a space and a
    text. The labels 1 to 5 become the letters A to E. There are two gold answers: the whole option, "A:
    iron", and only its text, "iron". The letter alone is not a gold answer, because almost every text
    contains it. The metric `choice_accuracy` still accepts an answer that is only the letter.

    The layout of the Hugging Face hub, which the Self-RAG authors use, is also accepted: `question` is the
    stem, and `choices` is {"text": ["iron", "wood"], "label": ["A", "B"]}.
    """
    columns = record.get("choices", [])
    if isinstance(columns.value, dict):
        stem, texts, labels = record["question"], columns["text"].each(), columns["label"].each()
        if len(texts) != len(labels):
            raise record.flaw("choices have no texts and labels, one of each for an option")
    else:
        stem, choices = record["question"]["stem"], record["question"]["choices"].filled()
        texts, labels = [each["text"] for each in choices], [each["label"] for each in choices]
    options = {_letter(label): text.text().strip() for text, label in zip(texts, labels, strict=True)}
    letters, key = ", ".join(map(_letter, labels)), _letter(record["answerKey"])
    if len(labels) < 2:
        raise record.flaw("has fewer than two choices")
    if len(options) < len(labels):
        raise record.flaw(f"two choices have the same label ({letters})")
    if key not in options:
        raise record.flaw(f"the answer key {key} is the label of no choice ({letters})")
    shown = tuple(f"{letter}: {text}" for letter, text in options.items())
    question = Question(record["id"].id(), stem.text(), task="choice", options=shown)
    yield Example(question, unique((f"{key}: {options[key]}", options[key])))


def _letter(label: Field) -> str:
    written = label.maybe_blank().strip()
    letter = _LETTERS.get(written, written)
    if letter not in _LETTERS.values():
        raise label.flaw("is no label of ARC: A to E, or 1 to 5", found=True)
    return letter


def pubhealth(record: Field, number: int) -> Iterator[Example]:
    """Yield the question in a record of PubHealth: a claim about health that is true or false.

    Kotonya and Toni 2020, "Explainable Automated Fact-Checking for Public Health Claims" (arXiv 2010.09926).
    Two file formats are accepted: the authors' table, such as ``test.tsv`` with 1,235 claims, and JSON Lines
    as the Self-RAG authors publish them, for example ``health_claims_processed.jsonl`` with the 987 claims
    that are true or false.

        claim_id    claim                      main_text                          label    …
        14          Beetroot cures the flu.    No study has found such effects.   false    …

        {"claim": "Beetroot cures the flu.", "label": "REFUTES"}

    both become a choice between "true" and "false" with the gold answer "false". The claim is the question.
    SUPPORTS and REFUTES, the labels of FEVER, mean true and false. Claims labelled as a mixture or unproven,
    and claims without a label, are left out. If a claim has no `claim_id` or `id`, its id is its position in
    the file, from 1. The only paragraph is `main_text`, the article that checks the claim. The whole article,
    which may be long, counts as evidence.
    """
    claim, id = record.first("claim", "question").text(), record.first("claim_id", "id")
    text = record.get("main_text", "").maybe_blank()
    label = _label(record.first("label", "answers", "output"))
    if label not in _LEFT_OUT:
        question = Question(
            id.id() if id.is_given else str(number), claim, task="choice", options=("true", "false")
        )
        supporting_facts = SupportingFacts((Paragraph("", text, whole(text)),) if text.strip() else ())
        yield Example(question, (_VERDICTS[label],), supporting_facts=supporting_facts)


def _label(given: Field) -> str:
    """Return the label in lower case. The Self-RAG authors sometimes write it as a list of one label."""
    is_list_of_one = isinstance(given.value, list) and len(given.value) == 1
    only = given[0] if is_list_of_one else given
    label = (str(only.value) if isinstance(only.value, bool) else only.maybe_blank()).strip().lower()
    if label not in (*_VERDICTS, *_LEFT_OUT):
        raise given.flaw(
            "is no label of PubHealth: true, false, mixture, unproven, SUPPORTS or REFUTES", found=True
        )
    return label


read_pubhealth = partial(read_records, convert=with_passages(pubhealth), rows_of=rows_or_table)
read_arc = partial(read_records, convert=with_passages(arc))
