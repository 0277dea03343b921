"""Each dataset on a small file in its official layout and in FlashRAG's, written for these tests: the number
of examples, and the first and the last one exactly. `test_supporting_facts` checks their supporting facts.
"""

import dataclasses
import re
from pathlib import Path

import pytest

from askance.configuration.catalogue import DATASETS
from askance.configuration.evaluation import read_dataset
from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import SupportingFacts

FILES = Path(__file__).parent / "files"
AUTHOR = "Which river surrounds the birthplace of the author of Buddenbrooks?"
GALILEO = "Which river flows through Galileo's birthplace?"
COMPOSER = "Where was the composer of Fidelio born?"
MOON = Question("s1", "Can the Moon be seen from Bonn?", task="yes_no")
HARP = "Would a harp fit into a matchbox?"
NOVELS = "Which novel has the older author, Buddenbrooks or Professor Unrat?"
BONN = "Which river flows through Bonn?"
CLARA = Question("Clara Schumann", "Write a short biography of Clara Schumann.", genre="biography")
ELLY = Question("Elly Ney", "Write a short biography of Elly Ney.", genre="biography")
TOSCA = Example(
    Question("6", "Who wrote Tosca?", genre="ambiguous"),
    ("Puccini wrote it.",),
    answer_groups=(("Puccini",),),
)


def claim(id, text):
    return Question(id, text, task="choice", options=("true", "false"))


