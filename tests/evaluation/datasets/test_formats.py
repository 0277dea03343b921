"""Each dataset in its official format, with facts of our own."""

import json

import pytest

from askance.configuration.evaluation import read_dataset
from askance.core.errors import DatasetError
from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import Paragraph, ReasoningStep, SupportingFacts

HOTPOT = {
    "_id": "5a",
    "answer": "Trave",
    "question": "Which river surrounds the birthplace of the author of Buddenbrooks?",
    "supporting_facts": [["Thomas Mann", 0], ["Lübeck", 2], ["Thomas Mann", 3]],
    "context": [
        ["Thomas Mann", ["He was born in Lübeck."]],
        ["Lübeck", ["A city.", "Old.", "On the Trave."]],
    ],
    "type": "bridge",
    "level": "hard",
}
TWO_WIKI = HOTPOT | {
    "_id": "9b",
    "type": "compositional",
    "entity_ids": "Q1_Q2",
    "evidences": [["Thomas Mann", "place of birth", "Lübeck"]],
    "evidences_id": [],
    "answer_id": "Q4",
}
MUSIQUE = {
    "id": "3hop1__12_34_56",
    "paragraphs": [
        {"idx": 0, "title": "Pisa", "paragraph_text": "Pisa lies on the Arno.", "is_supporting": True},
        {"idx": 1, "title": "Padua", "paragraph_text": "Padua has a chapel.", "is_supporting": False},
        {"idx": 2, "title": "Callisto", "paragraph_text": "Galileo saw it.", "is_supporting": True},
    ],
    "question": "Which river flows through the birthplace of Callisto's discoverer?",
    "question_decomposition": [
        {"id": 12, "question": "Who discovered Callisto?", "answer": "Galileo", "paragraph_support_idx": 2},
        {"id": 34, "question": "Where was #1 born?", "answer": "Pisa", "paragraph_support_idx": 2},
        {"id": 56, "question": "Which river flows through #2?", "answer": "Arno", "paragraph_support_idx": 0},
    ],
    "answer": "Arno",
    "answer_aliases": ["River Arno", "Arno"],
    "answerable": True,
}
STRATEGY = [
    {"qid": "s1", "question": "Can the Moon be seen from Bonn?", "answer": True, "facts": ["It shines."]},
    {"qid": "s2", "question": "Did Galileo fly?", "answer": False, "decomposition": ["When did he live?"]},
]


