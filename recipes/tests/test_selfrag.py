"""What the recipe of a Self-RAG model asks of it, and that any model with the tokens can be asked."""

import json
from collections import Counter

import pytest
from lab.tests.training.relevance.test_pairs import ANIMALS, COLOURS, example
from studies.tests.test_commands import FILES, called
from tests.contracts.model_contract import run
from tests.evaluation.hand_made import record, written

from askance.ask import ask
from askance.core.trace import Expanded
from askance.core.types import Passage, Question
from askance.evaluation.run.recorded_run import read_run
from askance.methods.selfrag.tokens import ALL_TOKENS, IRRELEVANT
from askance.models.hf.load import load_hf, load_parts, save_parts
from askance.models.scripted import Reply, ScriptedModel
from askance.retrieval.scripted import ScriptedRetriever
from askance_lab.training.selfrag.gold_rows import gold_rows
from askance_lab.training.selfrag.group_results import DESIRED
from askance_lab.training.selfrag.settings import SelfRagSettings
from askance_lab.training.selfrag.vocabulary import add_reflection_tokens
from recipes.selfrag.__main__ import main
from recipes.selfrag.evaluation import cases, measure
from recipes.selfrag.plain import PlainReader, plain_rows
from recipes.selfrag.reading import METHODS, METRIC, WEIGHTS, _best, chosen_again

EXAMPLES = [example(number, title=f"Animals {number % 2}") for number in range(10)]


def shown(spans):
    return "".join(span.text for span in spans)


def test_the_cases():
    made = list(cases(EXAMPLES, EXAMPLES))
    assert Counter(case.label for case in made) == {
        "[Relevant]": 10, "[Irrelevant]": 40,
        "[Fully supported]": 10, "[No support / Contradictory]": 10,
        "[Retrieval]": 10, "[No Retrieval]": 10,
    }  # fmt: skip
    assert all((case.bm25 is not None) == (case.group == "relevance") for case in made)
    for case in made:
        is_desired = case.label in DESIRED[case.group]
        (animal,) = (each for each in ANIMALS if f"the {each}?" in shown(case.prompt))
        right, written = COLOURS[ANIMALS.index(animal)], shown(case.written)
        if case.group == "relevance":
            assert (f"It is {right}" in written) == is_desired
        elif case.group == "support":
            assert written.endswith(f"[Relevant]{right}") == is_desired
        else:
            assert written == ""
            assert (f"It is {right}" in shown(case.prompt)) != is_desired


@pytest.mark.parametrize("name", ["llama_folder", "qwen_folder"])
def test_a_model_that_knows_nothing_separates_nothing_surely(request, tmp_path, name):
    module, tokenizer = load_parts(str(request.getfixturevalue(name)), device="cpu", dtype="float32")
    add_reflection_tokens(module, tokenizer)
    (tmp_path / "made").mkdir()
    save_parts(module, tokenizer, tmp_path / "made")
    model = load_hf(str(tmp_path / "made"), device="cpu", dtype="float32")
    found = measure(model, list(cases(EXAMPLES, EXAMPLES)))
    assert {group: each.num_cases for group, each in found.items()} == {
        "relevance": 50, "support": 20, "retrieve": 20,
    }  # fmt: skip
    assert all(0 <= each.area.area <= 1 for each in found.values())
    assert found["relevance"].by_bm25.area == 1.0, "the question names the animal"
    assert found["support"].by_bm25 is None


def squad_file(folder):
    """Write a file of SQuAD 2.0 with an article that is held out and one that is not."""

    def article(title, animals):
        paragraphs = []
        for animal, colour in animals:
            text = f"The {animal} was {colour}. It ran."
            answer = {"text": colour, "answer_start": text.index(colour)}
            asked = {"id": f"{title} {animal}", "question": f"What was the {animal}?", "answers": [answer]}
            paragraphs.append({"context": text, "qas": [asked | {"is_impossible": False}]})
        return {"title": title, "paragraphs": paragraphs}

    pairs = [*zip(ANIMALS, COLOURS, strict=True)]
    data = [article("Normans", pairs[:4]), article("Rome", pairs[4:])]
    path = folder / "squad2.json"
    path.write_text(json.dumps({"version": "v2.0", "data": data}))
    return path


