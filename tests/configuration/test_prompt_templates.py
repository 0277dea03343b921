"""Prompt sets: the packaged ones, and the files of users, for methods, AirRAG and Self-RAG."""

import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import askance.configuration.prompts
from askance.configuration.catalogue import AIRRAG_PROMPT_SETS, PROMPT_SETS
from askance.configuration.methods import make_method, method_class, notes_on, reader_prompts
from askance.configuration.prompts import open_prompts, prompts_toml, to_toml
from askance.configuration.settings import EngineConfig
from askance.core.errors import InputError, PromptsError, UnknownName
from askance.core.notes import noted
from askance.core.safe_text import printable
from askance.core.trace import Noted
from askance.core.types import Demo, Hit, Passage, Question
from askance.methods.airrag import prompts as airrag
from askance.methods.airrag.method import Airrag
from askance.methods.airrag.parameters import DIRECT, Actions
from askance.methods.airrag.prompts import AirragPromptTemplate, PromptBuilder
from askance.methods.common.prompts import OWN, PromptTemplate, answer_prompt
from askance.methods.selfrag.prompts import OWN_INSTRUCTIONS, Instructions
from askance.methods.selfrag.tokens import ALL_TOKENS
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance.sample import QUESTIONS
from askance.text.answers import awaits_answer, short_answer
from tests.asking import ask
from tests.methods.bridge import QUESTION, WHERE, model, run

EXAMPLES = {
    "own": 4,
    "plain": 0,
    "references": 0,
    "hotpotqa": 8,
    "2wikimultihopqa": 6,
    "musique": 6,
    "iirc": 8,
    "strategyqa": 8,
}
DEMO = '[[demos]]\nquestion = "Own?"\nanswer = "It is. So the answer is yes."\n'
MINE = """
base = "airrag"
system = "You are S."
say = "Plan it."
ra = "Read it."
qt = "Turn it."
sa = "Sum it up."
verify = "Choose."
judge = "Is it so? Yes or No."
say_demos = [{question = "Own?", answer = "None"}, {question = "And this?", answer = "Who?\\nWhere?"}]
qt_demos = [{question = "Turn?", answer = "Turned?"}]
"""
NO = {"Yes": -9.0, "No": -0.1}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def written(folder, text):
    """Write a prompts file; return its path."""
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    return folder / "mine.toml"


@pytest.fixture
def file(tmp_path):
    return lambda text: written(tmp_path, text)


def test_every_packaged_file_is_in_the_table():
    files = (Path(askance.configuration.prompts.__file__).parent / "prompt_sets").glob("*.toml")
    assert {path.stem for path in files} | {"own", "plain"} == set(PROMPT_SETS) == set(EXAMPLES)
    questions = [demo.question for name in PROMPT_SETS for demo in open_prompts(name).demos]
    assert len(set(questions)) == len(questions)
    sample = QUESTIONS.read_text(encoding="utf-8").lower()
    assert not [question for question in questions if question.lower() in sample]


@pytest.mark.parametrize("name", PROMPT_SETS)
def test_examples_are_worked_in_short_sentences_and_end_with_their_answer(name):
    demos = open_prompts(name).demos
    assert len(demos) == EXAMPLES[name]
    for demo in demos:
        assert re.fullmatch(r"[A-Z].*[^ ]\?", demo.question)
        assert re.fullmatch(r"([A-Z].* )?.*[.] So the answer is [^.]+[.]", demo.answer)
        assert demo.answer.count("the answer is") == 1
        assert all(len(sentence.split()) <= 20 for sentence in re.split(r"(?<=[.]) ", demo.answer))


def test_each_set_has_the_answers_of_its_dataset():
    def answers(name):
        demos = open_prompts(name).demos
        return [short_answer(demo.answer, Question("q", demo.question, task="open")) for demo in demos]

    assert sorted(answers("strategyqa")) == ["no"] * 4 + ["yes"] * 4
    assert sum(answer.isdigit() for answer in answers("iirc")) == 4
    assert "yes" in answers("iirc")
    assert {"yes", "no"} <= {*answers("hotpotqa")}
    assert sorted(demo.answer.count(". ") for demo in open_prompts("musique").demos) == [2, 2, 3, 3, 4, 4]
    # Lines that made answers worse; the laboratory adds them in the authors' layout.
    lines = {
        name: open_prompts(name).instruction + open_prompts(name).before_question for name in PROMPT_SETS
    }
    assert [name for name, line in lines.items() if line] == ["references"]


