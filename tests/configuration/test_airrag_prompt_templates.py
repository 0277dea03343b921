"""Prompt sets of AirRAG: the packaged ones, the content of a file, and where its texts appear."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance.configuration.catalogue import AIRRAG_PROMPT_SETS
from askance.configuration.methods import make_method, method_class, reader_prompts
from askance.configuration.prompts import open_prompts, prompts_toml, to_toml
from askance.core.errors import InputError, PromptsError, UnknownName
from askance.core.types import Demo
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.parameters import DIRECT, Actions
from askance.methods.airrag.prompts import OWN, READER, AirragPromptTemplate, PromptBuilder
from askance.methods.blender import Blender
from tests.methods.bridge import QUESTION, WHERE, model, run

PACKAGED_READER = "airrag-reader-eaea6135"
"""The words that the packaged adapter was trained on: with others it must be trained again."""
MINE = """
base = "airrag"
system = "You are S."
say = "Plan it."
ra = "Read it."
qt = "Turn it."
sa = "Sum it up."
verify = "Choose."
judge = "Is it so? Yes or No."

[[say_demos]]
question = "Own?"
answer = "None"

[[say_demos]]
question = "And this?"
answer = "Who?\\nWhere?"

[[qt_demos]]
question = "Turn?"
answer = "Turned?"
"""


def written(folder, text):
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_packaged_sets():
    templates = [open_prompts(name, AirragPromptTemplate) for name in AIRRAG_PROMPT_SETS]
    assert list(map(str, templates)) == list(AIRRAG_PROMPT_SETS)
    assert repr(READER) == PACKAGED_READER
    assert OWN != READER


@pytest.mark.parametrize("kind", ["rewrite", "step back", "split", "follow-up"])
def test_the_transformation_offers_every_kind_of_the_paper(kind):
    assert kind in OWN.qt
    asked = model()
    run(Airrag(), asked)
    assert any(kind in prompt and "Next query:" in prompt for prompt in asked.prompts)


def test_a_trained_reader_is_asked_with_the_words_it_knows():
    for method in ("airrag", "airrag_lite", "blender"):
        assert reader_prompts(method_class(method), "bundled") == {"prompts": READER}
        assert reader_prompts(method_class(method), "bundled:base") == {}
    assert make_method("airrag", {"prompts": "airrag"}, model="bundled").prompts == OWN
    assert dict(make_method("blender", model="bundled").methods.named)["airrag"].prompts == READER


@pytest.mark.parametrize("name", AIRRAG_PROMPT_SETS)
def test_a_set_survives_being_printed_and_read(name, tmp_path):
    again = open_prompts(written(tmp_path, prompts_toml(name)), AirragPromptTemplate)
    assert again == open_prompts(name, AirragPromptTemplate)
    assert repr(again).split("-")[-1] == repr(open_prompts(name, AirragPromptTemplate)).split("-")[-1]
    assert prompts_toml(tmp_path / "mine.toml") == prompts_toml(name)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.lists(TEXT, min_size=7, max_size=7), st.lists(TEXT, max_size=2))
def test_any_text_survives(tmp_path_factory, texts, questions):
    demos = tuple(Demo(f"{text}?", f"{text}!") for text in questions)
    words = AirragPromptTemplate(*texts, examples=len(demos), say_demos=demos, sa_demos=demos[:1])
    folder = tmp_path_factory.mktemp("prompts")
    (folder / "set.toml").write_text(prompts_toml("airrag"), encoding="utf-8")
    again = written(folder, to_toml(words))
    assert open_prompts(again, AirragPromptTemplate) == words


def test_words_of_a_file_stand_in_the_prompts_of_their_actions(tmp_path):
    path = written(tmp_path, MINE)
    asked = model(scores={"Yes": -1.0, "No": -1.0})
    run(make_method("airrag", {"prompts": str(path), "verifier": "sa", "reward": "rm"}), asked)
    marks = {"Plan it.": "", "Read it.": "[1] ", "Turn it.": "Next query:", "Sum it up.": "Known:"}
    marks |= {"Choose.": "Candidates:"}
    for said, beside in marks.items():
        prompts = [prompt for prompt in asked.prompts if said in prompt]
        assert prompts
        assert all(beside in prompt and "You are S." in prompt for prompt in prompts)
    assert not any(words in prompt for prompt in asked.prompts for words in (OWN.say, OWN.ra, OWN.qt, OWN.sa))
    assert "Is it so?" in "".join(judged(asked, path))


def judged(asked, path):
    result, _ = run(make_method("airrag", {"prompts": str(path), "reward": "rm"}), asked)
    return [event.prompt for event in result.trace.events if event.type == "score"]


def test_blenders_last_call_has_the_words_of_its_own_set(tmp_path):
    path = written(tmp_path, MINE)
    method = make_method("blender", {"methods": "airrag_lite,closed_book", "prompts": str(path)})
    asked = model(context_tokens=9000, answer=" the sea.", elicit=" the sea.")
    run(method, asked)
    assert [prompt for prompt in asked.prompts if "Choose." in prompt] == asked.prompts[-1:]
    assert sum("Read it." in prompt for prompt in asked.prompts) == 0
    assert Blender().prompts == OWN


@pytest.mark.parametrize(
    ("key", "plans", "turns"), [("", 2, 1), ("examples = 1", 1, 1), ("examples = 0", 0, 0)]
)
def test_the_examples_of_a_file_are_shown_unless_it_has_a_number(tmp_path, key, plans, turns):
    template = open_prompts(written(tmp_path, key + MINE), AirragPromptTemplate)
    shown = PromptBuilder(model(capabilities={"raw"}), QUESTION, template)
    assert num_examples(shown.say()) == plans
    assert num_examples(shown.qt((), "")) == turns
    assert num_examples(shown.sa(())) == 0


def num_examples(prompt):
    return sum(span.text == "Question: " for span in prompt.parts) - 1


BAD = [
    ("sy = 'x'", r"unknown key 'sy'.*mine\.toml: did you mean 'say'"),
    ("base = 'hotpotqa'", "unknown base 'hotpotqa'.*Known: airrag, airrag-reader"),
    ("base = ['airrag']", r"base: \['airrag'\] is not a text"),
    ("say = 3", "say: 3 is not a text"),
    ("say = x", r"mine\.toml is not TOML"),
    ("examples = 1", "examples: 1 is not a number from 0 to 0, the number in the file"),
    ("examples = true", "examples: True is not a number"),
    ("say_demos = ['x']", "say_demos, example 1: it is 'x'.*give it a question and an answer"),
    ("qt_demos = 3", r"Begin it with \[\[qt_demos\]\]"),
    (
        "[[sa_demos]]\nquestion = 'x'\nanswer = ' '",
        "sa_demos, example 1: it is .*that are not empty",
    ),
]


@pytest.mark.parametrize(("text", "expected"), BAD, ids=range(len(BAD)))
def test_a_file_that_cannot_be_used_says_where_and_what_to_do(tmp_path, text, expected):
    with pytest.raises(InputError, match=expected) as error:
        make_method("airrag", {"prompts": str(written(tmp_path, text))})
    assert "mine.toml" in str(error.value)


def test_a_base_that_is_no_text_is_told_also_where_the_set_is_printed(tmp_path):
    with pytest.raises(PromptsError, match=r"mine\.toml, base: \['airrag'\] is not a text"):
        prompts_toml(written(tmp_path, "base = ['airrag']"))


def test_names_that_stand_for_nothing(tmp_path):
    with pytest.raises(UnknownName, match="unknown prompt set 'hotpotqa' of airrag"):
        make_method("airrag", {"prompts": "hotpotqa"})
    with pytest.raises(UnknownName, match="did you mean 'airrag'"):
        prompts_toml("airag")
    with pytest.raises(PromptsError, match="can't read the prompts"):
        open_prompts(tmp_path / "absent.toml", AirragPromptTemplate)


def test_the_option_for_prompts_reaches_the_method_and_its_members(tmp_path):
    path = written(tmp_path, MINE)
    assert make_method("airrag", prompts=path).prompts.say == "Plan it."
    with pytest.raises(InputError, match="--prompts and the parameter prompts both name the prompts"):
        make_method("airrag", {"prompts": "airrag"}, prompts=path)
    made = dict(make_method("blender", {"airrag.prompts": str(path)}).methods.named)
    assert (made["airrag"].prompts.say, made["airrag_lite"].prompts) == ("Plan it.", OWN)


def test_a_direct_answer_has_no_instruction_whatever_the_set(tmp_path):
    words = open_prompts(written(tmp_path, MINE), AirragPromptTemplate)
    asked = model()
    run(Airrag(actions=Actions(own=DIRECT), prompts=words), asked)
    (prompt,) = asked.prompts
    assert "it." not in prompt
    assert WHERE not in prompt
