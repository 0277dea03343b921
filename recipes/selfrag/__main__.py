"""Train a Self-RAG model from gold supervision, and measure its reflection tokens on articles not seen.

python -m recipes.selfrag --squad2 FILE --train 2wikimultihopqa:FILE --out FOLDER

Four articles of SQuAD 2.0 are held out. The model in FOLDER/selfrag learns from all others and from the
training files. The command resumes after an interruption, and exits with 1 if it misses a condition of the
gate.
"""

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from studies.shared import GateRow, check_gate, markdown, parser_of, read_datasets, settings_of, show_step

from askance.configuration.evaluation import read_dataset
from askance.core.ports import Model
from askance.core.types import Hit, Span, untrusted
from askance.evaluation.datasets import Example
from askance.methods.selfrag.prompts import instruction_prompt
from askance.methods.selfrag.scoring import passage_spans
from askance.methods.selfrag.tokens import (
    FULLY_SUPPORTED,
    IRRELEVANT,
    NO_RETRIEVAL,
    NO_SUPPORT,
    RELEVANT,
    RETRIEVAL,
    Group,
    escape_hit,
)
from askance.models.hf.load import load_hf
from askance_lab.training.reader.train_reader import load_base
from askance_lab.training.relevance.pairs import indexed_paragraphs
from askance_lab.training.selfrag.acceptance import TokenCase, distributions
from askance_lab.training.selfrag.gold_rows import gold_rows, holds_answer, overlap
from askance_lab.training.selfrag.group_results import COLUMNS, GroupResult, group_results, results_table
from askance_lab.training.selfrag.rows import escaped
from askance_lab.training.selfrag.settings import SelfRagSettings
from askance_lab.training.selfrag.train_selfrag import train_selfrag
from recipes.relevance import NUM_FIRST, split

GATE: Mapping[Group, float] = {"relevance": 0.80, "support": 0.70, "retrieve": 0.90}
"""The least area under the ROC curve of each group's score."""


def cases(asked: Sequence[Example], corpus: Sequence[Example], *, seed: int = 0) -> Iterator[TokenCase]:
    """Yield the cases of all questions that a paragraph answers.

    Relevance is asked for BM25's first passages among all paragraphs of the corpus, support for the right
    answer and for the answer to another question about the same article, and retrieval with and without the
    passage in the question.
    """
    rng, answers = random.Random(seed), defaultdict[str, list[str]](list)
    for example in asked:
        answers[example.supporting_titles[0]].append(example.golds[0])
    with indexed_paragraphs(corpus) as pool:
        for example in asked:
            question, relevant = example.question.text, pool.relevant_passages(example)
            prompt = instruction_prompt((untrusted(escaped(question)),))
            known = {passage.id for passage in relevant}
            for hit in pool.search(question)[:NUM_FIRST]:
                label = RELEVANT if hit.passage.id in known else IRRELEVANT
                yield TokenCase("relevance", label, prompt, _retrieved(hit), hit.score)
            gold = example.golds[0]
            passage = next((each for each in relevant if holds_answer(each, gold)), None)
            if passage is None:
                continue
            shown = (*_retrieved(Hit(passage, 0.0, 1)), Span(RELEVANT))
            others = [
                one
                for one in answers[example.supporting_titles[0]]
                if not any(overlap(one, each) for each in example.golds)
            ]
            wrong = [(rng.choice(others), NO_SUPPORT)] if others else []
            for answer, label in ((gold, FULLY_SUPPORTED), *wrong):
                yield TokenCase("support", label, prompt, (*shown, untrusted(escaped(answer))))
            yield TokenCase("retrieve", RETRIEVAL, prompt)
            inside = escaped(f"{passage.titled_text}\n\n{question}")
            yield TokenCase("retrieve", NO_RETRIEVAL, instruction_prompt((untrusted(inside),)))


def measure(model: Model, all_cases: Sequence[TokenCase]) -> dict[Group, GroupResult]:
    """Return the results of a model on the cases, by group. The most frequent label is that of the cases."""
    labels = [(case.group, case.label) for case in all_cases]
    found = asyncio.run(distributions(model, all_cases))
    return group_results(
        labels, found, Counter(label for _, label in labels), [each.bm25 for each in all_cases]
    )


def _retrieved(hit: Hit) -> tuple[Span, ...]:
    return (Span(RETRIEVAL), *passage_spans(escape_hit(hit)[0]))


def main(arguments: list[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--squad2", type=Path, required=True, help="SQuAD 2.0 in the authors' format")
    parser.add_argument("--train", action="append", default=[], help="a dataset to learn from, as NAME:FILE")
    parser.add_argument("--model", default="bundled:base", help="the model to start from")
    parser.add_argument("--set", action="append", default=[], help="a hyperparameter, as parameter=value")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the recipe")
    options = parser.parse_args(arguments)
    settings, folder = settings_of(SelfRagSettings, options.set), options.out / "selfrag"
    corpus = read_dataset(f"squad2:{options.squad2}?unanswerable=keep")
    learned, asked = split(corpus, options.squad2)
    if not folder.exists():
        options.out.mkdir(parents=True, exist_ok=True)
        examples = {**read_datasets(options.train), "articles of squad2": tuple(learned)}
        rows = [row for name, each in examples.items() for row in gold_rows(name, each, settings)]
        random.Random(settings.seed).shuffle(rows)
        train_selfrag({"gold": rows}, load_base(options.model), settings, folder, show_step)
    precision = "bfloat16" if settings.precision == "bfloat16" else "float32"
    found = measure(load_hf(str(folder), dtype=precision), list(cases(asked, corpus)))
    print(markdown(COLUMNS, results_table(found)))
    areas = {group: found[group].area.area for group in GATE}
    check_gate(
        GateRow(f"AUC of {group} at least {least:.2f}", f"{areas[group]:.3f}", areas[group] >= least)
        for group, least in GATE.items()
    )


if __name__ == "__main__":
    main()
