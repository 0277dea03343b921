"""Flaws in the files of datasets and in their names: a message has the file, the place and the remedy."""

import subprocess
import sys

import pytest

from askance.configuration.evaluation import read_dataset
from askance.core.errors import DatasetError, InputError
from tests.evaluation.datasets.rows import read_as, write
from tests.evaluation.datasets.test_files import FILES, read

HOTPOT = {
    "_id": "a",
    "answer": "Po",
    "question": "Which?",
    "supporting_facts": [["Bonn", 0]],
    "type": "bridge",
}
STRATEGY = {"qid": "a", "question": "Is it?", "answer": True}
MUSIQUE = {
    "id": "2hop",
    "question": "Which?",
    "answer": "Po",
    "paragraphs": [{"title": "A", "is_supporting": True}],
}


def hotpot(**change):
    return [HOTPOT, HOTPOT | {"_id": "b"} | change]


def iirc(**change):
    answer = {"type": "value", "answer_value": 7}
    return [{"title": "Bonn", "questions": [{"question": "Who?", "answer": answer} | change]}]


def squad(**change):
    asked = {"id": "a", "question": "Who?", "answers": []} | change
    return {"data": [{"title": "Bonn", "paragraphs": [{"context": "c", "qas": [asked]}]}]}


def trivia(answer):
    return {"Data": [{"QuestionId": "1", "Question": "?", "Answer": answer}]}


def popqa(answers, header="id\tprop\tquestion\tpossible_answers"):
    return f"{header}\n1\tcountry\tWhere?\t{answers}\n"


def arc(key, *labels):
    choices = [{"text": label * 3, "label": label} for label in labels or ("A", "B")]
    return {"id": "1", "question": {"stem": "Which?", "choices": choices}, "answerKey": key}


def asqa(*short_answers):
    return [{"sample_id": "1", "question": "Who?", "qa_pairs": [{"short_answers": short_answers}]}]


def flashrag(context=None, **metadata):
    facts = {"supporting_facts": {"title": ["Bonn"], "sent_id": [0]}, "context": context}
    return {"question": "Who?", "golden_answers": ["Ada"], "metadata": facts | metadata}