@pytest.mark.parametrize("method", ["dragin", "dragin_paper"])
def test_references_is_the_order_of_section_3_3_of_the_dragin_paper(method):
    template = make_method(method, {"prompts": "references"}).prompts
    hits = [Hit(Passage(name, "", f"About {name}."), 1.0, 1) for name in ("a", "b")]
    prompt = answer_prompt(ScriptedModel(), Question("q", "Who?"), hits, " He was", template=template)
    shown = "".join(span.text for span in (*prompt.parts, *prompt.continuation))
    lines = [template.heading, "[1] About a.", "[2] About b.", "", template.instruction, "Question: Who?"]
    assert shown.split("\n") == [*lines, "Answer: He was"]


AUTHORS = """
import sys, absent
sys.exit("this file was run")
class Base:
    shown = 1
class Rivers(Base):
    examplars: List[Dict] = [
        {'question': "Which sea?", 'ctxs': [(None, "x")], 'cot': ("It is ", "the sea."), 'answer': "it"},
        {'question': "Is it?", 'cot': "It is.", 'answer': "yes"},
    ]
    demo_input_template = lambda self, ques: f'Question: {ques}\\nAnswer:'
    test_input_template = lambda self, ques: f'Think first.\\n\\nQuestion: {ques}\\nAnswer:'
class Lakes(Base):
    examplars = [{"question": "Deep?", "cot": "It is.", "answer": "no"}]
    demo_input_template = test_input_template = lambda self, ques: f'Question: {ques}\\nAnswer:'
class Odd:
    examplars = [{"question": "Deep?", "cot": "It is."}]
class Made:
    examplars = [sys.exit()]
class Empty:
    examplars = []
"""


@pytest.fixture
def authors(tmp_path):
    (tmp_path / "data.py").write_text(AUTHORS, encoding="utf-8")
    return f"{tmp_path}/data.py"


def test_the_prompts_of_the_dragin_authors_are_read_and_never_run(authors, file):
    rivers = open_prompts(f"{authors}?class=Rivers")
    first = Demo("Which sea?", "It is the sea. So the answer is it.")
    assert rivers == PromptTemplate(
        (first, Demo("Is it?", "It is. So the answer is yes.")), before_question="Think first.\n\n"
    )
    assert rivers.places == dict.fromkeys(("demos", "before_question"), f"prompts {authors}, class Rivers")
    assert open_prompts(f"{authors}?class=Rivers&examples=1").demos == (first,)
    lakes = make_method("dragin", {"prompts": f"{authors}?class=Lakes"}).prompts
    assert lakes == PromptTemplate((Demo("Deep?", "It is. So the answer is no."),))
    assert open_prompts(file(prompts_toml(f"{authors}?class=Rivers"))) == rivers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", r"data\.py.class=…"),
        ("?class=Base", "Rivers"),
        ("?class=River", "did you mean 'Rivers'"),
        ("?klass=Rivers", "did you mean 'class'"),
        ("?class=Rivers&examples=3", "'3' is not a number from 1 to 2"),
        ("?class=Rivers&examples=0", "'0' is not a number from 1 to 2"),
        (
            "?class=Odd",
            "class Odd: the examples can't be used, field 0.answer: .*src/data.py of the DRAGIN authors",
        ),
        ("?class=Made", "class Made: the examples can't be used: they are no literals. Name"),
        ("?class=Empty", "class Empty: the examples can't be used: .* at least 1 item"),
    ],
)
def test_options_and_classes_of_the_authors_file_that_are_wrong(authors, options, message):
    with pytest.raises(InputError, match=message):
        open_prompts(authors + options)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "can't read the prompts file .*No such file"),
        (b"class A(:", "is not Python"),
        (b"\0", "is not Python"),
        (b"(" * 5000, "is not Python"),
        (b"-" * 100_000 + b"1", r"is not Python \(.+\)"),
        (b"#" * 1_000_001, "more than 1,000,000 bytes"),
    ],
)
def test_files_that_are_not_the_authors_file(tmp_path, content, message):
    if content is not None:
        (tmp_path / "data.py").write_bytes(content)
    with pytest.raises(PromptsError, match=message):
        open_prompts(f"{tmp_path}/data.py?class=HotpotQA")


