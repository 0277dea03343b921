"""What the recipe of a Self-RAG model asks of it, and that any model with the tokens can be asked."""

import json
from collections import Counter

import pytest
from lab.tests.training.relevance.test_pairs import ANIMALS, COLOURS, example

from askance.core.errors import AskanceError
from askance.models.hf.load import load_hf, load_parts, save_parts
from askance_lab.training.selfrag.group_results import DESIRED
from askance_lab.training.selfrag.vocabulary import add_reflection_tokens
from recipes.selfrag.__main__ import cases, main, measure

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


def test_a_model_that_knows_nothing_separates_nothing_surely(llama_folder, tmp_path):
    module, tokenizer = load_parts(str(llama_folder), device="cpu", dtype="float32")
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


def test_the_whole_recipe_and_that_it_resumes(qwen_folder, tmp_path, capsys):
    file, out = squad_file(tmp_path), tmp_path / "out"
    words = ["--squad2", f"{file}", "--model", f"hf:{qwen_folder}", "--out", f"{out}"]
    for setting in ("rank=4", "rows_per_step=2", "precision=float32", "held_out=0", "max_tokens=400"):
        words += ["--set", setting]
    with pytest.raises(AskanceError, match="negative"):
        main([*words, "--set", "negative=2"])
    assert not out.exists()
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 1, "a model that was hardly trained misses the gate"
    shown = capsys.readouterr().out
    assert shown.count("missed: AUC of relevance") == 1
    before = {path: path.stat().st_mtime_ns for path in (out / "selfrag").iterdir()}
    with pytest.raises(SystemExit):
        main(words)
    assert {path: path.stat().st_mtime_ns for path in (out / "selfrag").iterdir()} == before
    assert capsys.readouterr().out == shown