FLAWS = [
    # Files that are no JSON, or have no records.
    ("strategyqa:a.json", b'[{"qid": 1},\n {"qid":', "line 2, column 9: not JSON"),
    ("strategyqa:a.json", b"[1] 2", "column 5: not JSON"),
    ("strategyqa:a.json", b'{"qid"', "line 1, column 7: not JSON"),
    ("strategyqa:a.json", b"\xff\xfe", "is not UTF-8"),
    ("strategyqa:a.json", b"[" * 100_000, "JSON that can't be read"),
    ("strategyqa:a.json", b'{"qid": "a"}', "line 1, field question: missing"),
    *(("hotpotqa:a.json", blank, "holds no questions") for blank in ("", "\n \n", "[]", "\ufeff")),
    ("jsonl:a.jsonl", '{"question": "a?", "answers": ["b"]}\nbroken', "line 2, column 1: not JSON"),
    # Records of the authors' layouts.
    ("hotpotqa:a.json", hotpot(answer=None), "record 2, field answer: .*string, found None.*test split"),
    ("hotpotqa:a.json", hotpot(supporting_facts=[]), "field supporting_facts: is empty"),
    ("hotpotqa:a.json", hotpot(supporting_facts=[["Bonn", "0"]]), r"facts\.0\.1: .*integer, found"),
    ("hotpotqa:a.json", hotpot(_id=" "), "field _id: is empty"),
    ("hotpotqa:a.json", hotpot(context=[["Bonn", "A city."]]), r"context\.0\.1: .*list, found 'A city\.'"),
    ("hotpotqa:a.json", hotpot(context={"title": []}), r"field context: .*list, found {'title': \[\]}"),
    ("hotpotqa:a.json", hotpot(context=[["Bonn", [None]]]), r"context\.0\.1\.0: .*string, found None"),
    ("2wikimultihopqa:a.json", hotpot(answer_id=4), "field answer_id: .*string, found 4"),
    ("2wikimultihopqa:a.json", hotpot(evidences=[["Bonn", "river"]]), r"evidences\.0\.2: missing"),
    ("2wikimultihopqa:a.json", hotpot(evidences=[["a", "b", 7]]), r"evidences\.0\.2: .*string, found 7"),
    ("2wikimultihopqa:a.json?aliases=nowhere.json", hotpot(), r"can't read nowhere\.json: No such file"),
    ("strategyqa:a.json", [STRATEGY | {"answer": "yes"}], "field answer: .*boolean, found 'yes'"),
    ("strategyqa:a.json", [STRATEGY | {"facts": "One."}], "field facts: .*list, found 'One.'"),
    ("strategyqa:a.json", [STRATEGY | {"decomposition": [1]}], r"decomposition\.0: .*string, found 1"),
    ("musique:a.json", [MUSIQUE | {"paragraphs": "none"}], "field paragraphs: .*list, found 'none'"),
    (
        "musique:a.json",
        [MUSIQUE | {"question_decomposition": [{"question": 1}]}],
        r"n\.0\.question: .*string",
    ),
    ("musique:a.jsonl", (MUSIQUE | {"answerable": False},), "answerable: .*found False.*MuSiQue-Full"),
    ("iirc:a.json", iirc(answer={"type": "spam"}), r"record 1, .*0\.answer\.type: .*'none'.*'span'.*IIRC is"),
    ("iirc:a.json", iirc(answer={}), r"field questions\.0\.answer\.type: missing"),
    ("iirc:a.json", iirc(answer={"type": "value"}), r"questions\.0\.answer\.answer_value: missing"),
    ("iirc:a.json", iirc(answer={"type": "span", "answer_spans": []}), r"0\.answer: no span has a text"),
    ("iirc:a.json", iirc(answer={"type": "span", "answer_spans": [{"text": " "}]}), "no span has a text"),
    ("iirc:a.json", iirc(answer={"type": "span", "answer_spans": [{"text": "\ud800"}]}), "lone surrogate"),
    ("iirc:a.json", iirc(answer={"type": "none"}), "holds no questions"),
    ("iirc:a.json", iirc(context=[{"passage": "main", "text": 1}]), r"context\.0\.text: .*string, found 1"),
    ("nq:a.jsonl", {"question": "who?"}, "line 1, field answer: missing. A record of NQ-open"),
    ("nq:a.jsonl", {"question": "who?", "answer": []}, "field answer: is empty"),
    ("nq:a.jsonl", "null", "line 1: not an object, found None"),
    ("triviaqa:a.json", {"Data": [{"QuestionId": "1"}]}, "record 1, field Answer: missing.*test"),
    ("triviaqa:a.json", trivia({"Value": "a", "Aliases": ["", "\ud800"]}), "Answer.Aliases.1: .*surrogate"),
    ("triviaqa:a.json", {"Data": {}}, "a.json, field Data: no list of records there"),
    ("triviaqa:a.json", {"data": []}, "line 1, field Answer: missing"),
    ("triviaqa:a.json", '{\n"data": []}', "field Data: no list of records there"),
    ("triviaqa:a.json", '{\n"Data": [', "line 2, column 10: not JSON"),
    ("popqa:a.tsv", popqa("Germany"), r"line 2, .*answers: is no JSON list .*found 'Germany'"),
    ("popqa:a.tsv", popqa("[]"), "field possible_answers: is empty"),
    ("popqa:a.tsv", popqa("[1]"), r"field possible_answers\.0: .*string, found 1"),
    ("popqa:a.tsv", popqa("[]", "id\tprop\tq\ta"), "line 2, field question: missing. PopQA has the columns"),
    ("popqa:a.tsv?popularity<100", popqa("[]"), r"line 2, field s_pop: no whole number, so \?popularity<100"),
    ("popqa:a.tsv?popularity=100", popqa("[]"), r"takes an upper limit, as in \?popularity<100"),
    ("popqa:a.tsv?popularity<x", popqa("[]"), r"takes an upper limit, as in \?popularity<100"),
    ("popqa:a.jsonl?popularity<9", [[1]], r"record 1, field s_pop: no whole number"),
    *(
        ("popqa:a.jsonl?popularity<9", f'{{"s_pop": {value}}}', "line 1, field s_pop: no whole number")
        for value in ("Infinity", "1e400", "8.9", "true", "null", '"8.9"')
    ),
    ("popqa:a.jsonl?popularity<9", ({"s_pop": 9},), "holds no questions"),
    ("popqa:a.jsonl?popularity<9", '{"s_pop": 1e400}', r"field s_pop: no whole number"),
    ("popqa:a.jsonl?popularity<9", ({"s_pop": True},), r"field s_pop: no whole number"),
    ("popqa:a.jsonl?popularity<9", ({"s_pop": 8.9},), r"field s_pop: no whole number"),
    ("webquestions:a.json", [{"utterance": "who?"}], "record 1, field targetValue: missing. A record of Web"),
    ("webquestions:a.json", [{"targetValue": "(list)"}], r"targetValue: has no \(description …\), found"),
    (
        "nq:a.jsonl",
        {"question": "?", "answer": ["a"], "ctxs": [{"text": "\ud800"}]},
        r"ctxs\.0\.text: .*surr",
    ),
    ("squad2:a.json", squad(), "paragraphs.0.qas.0: question 'a' has no answers, but is not marked"),
    ("squad2:a.json", squad(is_impossible=True), "holds no questions with answers"),
    ("squad2:a.json", squad(answers=[{"text": ""}]), r"qas\.0\.answers\.0\.text: is empty"),
    ("squad2:a.json", squad(answers=[{"text": "c", "answer_start": "0"}]), "start: .*integer, found '0'"),
    ("pubhealth:a.jsonl", {"claim": "x", "label": "maybe"}, "label: is no label of PubHealth.*'maybe'"),
    ("pubhealth:a.jsonl", {"claim": "x"}, "line 1, field label: missing. A record of PubHealth is"),
    ("pubhealth:a.jsonl", {"claim": "x", "label": ["true", "false"]}, "field label: .*string"),
    ("pubhealth:a.jsonl", {"claim": " ", "label": "true"}, "field claim: is empty"),
    ("pubhealth:a.jsonl", {"claim": "x", "label": "unproven"}, "holds no questions with answers"),
    ("pubhealth:a.tsv", "claim\tverdict\nx\ttrue\n", "line 2, field label: missing"),
    ("arc:a.jsonl", arc("F"), "field answerKey: is no label of ARC: A to E, or 1 to 5, found 'F'"),
    ("arc:a.jsonl", arc("C"), r"line 1: the answer key C is the label of no choice \(A, B\)\. A record"),
    ("arc:a.jsonl", arc("A", "1", "A"), r"line 1: two choices have the same label \(A, A\)"),
    ("arc:a.jsonl", arc("A", "A"), "line 1: has fewer than two choices"),
    (
        "arc:a.jsonl",
        {"choices": {"text": ["a"], "label": []}, "question": "?"},
        "no texts and labels, one of",
    ),
    ("asqa:a.json", [{"sample_id": "1", "question": "?"}], "record 1, field qa_pairs: missing. A record of"),
    ("asqa:a.json", asqa(), r"qa_pairs\.0\.short_answers: is empty"),
    ("asqa:a.json", asqa(" "), r"qa_pairs\.0\.short_answers: holds no answer, found \[' '\]"),
    ("asqa:a.json", {"test": {}}, "a.json: no array of records, and no split 'dev': name ASQA.json"),
    ("asqa:a.json", {"dev": {"7": []}}, "record '7': not an object, found"),
    ("asqa:a.json?split=test", {"dev": {}}, "no split 'test'"),
    ("asqa:a.json?split=dev", asqa("a"), r"a.json has no splits.*leave \?split=dev out"),
    ("asqa:a.json", "7", "no array of records"),
    ("asqa:a.json", "{", "not JSON"),
    ("biographies:a.jsonl", {"input": "Who?"}, "line 1, field topic: missing. A line is a name"),
    ("biographies:a.jsonl", {"topic": "Ada", "cat": [7]}, r"field cat\.0: .*string, found 7"),
    ("biographies:a.txt", "\n \n", "holds no questions"),
    ("biographies:a.txt", "Ada\nBertha\nAda\n", "questions 1 and 3 have the same id 'Ada'"),
    # Tables.
    ("csv:a.txt", "question,answers\n", r"a.txt is neither \.csv nor \.tsv"),
    ("csv:a.csv", "", "holds no questions"),
    ("csv:a.csv", "question,answers\n", "holds no questions"),
    ("csv:a.csv", "question,answers\nWho, then?,Ada\n", "line 2: 3 cells under 2 columns"),
    ("csv:a.csv", "question,answers\nWho?\n", "line 2: 1 cell under 2 columns"),
    ("csv:a.csv", "question,answers,answers\nWho?,Ada,B\n", "line 1: two columns are called 'answers'"),
    ("csv:a.csv", "question,hops\n\nWho?,\n", "line 3, field answers: missing. The columns are"),
    ("csv:a.csv", "question,answers\nWho?,Ada||B\n", r"field answers\.1: is empty"),
    ("csv:a.csv", "question,anwser\nWho?,Ada\n", "line 2: there is no field 'anwser': did you mean 'answer'"),
    ("csv:a.csv", "question,answers,support\nWho?,Ada,\n", "'support': did you mean 'supporting'"),
    ("csv:a.csv", "question,answers,answer\nWho?,Ada,B\n", "both answer and answers are filled in"),
    ("csv:a.csv", "question,answers\nWho?,[Ada]\n", r"field answers: starts with \[ but is no JSON list"),
    ("csv:a.csv", "question,answers,hops\nWho?,Ada,two\n", "field hops: .*integer, found 'two'"),
    ("csv:a.csv", "question,answers,task\nWho?,Ada,quiz\n", "task: .*'yes_no', 'choice', found 'quiz'"),
    ("csv:a.csv", 'question,answers\nWho?,"Ada"B\n', "line 2: .* expected after .*double quotes"),
    ("csv:a.csv", 'question,answers\nWho?,"Ada\n', "line 2: unexpected end of data"),
    ("csv:a.csv", "question:answers\nWho?:Ada\n", "line 2, field question: missing"),
    ("csv:a.csv", "question,answers\nWo?,Köln\n".encode("latin-1"), "is not UTF-8"),
    # FlashRAG's layout.
    ("hotpotqa:a.jsonl", {"question": "Who?", "golden_answers": []}, "field golden_answers: is empty"),
    ("musique:a.jsonl", {"question": "?", "golden_answers": [1]}, r"answers\.0: .*FlashRAG's layout"),
    ("strategyqa:a.jsonl", {"question": "?", "golden_answers": ["maybe"]}, "'maybe' of a yes_no question"),
    ("strategyqa:a.jsonl", {"question": "?", "golden_answers": True}, "field golden_answers: .*list"),
    ("nq:a.jsonl", flashrag(supporting_facts=[["Bonn", 0]]), r"data\.supporting_facts: .*\[\['Bonn', 0\]\]"),
    ("hotpotqa:a.jsonl", flashrag({"title": ["A"], "sentences": []}), r"\(sentences has 0, title has 1\)"),
    ("hotpotqa:a.jsonl", flashrag({"title": ["A"]}), r"field metadata\.context\.sentences: missing"),
    ("hotpotqa:a.jsonl", flashrag("A city."), r"field metadata\.context: not an object, found 'A city\.'"),
    (
        "2wikimultihopqa:a.jsonl",
        flashrag(evidences={"fact": ["a"], "relation": ["b"], "entity": []}),
        r"metadata\.evidences: has lists of different lengths \(entity has 0, fact has 1, relation has 1\)",
    ),
    (
        "hotpotqa:a.jsonl",
        flashrag(supporting_facts={"title": ["Bonn"], "sent_id": [0, 1]}),
        r"supporting_facts: has lists of different lengths \(sent_id has 2, title has 1\)",
    ),
    (f"2wikimultihopqa:a.jsonl?aliases={FILES}/id_aliases.json", flashrag(), "1: the option aliases has no"),
    ("squad2:a.jsonl?unanswerable=keep", flashrag(), "line 1: the option unanswerable has no meaning"),
]