def test_the_repr_shows_the_name_and_changes_with_the_content():
    assert (open_prompts("own") is OWN, str(OWN), repr(OWN)[:4]) == (True, "own", "own-")
    assert re.fullmatch(r"hotpotqa-[0-9a-f]{8}", repr(open_prompts("hotpotqa")))
    assert re.fullmatch(r"prompts-[0-9a-f]{8}", repr(PromptTemplate(heading="Found:")))
    assert repr(PromptTemplate(heading="Found:", name="own")) not in (repr(OWN), str(OWN))
    assert PromptTemplate(name="mine") == OWN
    # The packaged adapter was trained on these words: with others it must be trained again.
    assert repr(airrag.READER) == "airrag-reader-eaea6135"


SETS = [(name, PromptTemplate) for name in PROMPT_SETS]
SETS += [(name, AirragPromptTemplate) for name in AIRRAG_PROMPT_SETS]


@pytest.mark.parametrize(("name", "kind"), SETS)
def test_a_set_survives_being_printed_and_read(file, name, kind):
    shown = prompts_toml(name)
    again = open_prompts(file(shown), kind)
    assert again == open_prompts(name, kind)
    assert repr(again).split("-")[-1] == repr(open_prompts(name, kind)).split("-")[-1]
    assert prompts_toml(file(shown)) == shown


@given(st.lists(TEXT, max_size=2), TEXT, TEXT, TEXT, TEXT)
def test_any_text_survives(tmp_path_factory, questions, heading, instruction, before, system):
    assume(awaits_answer(f"{before} the answer is"))  # not where `before` says it, too
    demos = tuple(Demo(f"{text}?", f"{text} So the answer is {text}x.") for text in questions)
    template = PromptTemplate(demos, heading, instruction, before, system, f"{before} the answer is")
    words = AirragPromptTemplate(
        heading, instruction, before, system, *["x"] * 3, len(demos), demos, demos[:1]
    )
    for each in (template, words):
        path = tmp_path_factory.mktemp("prompts") / "set.toml"
        path.write_text(to_toml(each), encoding="utf-8")
        assert open_prompts(path, type(each)) == each
        assert printable(to_toml(each)) == to_toml(each)


def test_what_a_file_leaves_out_comes_from_its_base(tmp_path, file):
    demo = Demo("Own?", "It is. So the answer is yes.")
    assert open_prompts(file(DEMO)) == PromptTemplate((demo,))
    mine = open_prompts(file('base = "strategyqa"\nheading = "Found:"\n'))
    assert mine.demos == open_prompts("strategyqa").demos
    assert (mine.heading, mine.name, mine.system) == ("Found:", "prompts", open_prompts("strategyqa").system)
    assert mine.places == {"heading": f"prompts {tmp_path}/mine.toml, heading"}
    assert open_prompts(file("demos = []")).demos == ()
    (tmp_path / "windows.toml").write_bytes(b"\xef\xbb\xbf" + DEMO.replace("\n", "\r\n").encode())
    assert open_prompts(str(tmp_path / "windows.toml")).demos == (demo,)
    instructions = open_prompts(file('claim = "Is it?"\nbiography = "Tell it.\\n"\n'), Instructions)
    assert instructions == Instructions(claim="Is it?", biography="Tell it.\n")
    assert make_method("selfrag", {"instructions": str(tmp_path / "mine.toml")}).instructions == instructions
    assert make_method("selfrag", {"instructions": "own"}).instructions == OWN_INSTRUCTIONS


