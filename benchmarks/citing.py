"""Measure the precision and recall of citations: how often they name a passage that supports the statement.

    python -m benchmarks.citing FOLDER --out citing.json

FOLDER contains the train files of 2WikiMultihopQA, MuSiQue and HotpotQA, each in a folder of that name. Three
kinds of statements have known gold passages:

- the steps of 2WikiMultihopQA as sentences, such as "The director of X is Y.", among ten paragraphs;
- the sub-questions of MuSiQue with their answers, among twenty paragraphs;
- whole questions with their answers.

Each statement is also tested with the answer to another question of the same kind. No passage supports such a
wrong statement. Precision is the fraction of citations that name a gold passage. Recall is the fraction of
statements whose citation names a gold passage.
"""

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recipes.command_line import parser_of

from askance.core.types import Hit, Passage
from askance.text.support import best_support, claim_of, sentence_support

GAP = "<answer>"
BARE = f"The answer is {GAP}."


@dataclass(frozen=True, slots=True)
class Statement:
    """A question with its true answer, and a sentence with a gap for the answer."""

    kind: str
    question: str
    sentence: str
    answer: str
    passages: tuple[Passage, ...]
    gold: frozenset[str]


def cited(statement: Statement, answer: str) -> Passage | None:
    """Return the passage that askance cites for a statement with this answer."""
    sentence, question, passages = statement.sentence, statement.question, statement.passages
    if sentence == BARE:
        return best_support(claim_of(sentence.replace(GAP, answer), question), passages)[0]
    hits = [Hit(passage, 1.0, rank) for rank, passage in enumerate(passages, start=1)]
    found = sentence_support(sentence.replace(GAP, answer), [(0, hits)], [(0, question)], answer)
    return next((passage for each in found for passage in each.passages), None)


def statements(folder: Path) -> Iterator[Statement]:
    """Yield the statements of the three datasets."""
    for name in ("2wikimultihopqa", "hotpotqa"):
        for item in json.loads((folder / name / "train_subset.json").read_text(encoding="utf-8")):
            yield from _of_titles(name, item)
    for line in (folder / "musique/musique_ans_train_subset.jsonl").read_text(encoding="utf-8").splitlines():
        yield from _of_musique(json.loads(line))


def _of_titles(name: str, item: dict[str, Any]) -> Iterator[Statement]:
    passages = tuple(Passage(str(at), t, "".join(s)) for at, (t, s) in enumerate(item["context"]))
    titles = {title for title, _ in item["supporting_facts"]}
    gold = frozenset(each.id for each in passages if each.title in titles)
    for subject, relation, answer in item.get("evidences", ()):
        about = [each for each in passages if subject.lower() in f"{each.title} {each.text[:200]}".lower()]
        own = gold & {each.id for each in about}
        if own:
            sentence = f"The {relation} of {subject} is {GAP}."
            yield Statement(f"{name}, steps", item["question"], sentence, answer, passages, own)
    if item["answer"] not in ("yes", "no"):
        yield Statement(f"{name}, answers", item["question"], BARE, item["answer"], passages, gold)


def _of_musique(item: dict[str, Any]) -> Iterator[Statement]:
    passages = tuple(Passage(str(p["idx"]), p["title"], p["paragraph_text"]) for p in item["paragraphs"])
    answers = [step["answer"] for step in item["question_decomposition"]]
    for step in item["question_decomposition"]:
        asked = re.sub(r"#(\d)", lambda number: answers[int(number[1]) - 1], step["question"])
        gold = frozenset({str(step["paragraph_support_idx"])})
        yield Statement("musique, steps", asked, BARE, step["answer"], passages, gold)
    yield Statement("musique, answers", item["question"], BARE, item["answer"], passages, gold)


def measured(known: Sequence[Statement]) -> dict[str, float]:
    """Return the precision and the recall of citations, and the fraction of wrong statements with one."""
    draw, num_cited, num_right, num_false = random.Random(0), 0, 0, 0
    for each in known:
        found = cited(each, each.answer)
        num_cited += found is not None
        num_right += found is not None and found.id in each.gold
        others = [other.answer for other in known if other.answer != each.answer]
        num_false += cited(each, draw.choice(others)) is not None
    return {
        "statements": len(known),
        "precision": num_right / max(1, num_cited),
        "recall": num_right / len(known),
        "wrong ones cited": num_false / len(known),
    }


def main() -> None:
    """Print the table as Markdown, and write it as JSON."""
    arguments = parser_of(__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--out", type=Path, required=True)
    given = arguments.parse_args()
    every, rows = list(statements(given.folder)), []
    print("| statements | n | precision | recall | of wrong ones cited |\n|---|---|---|---|---|")
    for kind in dict.fromkeys(each.kind for each in every):
        numbers = measured([each for each in every if each.kind == kind])
        rows.append({"kind": kind, **numbers})
        shown = " | ".join(f"{each:.3f}" for each in list(numbers.values())[1:])
        print(f"| {kind} | {numbers['statements']} | {shown} |", flush=True)
    given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