@pytest.mark.parametrize(("spec", "content", "message"), FLAWS)
def test_a_flawed_file(tmp_path, spec, content, message):
    with pytest.raises(DatasetError, match=message) as caught:
        read_as(spec, content, tmp_path)
    told = str(caught.value)
    assert str(tmp_path) in told or "nowhere" in told
    assert len(told.replace(str(tmp_path), "")) < 500


WHO = {"question": "Who?", "answers": ["Ada"]}
CITY = {"text": "A city."}
FLAWED_ROWS = [
    ({"answers": ["a"]}, "line 1, field question: missing. A line is"),
    ({"question": "Who?"}, "field answers: missing"),
    ({"question": "Who?", "answers": None}, "field answers: not a list, found None"),
    ({"question": "Who?", "anwser": "Ada"}, r"1: there is no field 'anwser': did you mean 'answer'\? A line"),
    ({"question": "Who?", "answer": ["Ada", [""]]}, r"field answer\.1\.0: is empty"),
    ({"question": "Who?", "answer": {"value": None}}, r"field answer\.0: .*string, found None"),
    ({"Question": "Who?", "answers": ["Ada"]}, "no field 'Question': did you mean 'question'"),
    (WHO | {"answers": "Ada"}, "field answers: not a list, found 'Ada'"),
    (WHO | {"answers": ["Ada", 7]}, "field answers.1: .*string, found 7"),
    (WHO | {"supporting_facts": ["Bonn"]}, "no field 'supporting_facts': did you mean 'supporting'"),
    (WHO | {"qid": "a"}, "no field 'qid': did you mean 'id'"),
    (WHO | {"question": " "}, "field question: is empty, found ' '"),
    (WHO | {"question": "\ud800"}, r"field question: .*surrogate '\\ud800'"),
    (WHO | {"type": "\ud800"}, "field type: .*the lone surrogate"),
    (WHO | {"id": 1.5}, "field id: .*string or a whole number, found 1.5"),
    (WHO | {"id": True}, "field id: .*string or a whole number, found True"),
    (WHO | {"hops": 0}, "field hops: .*greater than or equal to 1"),
    (WHO | {"task": "quiz"}, "field task: .*'open', 'yes_no', 'choice', found 'quiz'"),
    (WHO | {"task": "yes_no"}, "answer 'Ada' of a yes_no question is none of 'yes', 'no'"),
    (WHO | {"options": ["a", "b"]}, "answer 'Ada' of a choice question is none of 'a', 'b'"),
    (WHO | {"task": "choice"}, r"answer 'Ada' of a choice question is none of \(no options\)"),
    (["Who?", "Ada"], r"record 1: .*found 'Who\?'"),
    ("Who?", r"line 1: .*found 'Who\?'"),
    (
        WHO | {"paragraphs": [CITY | {"evidence": ["A city.", "A town."]}]},
        r"line 1, field paragraphs\.0\.evidence\.1: is not in the paragraph's text: copy it from there "
        r"letter by letter, found 'A town\.'\. A line is",
    ),
    (WHO | {"paragraphs": [CITY | {"evidence": [" "]}]}, r"evidence\.0: is empty, found ' '"),
    (WHO | {"paragraphs": [CITY | {"evidence": "A."}]}, r"paragraphs\.0\.evidence: .*list, found 'A\.'"),
    (WHO | {"paragraphs": [{"evidence": ["A."]}]}, r"field paragraphs\.0\.text: missing"),
    (WHO | {"paragraphs": [CITY | {"evidences": []}]}, r"0: there is no field 'evidences': .*'evidence'\? A"),
    (
        WHO | {"paragraphs": [CITY | {"evidence": ["A city."], "supporting": False}]},
        r"paragraphs\.0: has evidence, but is not supporting: leave one of them out",
    ),
    (WHO | {"paragraphs": [CITY | {"supporting": "yes"}]}, r"supporting: .*boolean, found 'yes'"),
    (WHO | {"paragraphs": ["A city."]}, r"field paragraphs\.0: not an object, found 'A city\.'"),
    (WHO | {"fact": ["A city."]}, "line 1: there is no field 'fact': did you mean 'facts'"),
    (WHO | {"facts": "A city."}, r"field facts: .*list, found 'A city\.'"),
    (WHO | {"facts": [""]}, r"field facts\.0: is empty, found ''"),
    (WHO | {"steps": [{"answer": "Rhine"}]}, r"field steps\.0\.question: missing"),
    (WHO | {"steps": ["Where?"]}, r"field steps\.0: not an object, found 'Where\?'"),
    (WHO | {"triples": [["Bonn", "river"]]}, r"field triples\.0\.2: missing"),
    (WHO | {"triples": [["Bonn", "river", ""]]}, r"field triples\.0\.2: is empty, found ''"),
    (WHO | {"triples": ["Bonn"]}, r"field triples\.0: not a list, found 'Bonn'"),
]