BAD = [
    (PromptTemplate, "headin = 'x'", r"unknown key 'headin'.*mine\.toml: did you mean 'heading'"),
    (PromptTemplate, "name = 'x'", "unknown key 'name'"),
    (PromptTemplate, "base = 'hotpot'", "unknown base 'hotpot'.*did you mean 'hotpotqa'"),
    (PromptTemplate, "base = 3", r"mine\.toml, base: 3 is not a text"),
    (PromptTemplate, "heading = 3", "heading: 3 is not a text. Write it between quotation marks"),
    (PromptTemplate, "heading = x", r"mine\.toml is not TOML"),
    (PromptTemplate, "heading = 1" + "0" * 5000, "not TOML"),
    (PromptTemplate, "demos = " + "[" * 100_000, "not TOML"),
    (PromptTemplate, "demos = 'x'", r"example 1: it is 'x'. Begin it with \[\[demos\]\]"),
    (PromptTemplate, "demos = ['x']", "example 1: it is 'x'"),
    (PromptTemplate, "[[demos]]", "example 1: it is {}.*give it a question and an answer"),
    (PromptTemplate, DEMO + "id = 1", "it is {.*'id': 1}.*and nothing else"),
    (PromptTemplate, DEMO + "heading = 'x'", "What belongs to the whole set stands above the first"),
    (PromptTemplate, DEMO + DEMO.replace("Own?", " "), "example 2: it is .*two texts that are not empty"),
    (PromptTemplate, DEMO.replace('"Own?"', "5"), "example 1: it is {'question': 5"),
    (
        PromptTemplate,
        DEMO.replace("So the answer is yes.", "Yes."),
        "'It is. Yes.' does not state the answer",
    ),
    (PromptTemplate, DEMO.replace("yes.", ""), 'End it with "So the answer is …'),
    (PromptTemplate, "elicitation = 'In short:'", "no answer can be read after 'In.*ask_short_answer=no"),
    (PromptTemplate, "elicitation = ''", "elicitation: no answer can be read after ''"),
    (PromptTemplate, "elicitation = 'The answer is: the answer is'", '"the answer is" once, at its end'),
    (AirragPromptTemplate, "sy = 'x'", r"unknown key 'sy'.*mine\.toml: did you mean 'say'"),
    (AirragPromptTemplate, "base = 'hotpotqa'", "unknown base 'hotpotqa'.*Known: airrag, airrag-reader"),
    (AirragPromptTemplate, "base = ['airrag']", r"base: \['airrag'\] is not a text"),
    (AirragPromptTemplate, "say = 3", "say: 3 is not a text"),
    (AirragPromptTemplate, "examples = 1", "examples: 1 is not a number from 0 to 0, the number in the file"),
    (AirragPromptTemplate, "examples = true", "examples: True is not a number"),
    (AirragPromptTemplate, "say_demos = ['x']", "say_demos, example 1: it is 'x'.*give it a question"),
    (AirragPromptTemplate, "qt_demos = 3", r"Begin it with \[\[qt_demos\]\]"),
    (AirragPromptTemplate, "sa_demos = [{question = 'x', answer = ' '}]", "sa_demos, example 1.*not empty"),
    (Instructions, 'clame = "Is it?"', "clame.*claim"),
    (Instructions, "claim = 1", r"mine\.toml, claim: 1 is not a text"),
    (Instructions, "claim =", r"mine\.toml is not TOML"),
]


@pytest.mark.parametrize(("kind", "text", "expected"), BAD, ids=range(len(BAD)))
def test_a_file_that_cannot_be_used_is_named_with_a_remedy(file, kind, text, expected):
    with pytest.raises(InputError, match=expected) as error:
        open_prompts(file(text), kind)
    assert "mine.toml" in str(error.value)
    with pytest.raises(PromptsError, match=r"mine\.toml, base: \['airrag'\] is not a text"):
        prompts_toml(file("base = ['airrag']"))


def test_names_and_files_that_do_not_exist(tmp_path):
    (tmp_path / "latin.toml").write_bytes('heading = "é"'.encode("latin-1"))
    with pytest.raises(PromptsError, match=r"latin\.toml is not UTF-8: convert it to UTF-8"):
        open_prompts(tmp_path / "latin.toml")
    for path in (tmp_path, tmp_path / "absent.toml", tmp_path / "hotpotqa", f"{'x' * 300}.toml"):
        with pytest.raises(PromptsError, match=r"can't read the prompts.*`askance prompts own`"):
            open_prompts(path)
    with pytest.raises(PromptsError, match=r"can't read the prompts .*nowhere.* to change: question, claim"):
        open_prompts(tmp_path / "nowhere.toml", Instructions)
    for kind, name, told in (
        (PromptTemplate, "hotpot", r"unknown prompt set.*Known: 2wiki"),
        (PromptTemplate, "", r"unknown prompt set.*Known: 2wiki"),
        (PromptTemplate, "x" * 300, r"unknown prompt set.*Known: 2wiki"),
        (AirragPromptTemplate, "hotpotqa", "unknown prompt set 'hotpotqa' of airrag"),
        (Instructions, "nowhere", r"unknown prompt set 'nowhere' of selfrag.*Known: own"),
    ):
        with pytest.raises(UnknownName, match=told):
            open_prompts(name, kind)
    with pytest.raises(UnknownName, match="did you mean 'airrag'"):
        prompts_toml("airag")


LINES = 'instruction = "Only a name."\nbefore_question = "Now: "\n'
CHAT = ScriptedModel(capabilities=frozenset({"chat", "continuation"}))
NATIVE = ScriptedModel(control=ALL_TOKENS)


