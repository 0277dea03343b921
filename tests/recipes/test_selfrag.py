"""What the recipe of a Self-RAG model asks of it, and that any model with the tokens can be asked."""

from collections import Counter

import pytest
from recipes.selfrag.evaluation import cases, measure

from askance.models.hf.load import load_hf, load_parts, save_parts
from askance.training.selfrag.group_results import DESIRED
from askance.training.selfrag.vocabulary import add_reflection_tokens
from tests.recipes.test_commands import FILES, called
from tests.training.relevance.test_pairs import ANIMALS, COLOURS, example

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


def test_bad_input_exits_with_2_and_writes_nothing(tmp_path):
    words = ["--squad2", FILES / "squad2.json", "--set", "negative=2", "--out", tmp_path / "made"]
    told = called("recipes.selfrag", *words)
    assert (told.returncode, told.stdout) == (2, "")
    assert "negative" in told.stderr
    assert not list(tmp_path.iterdir())