def write(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_hotpotqa(tmp_path):
    path = write(tmp_path / "dev.json", [HOTPOT])
    assert read_dataset(f"hotpotqa:{path}") == (
        Example(
            Question("5a", HOTPOT["question"]),
            ("Trave",),
            ("Thomas Mann", "Lübeck"),
            kind="bridge",
            hops=2,
            supporting_facts=SupportingFacts(
                (
                    Paragraph("Thomas Mann", "He was born in Lübeck.", ((0, 22),)),
                    Paragraph("Lübeck", "A city. Old. On the Trave.", ((13, 26),)),
                )
            ),
        ),
    )


def test_two_wiki_without_aliases(tmp_path):
    path = write(tmp_path / "dev.json", [TWO_WIKI])
    (example,) = read_dataset(f"2wikimultihopqa:{path}")
    assert (example.golds, example.kind, example.hops) == (("Trave",), "compositional", 2)


@pytest.mark.parametrize(("folder", "option"), [("beside", ""), ("elsewhere", "?aliases={aliases}")])
def test_two_wiki_takes_aliases_beside_it_or_named(tmp_path, folder, option):
    (tmp_path / "beside").mkdir()
    (tmp_path / "elsewhere").mkdir()
    path = write(tmp_path / "beside" / "dev.json", [TWO_WIKI, TWO_WIKI | {"_id": "9c", "answer_id": None}])
    aliases = write(
        tmp_path / folder / "id_aliases.json",
        lines(
            {"Q_id": "Q4", "aliases": ["the Trave", "Trave", " "], "demonyms": ["Travian"]},
            {"Q_id": "Q5", "aliases": ["Elbe"], "demonyms": []},
            {"Q_id": "Q4", "aliases": ["River Trave"], "demonyms": []},
        ),
    )
    first, second = read_dataset(f"2wikimultihopqa:{path}{option.format(aliases=aliases)}")
    assert first.golds == ("Trave", "the Trave", "River Trave")
    assert second.golds == ("Trave",)


def test_two_wiki_names_a_missing_file_of_aliases(tmp_path):
    path = write(tmp_path / "dev.json", [TWO_WIKI])
    with pytest.raises(DatasetError, match=r"can't read nowhere\.json: No such file"):
        read_dataset(f"2wikimultihopqa:{path}?aliases=nowhere.json")


def test_musique(tmp_path):
    path = write(
        tmp_path / "dev.jsonl", lines(MUSIQUE, MUSIQUE | {"id": "own", "question_decomposition": []})
    )
    first, second = read_dataset(f"musique:{path}")
    assert first.question == Question("3hop1__12_34_56", MUSIQUE["question"])
    assert first.golds == ("Arno", "River Arno")
    assert first.supporting_titles == ("Pisa", "Callisto")
    assert (first.kind, first.hops) == ("3hop1", 3)
    assert (second.kind, second.hops) == ("", None)


def test_musique_refuses_questions_without_an_answer(tmp_path):
    path = write(tmp_path / "full.jsonl", lines(MUSIQUE, MUSIQUE | {"answerable": False}))
    with pytest.raises(DatasetError, match=r"line 2, field answerable: .*found False.*MuSiQue-Full"):
        read_dataset(f"musique:{path}")


def test_strategyqa(tmp_path):
    path = write(tmp_path / "train.json", STRATEGY)
    assert read_dataset(f"strategyqa:{path}") == (
        Example(
            Question("s1", "Can the Moon be seen from Bonn?", task="yes_no"),
            ("yes",),
            supporting_facts=SupportingFacts(facts=("It shines.",)),
        ),
        Example(
            Question("s2", "Did Galileo fly?", task="yes_no"),
            ("no",),
            supporting_facts=SupportingFacts(steps=(ReasoningStep("When did he live?"),)),
        ),
    )


def test_own_questions(tmp_path):
    path = write(
        tmp_path / "own.jsonl",
        lines(
            {"question": "Where?", "answers": ["Bonn", "Bonn"], "supporting": ["Fidelio", "Bonn"], "hops": 2},
            {"id": 7, "question": "Who?", "golden_answers": ["Ada"], "metadata": {"any": 1}},
            {"id": "x", "question": "Is it?", "answers": ["no"], "type": "yes_no"},
            {"question": "Which?", "answers": ["b"], "options": ["a", "b"], "type": "easy"},
            {"question": "Is it open?", "answers": ["yes"], "task": "open", "options": ["yes"]},
        ),
    )
    assert read_dataset(f"jsonl:{path}") == (
        Example(Question("1", "Where?"), ("Bonn",), ("Fidelio", "Bonn"), hops=2),
        Example(Question("7", "Who?"), ("Ada",)),
        Example(Question("x", "Is it?", task="yes_no"), ("no",), kind="yes_no"),
        Example(Question("4", "Which?", task="choice", options=("a", "b")), ("b",), kind="easy"),
        Example(Question("5", "Is it open?", options=("yes",)), ("yes",)),
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"answers": ["a"]}, "line 1, field question: missing. A line is"),
        ({"question": "Who?"}, "field answers: missing"),
        ({"question": "Who?", "answers": []}, "field answers: is empty, found \\[\\]"),
        ({"question": "Who?", "answers": "Ada"}, "field answers: not a list, found 'Ada'"),
        ({"question": "Who?", "answers": ["Ada", 7]}, "field answers.1: .*string, found 7"),
        (
            {"question": "Who?", "answer": ["Ada"]},
            "line 1: there is no field 'answer': did you mean 'answers'\\? A line is",
        ),
        (
            {"question": "Who?", "answer": "Ada"},
            r'line 1: the field "answers" is a list: write "answers": \["Ada"\] for "answer"\. A line is',
        ),
        ({"Question": "Who?", "answers": ["Ada"]}, "no field 'Question': did you mean 'question'"),
        (
            {"question": "Who?", "answers": ["Ada"], "supporting_facts": ["Bonn"]},
            "no field 'supporting_facts': did you mean 'supporting'",
        ),
        ({"question": "Who?", "answers": ["Ada"], "qid": "a"}, "no field 'qid': did you mean 'id'"),
        ({"question": " ", "answers": ["a"]}, "field question: is empty, found ' '"),
        ({"question": "\ud800", "answers": ["a"]}, r"field question: .*surrogate '\\ud800'"),
        ({"question": "Who?", "answers": ["a"], "type": "\ud800"}, "field type: .*the lone surrogate"),
        (
            {"question": "Who?", "answers": ["a"], "id": 1.5},
            "field id: .*string or a whole number, found 1.5",
        ),
        (
            {"question": "Who?", "answers": ["a"], "id": True},
            "field id: .*string or a whole number, found True",
        ),
        ({"question": "Who?", "answers": ["a"], "hops": 0}, "field hops: .*greater than or equal to 1"),
        (
            {"question": "Who?", "answers": ["a"], "task": "quiz"},
            "field task: .*'open', 'yes_no', 'choice', found 'quiz'",
        ),
        (
            {"question": "Is it?", "answers": ["true"], "task": "yes_no"},
            "answer 'true' of a yes_no question is none of 'yes', 'no'",
        ),
        (
            {"question": "Which?", "answers": ["c"], "options": ["a", "b"]},
            "answer 'c' of a choice question is none of 'a', 'b'",
        ),
        (
            {"question": "Which?", "answers": ["c"], "task": "choice"},
            r"answer 'c' of a choice question is none of \(no options\)",
        ),
        (["Who?", "Ada"], r"record 1: .*found 'Who\?'"),
        ("Who?", r"line 1: .*found 'Who\?'"),
    ],
)
def test_a_flawed_row_names_line_field_value_and_remedy(tmp_path, row, message):
    path = write(tmp_path / "own.jsonl", lines(row))
    with pytest.raises(DatasetError, match=message) as caught:
        read_dataset(f"jsonl:{path}")
    assert str(caught.value).startswith(str(path))
    assert 'A line is {"question"' in str(caught.value)
    assert len(str(caught.value).replace(str(path), "")) < 500


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("hotpotqa", {"answer": None}, "record 2, field answer: .*string, found None.*test split"),
        ("hotpotqa", {"supporting_facts": []}, "field supporting_facts: is empty"),
        (
            "hotpotqa",
            {"supporting_facts": [["Bonn", "0"]]},
            r"field supporting_facts\.0\.1: .*integer, found",
        ),
        ("hotpotqa", {"_id": " "}, "field _id: is empty"),
        ("2wikimultihopqa", {"answer_id": 4}, "field answer_id: .*string, found 4"),
        ("strategyqa", {"answer": "yes"}, "field answer: .*boolean, found 'yes'"),
        ("musique", {"paragraphs": "none"}, "field paragraphs: .*list, found 'none'"),
        ("hotpotqa", {"context": [["Bonn", "A city."]]}, r"field context\.0\.1: .*list, found 'A city\.'"),
        ("hotpotqa", {"context": {"title": []}}, r"field context: .*list, found {'title': \[\]}"),
        ("hotpotqa", {"context": [["Bonn", [None]]]}, r"field context\.0\.1\.0: .*string, found None"),
        ("2wikimultihopqa", {"evidences": [["Bonn", "river"]]}, r"field evidences\.0\.2: missing"),
        ("2wikimultihopqa", {"evidences": [["Bonn", "age", 7]]}, r"field evidences\.0\.2: .*string, found 7"),
        ("strategyqa", {"facts": "It shines."}, "field facts: .*list, found 'It shines.'"),
        ("strategyqa", {"decomposition": [1]}, r"field decomposition\.0: .*string, found 1"),
        (
            "musique",
            {"question_decomposition": [{"question": 1}]},
            r"field question_decomposition\.0\.question: .*string, found 1",
        ),
    ],
)
def test_a_flawed_record_of_an_array(tmp_path, name, change, message):
    good = {"hotpotqa": HOTPOT, "2wikimultihopqa": TWO_WIKI, "strategyqa": STRATEGY[0], "musique": MUSIQUE}[
        name
    ]
    path = write(tmp_path / "dev.json", [good, good | change])
    with pytest.raises(DatasetError, match=message):
        read_dataset(f"{name}:{path}")
    assert len(read_dataset(f"{name}:{path}", limit=1)) == 1
