"""The packaged prompt sets, and the prompt files of users."""

import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import askance.configuration.prompts
from askance.configuration.catalogue import PROMPT_SETS
from askance.configuration.prompts import open_prompts, to_toml
from askance.core.errors import InputError, PromptsError, UnknownName
from askance.core.types import Demo, Question
from askance.methods.common.prompts import OWN, PromptTemplate
from askance.text.answers import awaits_answer, short_answer

EXAMPLES = {
    "own": 4,
    "plain": 0,
    "hotpotqa": 8,
    "2wikimultihopqa": 6,
    "musique": 6,
    "iirc": 8,
    "strategyqa": 8,
}
DEMO = '[[demos]]\nquestion = "Own?"\nanswer = "It is. So the answer is yes."\n'


def written(tmp_path, text):
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


# The packaged sets.


def test_every_packaged_file_is_in_the_table():
    files = (Path(askance.configuration.prompts.__file__).parent / "prompt_sets").glob("*.toml")
    assert {path.stem for path in files} | {"own", "plain"} == set(PROMPT_SETS) == set(EXAMPLES)


@pytest.mark.parametrize("name", PROMPT_SETS)
def test_examples_are_worked_in_short_sentences_and_end_with_their_answer(name):
    demos = open_prompts(name).demos
    assert len({demo.question for demo in demos}) == len(demos) == EXAMPLES[name]
    for demo in demos:
        assert re.fullmatch(r"[A-Z].*[^ ]\?", demo.question)
        assert re.fullmatch(r"([A-Z].* )?.*[.] So the answer is [^.]+[.]", demo.answer)
        assert demo.answer.count("the answer is") == 1
        assert all(len(sentence.split()) <= 20 for sentence in re.split(r"(?<=[.]) ", demo.answer))


def test_no_question_is_in_two_sets_or_among_the_samples():
    from askance.sample import QUESTIONS

    questions = [demo.question for name in PROMPT_SETS for demo in open_prompts(name).demos]
    assert len(set(questions)) == len(questions)
    sample = QUESTIONS.read_text(encoding="utf-8").lower()
    assert not [question for question in questions if question.lower() in sample]


def test_the_kinds_of_answers_of_each_dataset():
    answers = {
        name: [
            short_answer(demo.answer, Question("q", demo.question, task="open"))
            for demo in open_prompts(name).demos
        ]
        for name in PROMPT_SETS
    }
    assert sorted(answers["strategyqa"]) == ["no"] * 4 + ["yes"] * 4
    assert sum(answer.isdigit() for answer in answers["iirc"]) == 4
    assert "yes" in answers["iirc"]
    assert "yes" in answers["hotpotqa"]
    assert "no" in answers["hotpotqa"]
    hops = [demo.answer.count(". ") for demo in open_prompts("musique").demos]
    assert sorted(hops) == [2, 2, 3, 3, 4, 4]


def test_what_stands_before_the_question():
    assert re.fullmatch(r"[^\n]+\.\n", open_prompts("hotpotqa").before_question)
    assert re.fullmatch(r"[^\n]+\.\n\n", open_prompts("strategyqa").before_question)
    assert {open_prompts(name).before_question for name in ("own", "2wikimultihopqa", "iirc")} == {""}


def test_the_repr_shows_the_name_and_changes_with_the_content():
    assert open_prompts("own") is OWN
    assert (str(OWN), repr(OWN)[:4]) == ("own", "own-")
    assert re.fullmatch(r"hotpotqa-[0-9a-f]{8}", repr(open_prompts("hotpotqa")))
    assert re.fullmatch(r"prompts-[0-9a-f]{8}", repr(PromptTemplate(heading="Found:")))
    assert repr(PromptTemplate(heading="Found:", name="own")) not in (repr(OWN), str(OWN))
    assert PromptTemplate(name="mine") == OWN


# Files.


@pytest.mark.parametrize("name", PROMPT_SETS)
def test_a_set_survives_being_printed_and_read(name, tmp_path):
    again = open_prompts(written(tmp_path, to_toml(open_prompts(name))))
    assert again == open_prompts(name)
    assert repr(again).split("-")[1] == repr(open_prompts(name)).split("-")[1]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(TEXT, max_size=2), TEXT, TEXT, TEXT, TEXT)
