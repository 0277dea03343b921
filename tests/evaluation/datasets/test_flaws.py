"""Flaws in the files of each dataset, and their error messages."""

import json

import pytest

from askance.configuration.evaluation import read_dataset
from askance.core.errors import DatasetError, UnknownName
from askance.core.records import rows
from askance.core.types import Question
from askance.evaluation.datasets import Example
from tests.evaluation.datasets.test_files import FILES, read


def iirc(answer, **more):
    return [{"title": "Bonn", "questions": [{"question": "Who?", "answer": answer, **more}]}]


def squad(**asked):
    qas = [{"id": "a", "question": "Who?", "answers": [], **asked}]
    return {"data": [{"title": "Bonn", "paragraphs": [{"context": "c", "qas": qas}]}]}


def flashrag(context, **more):
    metadata = {"supporting_facts": {"title": ["Bonn"], "sent_id": [0]}, "context": context, **more}
    return {"question": "Who?", "golden_answers": ["Ada"], "metadata": metadata}


def popqa(answers, header="id\tprop\tquestion\tpossible_answers"):
    return f"{header}\n1\tcountry\tWhere?\t{answers}\n"


def arc(key, *labels):
    choices = [{"text": label * 3, "label": label} for label in labels or ("A", "B")]
    return {"id": "1", "question": {"stem": "Which?", "choices": choices}, "answerKey": key}


def asqa(short_answers):
    return [{"sample_id": "1", "question": "Who?", "qa_pairs": [{"short_answers": short_answers}]}]