@pytest.mark.parametrize(
    ("asked", "heading", "expected"),
    [
        (ScriptedModel(), "Context:", "Context:\n[1] B: c.\n\nOnly a name.\nNow: Question: Q?\nAnswer:"),
        (CHAT, "Context:", "<|user|>Context:\n[1] B: c.\n\nOnly a name.\nNow: Q?<|end|><|assistant|>"),
        (ScriptedModel(), "", "Only a name.\nNow: Question: Q?\nAnswer:"),
        (CHAT, "", "<|user|>Only a name.\nNow: Q?<|end|><|assistant|>"),
    ],
)
def test_the_lines_of_a_file_are_in_every_layout(file, asked, heading, expected):
    hits = [Hit(Passage("b", "B", "c."), 1, 1)] if heading else []
    prompt = answer_prompt(
        asked, Question("q", "Q?"), hits, template=open_prompts(file("demos = []\n" + LINES))
    )
    assert asked.decode(asked.prompt_ids(prompt)).endswith(expected)


@pytest.mark.parametrize("layout", ["raw", "chat"])
def test_the_instruction_of_a_search_agent_comes_without_examples(file, layout):
    """The examples of the base, and its system turn, ask for another form of the answer."""
    model = ScriptedModel(lambda prompt, key: Reply("<answer>it</answer>"))
    prompts = file('before_question = "Use tags.\\n"')
    method = make_method("search_agent", {"layout": layout, "prompts": prompts})
    asyncio.run(ask(Question("q", "Where?"), method, {"answer": model}, ScriptedRetriever([])))
    question = "Question: Where?\nAnswer:" if layout == "raw" else "Where?<|end|><|assistant|>"
    start = "" if layout == "raw" else "<|user|>"
    assert list(model.prompts) == [f"{start}Use tags.\n{question}"]


@pytest.mark.parametrize(
    ("method", "text", "asked", "expected"),
    [
        ("flare", LINES + 'heading = "Found:"', ScriptedModel(), ""),
        ("flare", 'system = "S."', ScriptedModel(), "system: .* no system turn: call it instruction, which"),
        ("flare(layout=chat)", 'system = "S."', ScriptedModel(), ""),
        ("flare", 'system = "S."', CHAT, ""),
        ("flare", 'base = "strategyqa"', ScriptedModel(), ""),  # its base has a system turn, too
        ("flare", "strategyqa", ScriptedModel(), ""),
        ("closed_book", 'heading = "Found:"', CHAT, "heading: .* since closed_book shows no passages: leave"),
        (
            "single(ask_short_answer=no)",
            'elicitation = " So the answer is:"',
            CHAT,
            "elicitation: .*asks for",
        ),
        ("blender(a=flare(), b=single())", "", CHAT, ""),
        ("search_agent", 'before_question = "Use tags."', CHAT, ""),
        (
            "search_agent",
            'heading = "Found:"',
            CHAT,
            "heading: .* search_agent has before_question as its only",
        ),
        ("selfrag", LINES, ScriptedModel(), "a note"),
        (
            "selfrag",
            LINES,
            NATIVE,
            "instruction: .* scripted was trained on prompts of its own: .*instructions",
        ),
    ],
)
def test_a_text_without_effect_is_refused(file, method, text, asked, expected):
    prompts = {"prompts": file(text) if "=" in text else text} if text else {}
    notes = notes_on(make_method(method, **prompts), {"answer": asked}, "")
    if ":" not in expected:
        assert len(list(notes)) == bool(expected)
        return
    with pytest.raises(PromptsError, match=rf"mine\.toml, {expected}"):
        list(notes)


@pytest.mark.parametrize(
    ("method", "model_spec", "prompts", "asked", "expected"),
    [
        (
            "single",
            "bundled",
            "own",
            ScriptedModel(),
            ["bundled was trained on the prompts plain, and .* single"],
        ),
        ("single", "bundled", "plain", ScriptedModel(), []),
        ("single", "bundled:base", "own", ScriptedModel(), []),
        ("airrag", "bundled", "airrag", ScriptedModel(), ["the prompts airrag-reader, .* for airrag"]),
        (
            "selfrag",
            "bundled:base",
            None,
            ScriptedModel(),
            ["selfrag asks scripted in words.*bundled:selfrag"],
        ),
        ("selfrag(scorer=prompted)", "bundled:base", None, ScriptedModel(), []),
        ("selfrag", "bundled:selfrag", None, NATIVE, []),
        ("blender(a=selfrag(), b=single())", "", None, ScriptedModel(), ["selfrag asks scripted"]),
    ],
)
def test_notes_on_a_method_with_a_model(method, model_spec, prompts, asked, expected):
    made = make_method(method, model=model_spec, prompts=prompts)
    notes = list(notes_on(made, {"answer": asked}, model_spec))
    assert len(notes) == len(expected)
    assert all(map(re.search, expected, notes))


