"""From rows with reflection tokens to a model that writes them."""

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from askance.core.errors import InputError
from askance.core.types import GenerateRequest, Raw, Sampling, untrusted
from askance.methods.selfrag.prompts import instruction_prompt
from askance.methods.selfrag.tokens import (
    ALL_TOKENS,
    NO_RETRIEVAL,
    RETRIEVAL,
    WANTED,
    ReflectionVocabulary,
    distribution,
    has_reflection_tokens,
)
from askance.models.hf.load import load_hf, load_parts
from askance.models.llama_cpp import load_gguf
from askance_lab.training.reader.train_reader import load_base
from askance_lab.training.selfrag.rows import SelfRagRow, read_rows
from askance_lab.training.selfrag.settings import SelfRagSettings
from askance_lab.training.selfrag.train_selfrag import data_mix, train_selfrag
from askance_lab.training.selfrag.vocabulary import add_reflection_tokens
from tests.contracts.model_contract import run
from tests.models.tiny_gguf import save_gguf, tiny_llama
from tests.tolerances import assert_near

SQUAD = Path(__file__).parents[4] / "tests" / "evaluation" / "datasets" / "files" / "squad2.json"
ROWS = tuple(
    SelfRagRow(f"{number}", "nq", f"Where is it {number}?", "", output)
    for number in range(6)
    for output in [
        "[Retrieval]<paragraph>Ulm\nIt is in Ulm.</paragraph>[Relevant]In Ulm.[Fully supported][Utility:5]"
        if number % 2
        else "[No Retrieval]In Bonn.[Utility:2]"
    ]
)


def settings(**changed):
    given = {"rank": 4, "max_tokens": 512, "rows_per_step": 1, "held_out": 0.0, "learning_rate": 0.02}
    return SelfRagSettings(**(given | {"precision": "float32"} | changed))


def trained(folder, out, rows=ROWS, **changed):
    """Train on a copy of a tiny model."""
    base = load_base(f"hf:{folder}", device="cpu")
    return base, train_selfrag({"rows.jsonl": rows}, base, settings(**changed), out)