FLAWS = [
    (
        "iirc:a.json",
        iirc({"type": "spam"}),
        r"record 1, field questions\.0\.answer\.type: .*'none'.*'span'.*IIRC is",
    ),
    ("iirc:a.json", iirc({}), r"field questions\.0\.answer\.type: missing"),
    ("iirc:a.json", iirc({"type": "value"}), r"questions\.0\.answer\.answer_value: missing"),
    ("iirc:a.json", iirc({"type": "span", "answer_spans": []}), r"0\.answer: no span has a text"),
    ("iirc:a.json", iirc({"type": "span", "answer_spans": [{"text": " "}]}), "no span has a text"),
    ("iirc:a.json", iirc({"type": "span", "answer_spans": [{"text": "\ud800"}]}), "the lone surrogate"),
    ("iirc:a.json", iirc({"type": "none"}), "holds no questions"),
    ("nq:a.jsonl", {"question": "who?"}, "line 1, field answer: missing. A record of NQ-open"),
    ("nq:a.jsonl", {"question": "who?", "answer": []}, "field answer: is empty"),
    (
        "triviaqa:a.json",
        {"Data": [{"QuestionId": "1", "Question": "?"}]},
        "record 1, field Answer: missing.*test",
    ),
    (
        "triviaqa:a.json",
        {"Data": [{"QuestionId": "1", "Question": "?", "Answer": {"Value": "a", "Aliases": ["", "\ud800"]}}]},
        r"record 1, field Answer.Aliases.1: .*the lone surrogate",
    ),
    ("triviaqa:a.json", {"Data": {}}, "a.json, field Data: no list of records there"),
    ("triviaqa:a.json", {"data": []}, "line 1, field Answer: missing"),
    ("triviaqa:a.json", '{\n"data": []}', "field Data: no list of records there"),
    ("triviaqa:a.json", '{\n"Data": [', "line 2, column 10: not JSON"),
    ("popqa:a.tsv", popqa("Germany"), r"line 2, field possible_answers: is no JSON list .*found 'Germany'"),
    ("popqa:a.tsv", popqa("[]"), "field possible_answers: is empty"),
    ("popqa:a.tsv", popqa("[1]"), r"field possible_answers\.0: .*string, found 1"),
    ("popqa:a.tsv", popqa("[]", "id\tprop\tq\ta"), "line 2, field question: missing. PopQA has the columns"),
    ("squad2:a.json", squad(), "field paragraphs.0.qas.0: question 'a' has no answers, but is not marked"),
    ("squad2:a.json", squad(is_impossible=True), "holds no questions with answers"),
    ("squad2:a.json", squad(answers=[{"text": ""}]), r"qas\.0\.answers\.0\.text: is empty"),
    (
        "pubhealth:a.jsonl",
        {"claim": "x", "label": "maybe"},
        r"field label: is no label of PubHealth.*'maybe'",
    ),
    ("pubhealth:a.jsonl", {"claim": "x"}, "line 1, field label: missing. A record of PubHealth is"),
    ("pubhealth:a.jsonl", {"claim": "x", "label": ["true", "false"]}, r"field label: .*string"),
    ("pubhealth:a.jsonl", {"claim": " ", "label": "true"}, "field claim: is empty"),
    ("pubhealth:a.jsonl", {"claim": "x", "label": "unproven"}, "holds no questions with answers"),
    ("pubhealth:a.tsv", "claim\tverdict\nx\ttrue\n", "line 2, field label: missing"),
    ("arc:a.jsonl", arc("F"), "field answerKey: is no label of ARC: A to E, or 1 to 5, found 'F'"),
    ("arc:a.jsonl", arc("C"), r"line 1: the answer key C is the label of no choice \(A, B\)\. A record"),
    ("arc:a.jsonl", arc("A", "1", "A"), r"line 1: two choices have the same label \(A, A\)"),
    ("arc:a.jsonl", arc("A", "A"), "line 1: has fewer than two choices"),
    (
        "arc:a.jsonl",
        {"id": "1", "question": "Which?", "answerKey": "A", "choices": {"text": ["a"], "label": []}},
        "line 1: choices have no texts and labels, one of each",
    ),
    (
        "asqa:a.json",
        [{"sample_id": "1", "question": "Who?"}],
        "record 1, field qa_pairs: missing. A record of",
    ),
    ("asqa:a.json", asqa([]), r"qa_pairs\.0\.short_answers: is empty"),
    ("asqa:a.json", asqa([" "]), r"qa_pairs\.0\.short_answers: holds no answer, found \[' '\]"),
    ("asqa:a.json", {"test": {}}, "a.json: no array of records, and no split 'dev': name ASQA.json"),
    ("asqa:a.json", {"dev": {"7": []}}, "record '7': not an object, found"),
    ("asqa:a.json", "7", "no array of records"),
    ("asqa:a.json", "{", "not JSON"),
    ("biographies:a.jsonl", {"input": "Who?"}, "line 1, field topic: missing. A line is a name"),
    ("biographies:a.jsonl", {"topic": "Ada", "cat": [7]}, r"field cat\.0: .*string, found 7"),
    ("biographies:a.txt", "\n \n", "holds no questions"),
    ("biographies:a.txt", "Ada\nBertha\nAda\n", "questions 1 and 3 have the same id 'Ada'"),
    ("csv:a.txt", "question,answers\n", r"a.txt is neither \.csv nor \.tsv"),
    ("csv:a.csv", "", "holds no questions"),
    ("csv:a.csv", "question,answers\n", "holds no questions"),
    ("csv:a.csv", "question,answers\nWho, then?,Ada\n", "line 2: 3 cells under 2 columns"),
    ("csv:a.csv", "question,answers\nWho?\n", "line 2: 1 cell under 2 columns"),
    ("nq:a.jsonl", "null", "line 1: not an object, found None"),
    ("csv:a.csv", "question,answers,answers\nWho?,Ada,B\n", "line 1: two columns are called 'answers'"),
    ("csv:a.csv", "question,answers\n\nWho?,\n", "line 3, field answers: missing. The columns are"),
    ("csv:a.csv", "question,answers\nWho?,Ada||B\n", r"field answers\.1: is empty"),
    ("csv:a.csv", "question,anwser\nWho?,Ada\n", "line 2: there is no field 'anwser': did you mean 'answer'"),
    ("csv:a.csv", "question,answers,support\nWho?,Ada,\n", "no field 'support': did you mean 'supporting'"),
    ("csv:a.csv", "question,answers,answer\nWho?,Ada,B\n", "both answer and answers are filled in"),
    ("csv:a.csv", "question,answers\nWho?,[Ada]\n", r"field answers: starts with \[ but is no JSON list"),
    ("csv:a.csv", "question,answers,hops\nWho?,Ada,two\n", "field hops: .*integer, found 'two'"),
    ("csv:a.csv", "question,answers,task\nWho?,Ada,quiz\n", "field task: .*'yes_no', 'choice', found 'quiz'"),
    ("csv:a.csv", 'question,answers\nWho?,"Ada"B\n', "line 2: .* expected after .*double quotes"),
    ("csv:a.csv", 'question,answers\nWho?,"Ada\n', "line 2: unexpected end of data"),
    ("csv:a.csv", "question;answers\nWho?;Ada\n", "line 2, field question: missing"),
    (
        "hotpotqa:a.jsonl",
        {"question": "Who?", "golden_answers": []},
        "field golden_answers: is empty",
    ),
    (
        "musique:a.jsonl",
        {"question": "Who?", "golden_answers": [1]},
        r"golden_answers\.0: .*FlashRAG's layout",
    ),
    (
        "strategyqa:a.jsonl",
        {"question": "Is it?", "golden_answers": ["maybe"]},
        "'maybe' of a yes_no question",
    ),
    ("strategyqa:a.jsonl", {"question": "Is it?", "golden_answers": True}, "field golden_answers: .*list"),
    (
        "nq:a.jsonl",
        {"question": "Who?", "golden_answers": ["a"], "metadata": {"supporting_facts": [["Bonn", 0]]}},
        r"field metadata\.supporting_facts: .*found \[\['Bonn', 0\]\]",
    ),
    ("hotpotqa:a.jsonl", flashrag({"title": ["A"], "sentences": []}), r"\(sentences has 0, title has 1\)"),
    ("hotpotqa:a.jsonl", flashrag({"title": ["A"]}), r"field metadata\.context\.sentences: missing"),
    ("hotpotqa:a.jsonl", flashrag("A city."), r"field metadata\.context: not an object, found 'A city\.'"),
    (
        "2wikimultihopqa:a.jsonl",
        flashrag(None, evidences={"fact": ["a"], "relation": ["b"], "entity": []}),
        r"metadata\.evidences: has lists of different lengths \(entity has 0, fact has 1, relation has 1\)",
    ),
    (
        "hotpotqa:a.jsonl",
        flashrag(None, supporting_facts={"title": ["Bonn"], "sent_id": [0, 1]}),
        r"metadata\.supporting_facts: has lists of different lengths \(sent_id has 2, title has 1\)",
    ),
    (
        "iirc:a.json",
        iirc({"type": "value", "answer_value": 7}, context=[{"passage": "main", "text": 1}]),
        r"field questions\.0\.context\.0\.text: .*string, found 1",
    ),
    (
        "squad2:a.json",
        squad(answers=[{"text": "c", "answer_start": "0"}]),
        "answer_start: .*integer, found '0'",
    ),
]