def test_a_note_is_given_once_and_traced():
    notes, found = list[str](), ScriptedRetriever([])
    with noted(lambda name, text: notes.append(text)):
        engine = EngineConfig(
            method="selfrag", models={"answer": ScriptedModel(scores=NO)}, retriever=found
        ).open()
    (text,) = notes
    traced = [event.text for event in engine.ask("Who?").trace.events if isinstance(event, Noted)]
    assert (traced, "selfrag asks scripted in words" in text) == ([text], True)


# The prompts of AirRAG in its methods.


def test_a_trained_reader_gets_the_prompts_it_was_trained_with():
    for method in ("airrag", "airrag_lite", "blender"):
        assert reader_prompts(method_class(method), "bundled") == {"prompts": airrag.READER}
        assert reader_prompts(method_class(method), "bundled:base") == {}
    assert make_method("airrag", {"prompts": "airrag"}, model="bundled").prompts == airrag.OWN
    assert dict(make_method("blender", model="bundled").methods.named)["airrag"].prompts == airrag.READER


def test_the_texts_of_a_file_are_in_the_prompts_of_their_actions(file):
    path = file(MINE)
    asked = model(scores={"Yes": -1.0, "No": -1.0})
    method = make_method("airrag", {"prompts": str(path), "verifier": "sa", "reward": "rm"})
    result, _ = run(method, asked)
    marks = {"Plan it.": "", "Read it.": "[1] ", "Turn it.": "Next query:", "Sum it up.": "Known:"}
    for said, beside in {**marks, "Choose.": "Candidates:"}.items():
        prompts = [prompt for prompt in asked.prompts if said in prompt]
        assert prompts
        assert all(beside in prompt and "You are S." in prompt for prompt in prompts)
    own = (airrag.OWN.say, airrag.OWN.ra, airrag.OWN.qt, airrag.OWN.sa)
    assert not any(words in prompt for prompt in asked.prompts for words in own)
    assert all(kind in airrag.OWN.qt for kind in ("rewrite", "step back", "split", "follow-up"))
    assert "Is it so?" in "".join(event.prompt for event in result.trace.events if event.type == "score")
    alone = model()
    run(Airrag(actions=Actions(own=DIRECT), prompts=open_prompts(path, AirragPromptTemplate)), alone)
    (prompt,) = alone.prompts
    assert "it." not in prompt
    assert WHERE not in prompt


def test_the_option_for_prompts_reaches_the_method_and_its_members(file):
    path = file(MINE)
    assert make_method("airrag", prompts=path).prompts.say == "Plan it."
    with pytest.raises(InputError, match="--prompts and the parameter prompts both name the prompts"):
        make_method("airrag", {"prompts": "airrag"}, prompts=path)
    made = dict(make_method("blender", {"airrag.prompts": str(path)}).methods.named)
    assert (made["airrag"].prompts.say, made["airrag_lite"].prompts) == ("Plan it.", airrag.OWN)
    method = make_method("blender", {"methods": "airrag_lite,closed_book", "prompts": str(path)})
    asked = model(context_tokens=9000, answer=" the sea.", elicit=" the sea.")
    run(method, asked)
    assert [prompt for prompt in asked.prompts if "Choose." in prompt] == asked.prompts[-1:]
    assert not any("Read it." in prompt for prompt in asked.prompts)


@pytest.mark.parametrize(
    ("key", "plans", "turns"), [("", 2, 1), ("examples = 1", 1, 1), ("examples = 0", 0, 0)]
)
def test_the_examples_of_a_file_are_shown_unless_it_has_a_number(file, key, plans, turns):
    template = open_prompts(file(key + MINE), AirragPromptTemplate)
    shown = PromptBuilder(model(capabilities={"raw"}), QUESTION, template)
    prompts = (shown.say(), shown.qt((), ""), shown.sa(()))
    counts = [sum(span.text == "Question: " for span in prompt.parts) - 1 for prompt in prompts]
    assert counts == [plans, turns, 0]