@pytest.fixture(params=["llama_folder", "qwen_folder"])
def folder(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("method", ["lora", "full"])
def test_a_model_that_self_rag_recognises(folder, tmp_path, method):
    _, report = trained(folder, tmp_path / "made", method=method, epochs=15)
    assert report.curve[-1].loss < 0.7 * report.curve[0].loss
    assert {path.name for path in tmp_path.iterdir()} == {"made"}
    assert len({path.stat().st_mode for path in (tmp_path / "made").iterdir()}) == 1
    model = load_hf(str(tmp_path / "made"), device="cpu", dtype="float32")
    assert has_reflection_tokens(model)
    ids = ReflectionVocabulary.of(model).ids
    prompt = Raw(instruction_prompt((untrusted("Where is it 1?"),)))
    (written,) = run(model.generate(GenerateRequest(prompt, Sampling(1), WANTED, key=("t",))))
    first, never = (distribution(written.tokens, group) for group in ("retrieve", "relevance"))
    begins = first[RETRIEVAL] + first[NO_RETRIEVAL]
    assert begins > max(0.15, sum(never.values())), "an answer begins with a retrieve token"
    card = (tmp_path / "made" / "README.md").read_text()
    assert "| `[Utility:5]` | 3 |" in card
    assert sorted(ids) == sorted(ALL_TOKENS)


def test_a_finished_model_is_measured_on_rows_held_out(folder, tmp_path):
    found, base = [], load_base(f"hf:{folder}", device="cpu")
    options = settings(held_out=0.5, measured=2)
    rows = tuple(
        replace(row, instruction=f"{row.instruction} {number}") for row in ROWS for number in range(4)
    )
    train_selfrag({"rows.jsonl": rows}, base, options, tmp_path / "made", on_end=found.append)
    (accepted,) = found
    assert accepted.results["retrieve"].num_cases == 2
    assert accepted.num_written + accepted.num_unfinished == 2
    card = (tmp_path / "made" / "README.md").read_text()
    assert f"| retrieve | 2 | {accepted.results['retrieve'].accuracy:.3f} |" in card
    assert (
        f"Of {accepted.num_written} answers" in card or f"{accepted.num_unfinished} more had no end" in card
    )


def test_an_adapter_moves_the_new_rows_and_no_other(folder, tmp_path):
    plain, _ = load_parts(str(folder), device="cpu", dtype="float32")
    trained(folder, tmp_path / "made")
    made, tokenizer = load_parts(str(tmp_path / "made"), device="cpu", dtype="float32")
    before, after = (each.get_input_embeddings().weight for each in (plain, made))
    new = [tokenizer.convert_tokens_to_ids(token) for token in ALL_TOKENS]
    old = [id for id in range(len(before)) if id not in new]
    assert torch.equal(before[old], after[old])
    outputs = [each.get_output_embeddings().weight for each in (plain, made)]
    assert torch.equal(outputs[0][old], outputs[1][old])
    assert plain.config.tie_word_embeddings == made.config.tie_word_embeddings
    start = load_base(f"hf:{folder}", device="cpu")
    added = add_reflection_tokens(start.module, start.tokenizer)
    first = start.module.get_input_embeddings().weight
    seen = [added.ids[token] for token in ALL_TOKENS if any(token in row.output for row in ROWS)]
    assert all(not torch.equal(first[id], after[id]) for id in seen)
    assert added.is_tied == made.config.tie_word_embeddings


def test_new_rows_start_as_the_mean_of_their_words_and_known_strings_keep_their_ids(folder):
    base = load_base(f"hf:{folder}", device="cpu")
    base.tokenizer.add_tokens(["[Relevant]"])  # an ordinary token that was added
    num_rows = len(base.tokenizer) + 40
    base.module.resize_token_embeddings(num_rows, mean_resizing=False)  # and padded rows
    id = base.tokenizer.convert_tokens_to_ids("[Relevant]")
    before = base.module.get_input_embeddings().weight.detach().clone()
    added = add_reflection_tokens(base.module, base.tokenizer)
    words = base.tokenizer.encode(" No Retrieval", add_special_tokens=False)
    row = base.module.get_input_embeddings().weight[added.ids["[No Retrieval]"]]
    assert_near(row.detach().numpy(), before[words].mean(dim=0).numpy(), "two layers", "float32")
    assert added.ids["[Relevant]"] == id
    assert {*added.new} == {*ALL_TOKENS} - {"[Relevant]"}
    assert base.module.get_input_embeddings().num_embeddings == num_rows, "padded rows are used first"
    again = add_reflection_tokens(base.module, base.tokenizer)
    assert (again.new, again.ids) == ((), added.ids)


def test_rows_about_one_document_are_held_out_together():
    rows = [
        SelfRagRow(f"q{at}", "squad2", f"Question {at}?", "", "Ulm.[Utility:5]", topic=f"T{at // 5}")
        for at in range(200)
    ]
    made, _ = data_mix({"folder/rows.jsonl": rows}, settings(held_out=0.3))
    topics = [
        {int(each.id.rpartition("/q")[2]) // 5 for each in some} for some in (made.training, made.held_out)
    ]
    assert topics[0].isdisjoint(topics[1])
    assert len(topics[0] | topics[1]) == 40
    assert 4 <= len(topics[1]) <= 22
    again, _ = data_mix({"rows.jsonl": rows}, settings(held_out=0.3))
    assert len(again.held_out) == len(made.held_out), "however the file is named"


def test_rows_that_teach_nothing_are_counted_and_left_out(folder, tmp_path):
    bad = (
        SelfRagRow("a", "nq", "Where?", "", "[Retrieval]<paragraph>Ulm is"),
        SelfRagRow("b", "nq", "Where?", "", ""),
    )
    shown = []
    base = load_base(f"hf:{folder}", device="cpu")
    report = train_selfrag(
        {"f": (*ROWS, *bad)}, base, settings(), tmp_path / "made",
        on_start=lambda report, tokens: shown.append(tokens), is_dry_run=True,
    )  # fmt: skip
    assert report.data_mix.left_out == Counter({("f", "a passage without an end"): 1, ("f", "no output"): 1})
    assert shown[0]["[Utility:5]"] == 3
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="1 of f: no output"):
        train_selfrag({"f": bad[1:]}, base, settings(), tmp_path / "made")
    plain = SelfRagRow("c", "nq", "Where?", "", "In Ulm.")
    with pytest.raises(InputError, match="no reflection tokens to learn"):
        train_selfrag({"f": (plain,)}, base, settings(), tmp_path / "made")


def test_the_command(run, folder, tmp_path):
    file = tmp_path / "rows.jsonl"
    file.write_text(
        "".join(
            json.dumps({"id": row.id, "instruction": row.instruction, "output": row.output}) + "\n"
            for row in ROWS
        )
    )
    words = ["train", "selfrag", "--rows", file, "--model", f"hf:{folder}", "--out", tmp_path / "made"]
    words += ["--set", "rank=4", "--set", "held_out=0"]
    code, out, _ = run(*words, "--dry-run", columns=140)
    assert code == 0
    assert "[Fully supported]" in out
    assert "in no row, so not learned: [Continue to Use Evidence], [Irrelevant], [Partially supported]" in out
    assert not (tmp_path / "made").exists()
    code, out, _ = run(*words, columns=140)
    assert code == 0
    assert f"use it: --method selfrag --model hf:{tmp_path / 'made'}" in out
    shutil.rmtree(tmp_path / "made")
    code, out, err = run(*words, "--set", "passages=3")
    assert (code, out) == (2, "")
    assert "passages" in err
    code, out, err = run(*words[:2], "--out", tmp_path / "made")
    assert (code, out) == (2, "")
    assert "there is nothing to learn from" in err


def test_the_command_makes_rows_from_a_dataset(run, llama_folder, tmp_path):
    words = ["train", "selfrag", "--dataset", f"squad2:{SQUAD}?unanswerable=keep", "--out", tmp_path / "made"]
    words += ["--model", f"hf:{llama_folder}", "--set", "held_out=0", "--set", "max_tokens=4096"]
    code, out, _ = run(*words, "--export", tmp_path / "rows.jsonl", "--dry-run", columns=140)
    assert code == 0
    assert "[Fully supported]" in out
    assert read_rows(tmp_path / "rows.jsonl")
    assert not (tmp_path / "made").exists()


def test_a_base_in_a_gguf_file_gives_one_for_llama_cpp(tmp_path):
    file = save_gguf(tmp_path / "tiny.gguf", *tiny_llama(seed=6))
    train_selfrag({"f": ROWS}, load_base(f"hf:{file}", device="cpu"), settings(), tmp_path / "made")
    made = load_gguf(str(tmp_path / "made" / "model.gguf"), display_name="made")
    plain = load_hf(str(tmp_path / "made"), device="cpu", dtype="float32")
    assert ReflectionVocabulary.of(made).ids == ReflectionVocabulary.of(plain).ids
    assert "gguf:THIS_FOLDER/model.gguf" in (tmp_path / "made" / "README.md").read_text()