@pytest.mark.parametrize(("spec", "content", "message"), FLAWS)
def test_a_flaw_is_told_with_file_place_and_remedy(tmp_path, spec, content, message):
    name, _, file = spec.partition(":")
    path = tmp_path / file
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    with pytest.raises(DatasetError, match=message) as caught:
        read_dataset(f"{name}:{path}")
    assert str(path) in str(caught.value)
    assert len(str(caught.value).replace(str(path), "")) < 500


def test_a_table_that_is_not_utf_8(tmp_path):
    path = tmp_path / "own.csv"
    path.write_bytes("question,answers\nWo?,Köln\n".encode("latin-1"))
    with pytest.raises(DatasetError, match="is not UTF-8"):
        read_dataset(f"csv:{path}")
    with pytest.raises(DatasetError, match=r"can't read .*absent\.csv: No such file"):
        read_dataset(f"csv:{tmp_path / 'absent.csv'}")


def test_a_table_by_a_spreadsheet_has_a_mark_and_carriage_returns(tmp_path):
    path = tmp_path / "own.CSV"
    path.write_bytes("\ufeffquestion,answers\r\nWhere?,Köln\r\n".encode())
    assert read_dataset(f"csv:{path}") == (Example(Question("1", "Where?"), ("Köln",)),)


def test_fields_that_look_like_none_of_ours_or_like_one_that_is_there_are_passed_over(tmp_path):
    path = tmp_path / "own.jsonl"
    row = {
        "question": "Who?",
        "answers": ["Ada"],
        "answer": "Ada",
        "task_id": 3,
        "level": "easy",
        "context": [],
        "titles": ["Ada"],
    }
    path.write_text(json.dumps(row))
    assert read_dataset(f"jsonl:{path}") == (Example(Question("1", "Who?"), ("Ada",)),)


def test_what_a_flashrag_record_says_itself_precedes_its_metadata(tmp_path):
    metadata = {"type": "b", "supporting_facts": {"title": ["Bonn"], "sent_id": [0]}, "answer": 1}
    row = {"question": "Who?", "golden_answers": ["Ada"], "type": "a", "hops": 3, "answer": "x"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row | {"metadata": metadata}))
    (example,) = read_dataset(f"jsonl:{tmp_path / 'a.jsonl'}")
    assert example == Example(Question("1", "Who?"), ("Ada",), ("Bonn",), "a", 3)