@pytest.mark.parametrize(("row", "message"), FLAWED_ROWS)
def test_a_flawed_row_of_your_own_questions(tmp_path, row, message):
    with pytest.raises(DatasetError, match=message) as caught:
        read_as("jsonl:own.jsonl", (row,), tmp_path)
    told = str(caught.value)
    assert told.startswith(str(tmp_path))
    assert 'A line is {"question"' in told
    assert len(told.replace(str(tmp_path), "")) < 500


@pytest.mark.parametrize(
    ("ids", "first", "last"), [(["a", "b", "a"], "1", "3 have the same id 'a'"), (["2", None], "1", "2 have")]
)
def test_two_questions_with_one_id(tmp_path, ids, first, last):
    """An id that is left out is the number of the question, and may not be another's."""
    rows = tuple(WHO | ({"id": id} if id else {}) for id in ids)
    with pytest.raises(DatasetError, match=f"questions {first} and {last}"):
        read_as("jsonl:own.jsonl", rows, tmp_path)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hotpot:dev.json", r"unknown dataset 'hotpot' \(write NAME:FILE\): did you mean 'hotpotqa'\?"),
        ("dev.json", "unknown dataset 'dev.json'"),
        ("hotpotqa", "names no file: write hotpotqa:FILE"),
        ("hotpotqa:", "names no file"),
        ("hotpotqa:none.json", r"can't read .*none\.json: No such file"),
        (f"hotpotqa:{FILES}", "Is a directory"),
        ("csv:absent.csv", r"can't read .*absent\.csv: No such file"),
        ("sample:questions.jsonl", "takes no file; leave out .*questions.jsonl': write sample"),
        ("2wikimultihopqa:dev.json?alias=a", "unknown dataset option 'alias'.*did you mean 'aliases'"),
        ("hotpotqa:dev.json?aliases=a", "unknown dataset option 'aliases'"),
        ("2wikimultihopqa:dev.json?aliases=", "give aliases one value"),
        ("2wikimultihopqa:dev.json?aliases<a", "give aliases<a one value"),
        ("2wikimultihopqa:dev.json?aliases=a&aliases=b", "give aliases one value"),
        ("squad2:squad2.json?unanswerable=kept", r"unknown choice 'kept' of unanswerable .*mean 'keep'\?"),
    ],
)
def test_a_specification_that_names_nothing(spec, message):
    with pytest.raises(InputError, match=message):
        read(spec)


def test_a_limit_takes_the_first_and_reads_no_further(tmp_path):
    path = write(tmp_path / "own.jsonl", '{"question": "a?", "answers": ["b"]}\nbroken')
    assert [example.question.text for example in read_dataset(f"jsonl:{path}", limit=1)] == ["a?"]
    for limit in (0, -3):
        with pytest.raises(InputError, match=f"a limit of {limit} questions leaves none"):
            read_dataset("sample", limit=limit)


def test_readers_are_imported_on_use():
    code = "import sys, askance.evaluation.datasets; assert 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