PINNED = {
    "hotpotqa:hotpotqa.json": (
        3,
        Example(Question("5a01", AUTHOR), ("Trave",), ("Thomas Mann", "Lübeck"), "bridge", 2),
        Example(
            Question("5a03", "Who was born first, Thomas Mann or Heinrich Mann?"),
            ("Heinrich Mann",),
            ("Thomas Mann", "Heinrich Mann"),
            "comparison",
            2,
        ),
    ),
    "2wikimultihopqa:2wikimultihopqa.json": (
        3,
        Example(
            Question("9b01", AUTHOR), ("Trave", "River Trave"), ("Thomas Mann", "Lübeck"), "compositional", 2
        ),
        Example(
            Question("9b03", NOVELS),
            ("Professor Unrat", "Small Town Tyrant"),
            ("Buddenbrooks", "Professor Unrat", "Thomas Mann", "Heinrich Mann"),
            "bridge_comparison",
            4,
        ),
    ),
    "musique:musique.jsonl": (
        3,
        Example(Question("2hop__12_34", GALILEO), ("Arno", "River Arno"), ("Galileo", "Pisa"), "2hop", 2),
        Example(
            Question("2hop__78_90", COMPOSER), ("Bonn", "city of Bonn"), ("Fidelio", "Beethoven"), "2hop", 2
        ),
    ),
    "strategyqa:strategyqa.json": (
        3,
        Example(MOON, ("yes",)),
        Example(Question("s3", HARP, task="yes_no"), ("no",)),
    ),
    "iirc:iirc.json": (
        3,
        Example(
            Question("q_1", "Which rivers surround his birthplace?"),
            ("Trave", "Wakenitz"),
            ("Thomas Mann", "lübeck"),
            "span",
            2,
        ),
        Example(Question("2-2", "Was its composer born in Bonn?"), ("yes",), ("beethoven",), "binary", 1),
    ),
    "nq:nq.jsonl": (
        3,
        Example(Question("1", "where does the trave meet the sea"), ("Travemünde", "at Travemünde")),
        Example(Question("3", "when was bonn the capital"), ("1949 to 1990",)),
    ),
    "triviaqa:triviaqa.json": (
        3,
        Example(
            Question("tc_7", "Which novelist was born in Lübeck in 1875?"), ("Thomas Mann", "Mann, Thomas")
        ),
        Example(Question("tc_9", "Who wrote only one opera, Fidelio?"), ("Beethoven",)),
    ),
    "popqa:popqa.tsv": (
        3,
        Example(
            Question("12", "In what country is Lübeck?"), ("Germany", "FR Germany"), kind="country", hops=1
        ),
        Example(
            Question("20", 'Who was the composer of "Aida"?'), ("Giuseppe Verdi",), kind="composer", hops=1
        ),
    ),
    "squad2:squad2.json": (
        2,
        Example(
            Question("5f1", "Who founded the cathedral?"),
            ("Henry", "Henry the Lion"),
            ("Luebeck Cathedral",),
            "answerable",
            1,
        ),
        Example(Question("5f3", "Who wrote Fidelio?"), ("Beethoven",), ("Fidelio",), "answerable", 1),
    ),
    "squad2:squad2.json?unanswerable=keep": (
        4,
        Example(
            Question("5f1", "Who founded the cathedral?"),
            ("Henry", "Henry the Lion"),
            ("Luebeck Cathedral",),
            "answerable",
            1,
        ),
        Example(
            Question("5f4", "In which year did Fidelio triumph?"),
            ("noanswer",),
            ("Fidelio",),
            "unanswerable",
            1,
        ),
    ),
    "pubhealth:pubhealth.jsonl": (
        3,
        Example(claim("1", "Beetroot cures the flu."), ("false",)),
        Example(claim("4", "Washed hands spread fewer germs."), ("true",)),
    ),
    "pubhealth:pubhealth.tsv": (
        2,
        Example(claim("14", "Beetroot cures the flu."), ("false",)),
        Example(claim("16", "Measles can be passed on by coughing."), ("true",)),
    ),
    "arc:arc.jsonl": (
        3,
        Example(
            Question(
                "M_7",
                "Which of these is a metal?",
                task="choice",
                options=("A: iron", "B: wood", "C: glass"),
            ),
            ("A: iron", "iron"),
        ),
        Example(
            Question(
                "M_9",
                "What do plants breathe in?",
                task="choice",
                options=("A: sand", "B: light", "C: gold", "D: salt", "E: carbon dioxide"),
            ),
            ("E: carbon dioxide", "carbon dioxide"),
        ),
    ),
    "asqa:asqa.json": (
        2,
        Example(
            Question("-3", "When was the bridge of Bonn opened?", genre="ambiguous"),
            (
                "The old bridge was opened in 1898, the new one in 1949.",
                "Bonn's first bridge opened in 1898.",
            ),
            ("Kennedy Bridge",),
            answer_groups=(("1898",), ("12 November 1949", "1949")),
        ),
        Example(
            Question("-4", "Who wrote Fidelio?", genre="ambiguous"),
            ("Beethoven", "Sonnleithner"),
            answer_groups=(("Beethoven",), ("Sonnleithner", "Beethoven")),
        ),
    ),
    "asqa:asqa_splits.json": (1, TOSCA, TOSCA),
    "biographies:biographies.txt": (
        2,
        Example(CLARA, (), ("Clara Schumann",)),
        Example(ELLY, (), ("Elly Ney",)),
    ),
    "biographies:biographies.jsonl": (
        2,
        Example(
            Question("Clara Schumann", "Tell me of Clara Schumann.", genre="biography"),
            (),
            ("Clara Schumann",),
            "rare, Europe",
        ),
        Example(ELLY, (), ("Elly Ney",), "very rare"),
    ),
    "jsonl:own.jsonl": (
        3,
        Example(Question("1", BONN), ("Rhine", "the Rhine"), ("Bonn",), hops=1),
        Example(
            Question("c", "Which of these is a river?", task="choice", options=("Arno", "Pisa")),
            ("Arno",),
            kind="easy",
        ),
    ),
    "csv:own.csv": (
        3,
        Example(Question("1", BONN), ("Rhine", "the Rhine"), ("Bonn", "Rhine"), hops=1),
        Example(
            Question(
                "c", "Which of these, if any, is\na river?", task="choice", options=("Arno | Pisa", "none")
            ),
            ("Arno | Pisa",),
            kind="easy",
        ),
    ),
    "csv:own.tsv": (
        3,
        Example(
            Question("1", "Who wrote \"Fidelio\", 'Egmont' | both?"), ("Beethoven | nobody else",), hops=2
        ),
        Example(Question("3", "Who?"), ("[sic] Ada",)),
    ),
    "hotpotqa:flashrag_hotpotqa.jsonl": (
        3,
        Example(Question("dev_0", AUTHOR), ("Trave",), ("Thomas Mann", "Lübeck"), "bridge", 2),
        Example(Question("dev_2", "Who was born first, Thomas Mann or Heinrich Mann?"), ("Heinrich Mann",)),
    ),
    "musique:flashrag_musique.jsonl": (
        3,
        Example(Question("dev_0", GALILEO), ("Arno", "River Arno"), ("Galileo", "Pisa"), "", 2),
        Example(Question("dev_2", COMPOSER), ("Bonn",)),
    ),
    "strategyqa:flashrag_strategyqa.jsonl": (
        3,
        Example(Question("train_0", MOON.text, task="yes_no"), ("yes",)),
        Example(Question("train_2", HARP, task="yes_no"), ("no",)),
    ),
    "popqa:flashrag_popqa.jsonl": (
        3,
        Example(Question("test_0", "In what country is Lübeck?"), ("Germany", "FR Germany"), kind="country"),
        Example(Question("test_2", "Who was the composer of Aida?"), ("Giuseppe Verdi",)),
    ),
}


def read(spec):
    return read_dataset(re.sub(r":(?=\w)", f":{FILES}/", spec, count=1))


@pytest.mark.parametrize("spec", PINNED)
def test_count_first_and_last(spec):
    count, first, last = PINNED[spec]
    examples = read(spec)
    assert len(examples) == count
    assert dataclasses.replace(examples[0], supporting_facts=SupportingFacts()) == first
    assert dataclasses.replace(examples[-1], supporting_facts=SupportingFacts()) == last


def test_only_biographies_have_no_golds():
    for spec in PINNED:
        has_golds = {bool(example.golds) for example in read(spec)}
        assert has_golds == {not spec.startswith("biographies:")}


def test_every_dataset_with_files_is_pinned():
    assert {spec.partition(":")[0] for spec in PINNED} == {
        name for name, dataset in DATASETS.items() if dataset.takes_path
    }


@pytest.mark.parametrize("name", [name for name, row in DATASETS.items() if "FlashRAG" in row.layouts])
def test_every_official_dataset_takes_flashrags_layout(name):
    task = "yes_no" if name == "strategyqa" else "open"
    examples = read(f"{name}:flashrag_{'strategyqa' if task == 'yes_no' else 'musique'}.jsonl")
    assert [example.question.task for example in examples] == [task] * 3