@pytest.mark.parametrize(
    ("spec", "option"),
    [
        ("2wikimultihopqa:flashrag_hotpotqa.jsonl?aliases={files}/id_aliases.json", "aliases"),
        ("squad2:flashrag_musique.jsonl?unanswerable=keep", "unanswerable"),
    ],
)
def test_an_option_without_meaning_in_flashrags_layout(spec, option):
    with pytest.raises(
        DatasetError, match=f"line 1: the option {option} has no meaning in FlashRAG's layout"
    ):
        read(spec.format(files=FILES))


def test_squad_has_two_ways_with_what_has_no_answer():
    with pytest.raises(UnknownName, match=r"unknown choice 'kept' of unanswerable .*did you mean 'keep'\?"):
        read("squad2:squad2.json?unanswerable=kept")
    assert read("squad2:squad2.json?unanswerable=skip") == read("squad2:squad2.json")
    kinds = [example.kind for example in read("squad2:squad2.json?unanswerable=keep")]
    assert kinds == ["answerable", "unanswerable", "answerable", "unanswerable"]


def test_squad_1_has_no_mark_of_the_unanswerable(tmp_path):
    path = tmp_path / "squad1.json"
    path.write_text(json.dumps(squad(answers=[{"text": "Ada", "answer_start": 0}])))
    assert [example.golds for example in read_dataset(f"squad2:{path}")] == [("Ada",)]


def test_a_value_of_iirc_may_be_a_number(tmp_path):
    path = tmp_path / "dev.json"
    path.write_text(json.dumps(iirc({"type": "value", "answer_value": 7})))
    assert read_dataset(f"iirc:{path}") == (Example(Question("1-1", "Who?"), ("7",), kind="value"),)


def test_golds_of_triviaqa_hold_every_name_and_no_blank_one():
    assert read("triviaqa:triviaqa.json")[1].golds == ("Arno", "River Arno", "the Arno")


def test_popqa_as_json_lines_of_the_same_columns(tmp_path):
    path = tmp_path / "popqa.jsonl"
    row = {"id": 12, "prop": "country", "question": "Where is Bonn?", "possible_answers": '["Germany"]'}
    path.write_text(json.dumps(row))
    assert read_dataset(f"popqa:{path}") == (
        Example(Question("12", "Where is Bonn?"), ("Germany",), kind="country", hops=1),
    )


def test_rows_of_an_object_on_one_line_or_many(tmp_path):
    path = tmp_path / "a.json"
    for indent in (None, 1):
        path.write_text(json.dumps({"version": 1, "data": [{"a": 1}, {"a": 2}]}, indent=indent))
        assert list(rows(path, "data")) == [("record 1", {"a": 1}), ("record 2", {"a": 2})]
    path.write_text('{"a": 1}\n{"a": 2}\n')
    assert list(rows(path, "data")) == [("line 1", {"a": 1}), ("line 2", {"a": 2})]


def test_asqa_has_two_splits_in_its_own_layout():
    (example,) = read("asqa:asqa_splits.json?split=train")
    assert (example.question.id, example.golds) == ("5", ("Verdi wrote it.",))
    with pytest.raises(DatasetError, match="no split 'test'"):
        read("asqa:asqa_splits.json?split=test")
    with pytest.raises(DatasetError, match=r"asqa.json has no splits.*leave \?split=dev out"):
        read("asqa:asqa.json?split=dev")


def test_asqa_as_an_object_around_an_array_with_one_long_answer(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"args": {}, "data": [asqa(["Ada"])[0] | {"answer": "It was Ada."}]}))
    (example,) = read_dataset(f"asqa:{path}")
    assert (example.golds, example.answer_groups) == (("It was Ada.",), (("Ada",),))


def test_a_truth_value_is_a_label_of_pubhealth(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"claim": "a", "label": true}\n{"claim": "b", "label": [false]}\n')
    assert [example.golds for example in read_dataset(f"pubhealth:{path}")] == [("true",), ("false",)]


def test_labels_of_arc_that_are_numbers_become_letters():
    example = read("arc:arc.jsonl")[1]
    assert example.question.options == ("A: Earth", "B: Mars", "C: Venus", "D: Jupiter")
    assert example.golds == ("D: Jupiter", "Jupiter")