def test_the_whole_recipe_with_its_ablations_and_that_it_resumes(qwen_folder, tmp_path, capsys):
    file, out = squad_file(tmp_path), tmp_path / "out"
    words = ["--squad2", f"{file}", "--model", f"hf:{qwen_folder}", "--ablations", "--out", f"{out}"]
    for setting in ("rank=4", "rows_per_step=2", "precision=float32", "held_out=0", "max_tokens=400"):
        words += ["--set", setting]
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 1, "a model that was hardly trained misses the gate"
    shown = capsys.readouterr().out
    assert shown.count("missed: AUC of relevance") == 1
    assert shown.index("missed: AUC of relevance") < shown.index("the page is")  # each stage has its verdict
    assert "missed: reflection gains at least 4 points" in " ".join(shown.split())
    page = (out / "page" / "reflection.md").read_text()
    assert all(f"| `{name}` |" in page for name in (*METHODS, *WEIGHTS))
    assert (out / "page" / "reflection.svg").exists()
    assert {path.name for path in (out / "runs" / "squad2" / "trained").iterdir()} == {*METHODS}
    asked = read_run(out / "runs" / "squad2" / "trained" / "selfrag")
    assert chosen_again(asked, {}) == {each.id: each.scores[METRIC] for each in asked.records}
    before = {path: path.stat().st_mtime_ns for path in (out / "selfrag").iterdir()}
    with pytest.raises(SystemExit):
        main(words)
    assert {path: path.stat().st_mtime_ns for path in (out / "selfrag").iterdir()} == before
    assert (out / "page" / "reflection.md").read_text() == page


def test_a_failed_question_stays_wrong_with_other_weights(tmp_path):
    run = written(tmp_path / "run", [record(0, error="ModelFailure: out of memory"), record(1)])
    assert chosen_again(run, {"support": 0.0}) == {"q0": 0.0, "q1": 1.0}


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({}, "supported"),
        ({"support": 0.0}, "relevant"),
        ({"support": 0.0, "relevance": 0.0}, "likely"),
        ({"support": 0.0, "relevance": 0.0, "utility": 5.0}, "useful"),
    ],
)
def test_an_answer_chosen_with_other_weights(weights, expected):
    names = ("sequence", "relevance", "support", "utility")
    numbers = {
        "likely": (0.9, 0.1, 0.1, 0.1),
        "relevant": (0.5, 0.9, 0.1, 0.1),
        "supported": (0.5, 0.4, 0.9, 0.1),
        "useful": (0.2, 0.1, 0.1, 0.9),
        "": (1.0, 1.0, 1.0, 1.0),
    }
    events = [
        Expanded(id=number, parent=None, at_seconds=0.0, node=f"{number}", action="retrieve", text=text,
                 numbers=dict(zip(names, each, strict=True)))
        for number, (text, each) in enumerate(numbers.items())
    ]  # fmt: skip
    assert _best(events, weights) == expected
    assert _best([], weights) == ""


def test_rows_without_tokens():
    rows = gold_rows("animals", EXAMPLES, SelfRagSettings(negatives=1, in_question=1.0))
    plain = list(plain_rows(rows))
    assert len(plain) == len([row for row in rows if row.learned == "all" and IRRELEVANT not in row.output])
    assert not any(token in row.output for row in plain for token in ALL_TOKENS)
    for row in plain:
        assert row.output in f"{row.input} {row.instruction}"
    assert {row.input for row in plain_rows(rows, with_passages=False)} == {""}


@pytest.mark.parametrize(
    ("reads", "expected"), [("none", "blank"), ("first", "It is"), ("all", "both"), ("each", "sure")]
)
def test_a_plain_reader_reads_what_it_is_given(reads, expected):
    passages = [Passage("a", "A", "It is red."), Passage("b", "B", "It is blue.")]

    def reply(prompt, key):
        if "red." in prompt and "blue." in prompt:
            return "both"
        if "blue." in prompt:
            return Reply("sure", sureness=0.99)
        return Reply("It is", sureness=0.3) if "red." in prompt else "blank"

    answer = run(ask(Question("q", "What is it?"), PlainReader(reads=reads, passages=2),
                     {"answer": ScriptedModel(reply)}, ScriptedRetriever(passages))).answer  # fmt: skip
    assert answer.text == expected


def test_bad_input_exits_with_2_and_writes_nothing(tmp_path):
    words = ["--squad2", FILES / "squad2.json", "--set", "negative=2", "--out", tmp_path / "made"]
    told = called("recipes.selfrag", *words)
    assert (told.returncode, told.stdout) == (2, "")
    assert "negative" in told.stderr
    assert not list(tmp_path.iterdir())