def test_any_text_survives(tmp_path_factory, questions, heading, instruction, before, system):
    assume(awaits_answer(f"{before} the answer is"))  # not where `before` says it, too
    demos = tuple(Demo(f"{text}?", f"{text} So the answer is {text}x.") for text in questions)
    template = PromptTemplate(demos, heading, instruction, before, system, f"{before} the answer is")
    path = written(tmp_path_factory.mktemp("prompts"), to_toml(template))
    assert open_prompts(path) == template
    assert to_toml(template).replace("\n", "").isprintable()


def test_what_is_left_out_comes_from_the_base(tmp_path):
    mine = open_prompts(written(tmp_path, DEMO))
    assert mine == PromptTemplate((Demo("Own?", "It is. So the answer is yes."),))
    mine = open_prompts(written(tmp_path, 'base = "strategyqa"\nheading = "Found:"\n'))
    assert mine.demos == open_prompts("strategyqa").demos
    assert mine.before_question.endswith("\n\n")
    assert (mine.heading, mine.name) == ("Found:", "prompts")
    assert open_prompts(written(tmp_path, "demos = []")).demos == ()


def test_a_file_may_begin_with_a_byte_order_mark_and_end_lines_in_two_characters(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xef\xbb\xbf" + DEMO.replace("\n", "\r\n").encode())
    assert open_prompts(str(path)).demos == (Demo("Own?", "It is. So the answer is yes."),)


BAD = [
    ("headin = 'x'", r"unknown key 'headin'.*mine\.toml: did you mean 'heading'"),
    ("name = 'x'", "unknown key 'name'"),
    ("base = 'hotpot'", "unknown base 'hotpot'.*did you mean 'hotpotqa'"),
    ("base = 3", r"mine\.toml, base: 3 is not a text"),
    ("heading = 3", "heading: 3 is not a text. Write it between quotation marks"),
    ("heading = x", r"mine\.toml is not TOML"),
    ("heading = 1" + "0" * 5000, "not TOML"),
    ("demos = " + "[" * 100_000, "not TOML"),
    ("demos = 'x'", r"example 1: it is 'x'. Begin it with \[\[demos\]\]"),
    ("demos = ['x']", "example 1: it is 'x'"),
    ("[[demos]]", "example 1: it is {}.*give it a question and an answer"),
    (DEMO + "id = 1", "it is {.*'id': 1}.*and nothing else"),
    (DEMO + "heading = 'x'", "What belongs to the whole set stands above the first"),
    (DEMO + DEMO.replace("Own?", " "), "example 2: it is .*two texts that are not empty"),
    (DEMO.replace("It is. So the answer is yes.", ""), "example 1: it is .*two texts that are not empty"),
    (DEMO.replace('"Own?"', "5"), "example 1: it is {'question': 5"),
    (DEMO.replace("So the answer is yes.", "Yes."), "'It is. Yes.' does not state the answer"),
    (
        "elicitation = 'In short:'",
        "elicitation: no answer can be read after 'In short:'.*ask_short_answer=no",
    ),
    ("elicitation = ''", "elicitation: no answer can be read after ''"),
    (
        "elicitation = 'What the answer is: the answer is'",
        "no answer can be read after 'What .*'. Say \"the answer is\" once, at its end",
    ),
    (DEMO.replace("yes.", ""), 'End it with "So the answer is …'),
]


@pytest.mark.parametrize(("text", "expected"), BAD, ids=range(len(BAD)))
def test_a_file_that_cannot_be_used_says_where_and_what_to_do(tmp_path, text, expected):
    with pytest.raises(InputError, match=expected) as error:
        open_prompts(written(tmp_path, text))
    assert "mine.toml" in str(error.value)


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "latin.toml").write_bytes('heading = "é"'.encode("latin-1"))
    with pytest.raises(PromptsError, match=r"latin\.toml is not UTF-8: convert it to UTF-8"):
        open_prompts(tmp_path / "latin.toml")
    for path in (tmp_path, tmp_path / "absent.toml", tmp_path / "hotpotqa", f"{'x' * 300}.toml"):
        with pytest.raises(PromptsError, match=r"can't read the prompts.*`askance prompts own`"):
            open_prompts(path)
    for name in ("hotpot", "", "x" * 300):
        with pytest.raises(UnknownName, match=r"unknown prompt set.*Known: 2wiki"):
            open_prompts(name)


def test_a_set_without_examples_does_not_speak_of_any():
    assert "example" not in open_prompts("plain").instruction
