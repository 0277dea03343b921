"""From examples to a folder that can be loaded."""

import json
import resource
import shutil
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from lab.tests.training.reader.sample_examples import FILM, NO_TOWER, OTHER_FILM, TOWER
from recipes.reader.data_mix import RecipeBuilder, RecipeSettings

from askance.core.errors import InputError, ModelSpecError
from askance.core.types import Question
from askance.evaluation.datasets import Example
from askance.evaluation.datasets.example import SupportingFacts
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.local.encoding import chat_template_digest
from askance.models.local.model_files import read_note
from askance_lab.training.reader.settings import ReaderSettings
from askance_lab.training.reader.train_reader import load_base, train_reader
from tests.tolerances import assert_near

EXAMPLES = {"2wikimultihopqa": (FILM, OTHER_FILM), "squad2": (TOWER, NO_TOWER)}
IDS = torch.arange(3, 60)[None]


def settings(**changed):
    """The tiny vocabulary makes 200 tokens of a sentence: few training examples fit into its window."""
    given = {"rank": 4, "max_tokens": 512, "rows_per_step": 2, "held_out": 0.0, "learning_rate": 0.01}
    given |= {"reading": 4.0, "paragraph": 1.0, "precision": "float32"}
    return ReaderSettings(**(given | changed))


def base(folder):
    return load_base(f"hf:{folder}", device="cpu")


@pytest.fixture(scope="module")
def adapter(qwen_folder, tmp_path_factory):
    """An adapter, its account, and the steps that were told."""
    out = tmp_path_factory.mktemp("readers") / "reader"
    steps = []
    report = train_reader(EXAMPLES, base(qwen_folder), settings(held_out=0.3), out, steps.append)
    return out, report, steps


def test_what_is_in_the_folder(adapter, qwen_folder):
    out, report, steps = adapter
    names = {"README.md", "adapter_config.json", "adapter_model.safetensors", "curve.jsonl", "reader.json"}
    assert {path.name for path in out.iterdir()} == names
    assert len({path.stat().st_mode for path in out.iterdir()}) == 1
    assert [path.name for path in out.parent.iterdir()] == ["reader"]
    plain = base(qwen_folder)
    note = read_note(out)
    assert note.base == f"hf:{Path(qwen_folder).resolve()}"
    assert note.base_fingerprint == weights_fingerprint(plain.module)
    assert note.chat_template_digest == chat_template_digest(plain.tokenizer)
    assert note.method == "lora"
    curve = [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]
    assert [row["step"] for row in curve] == [each.step for each in steps] == list(range(1, len(steps) + 1))
    assert [row["loss"] for row in curve] == [each.loss for each in report.curve]
    assert curve[-1]["held_out"] == report.curve[-1].held_out


def test_the_adapter_file_is_tidy(adapter):
    out, _, _ = adapter
    config = json.loads((out / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["inference_mode"]) == (4, 32, True)
    assert config["target_modules"] == sorted(config["target_modules"])
    from safetensors import safe_open

    with safe_open(out / "adapter_model.safetensors", framework="pt") as file:
        kinds = {file.get_slice(name).get_dtype() for name in file.keys()}  # noqa: SIM118
        assert len([*file.keys()]) == 2 * 7 * 2
    assert kinds == {"F16"}


def test_what_was_learned_is_what_is_loaded(qwen_folder, tmp_path):
    """Logits of the module that learned, and of base and adapter loaded as a user does."""
    from askance.models.hf.adapter import merge, open_adapter
    from askance.models.hf.load import load_parts

    start = base(qwen_folder)
    plain = start.module(input_ids=IDS).logits.detach().clone()
    train_reader(EXAMPLES, start, settings(), tmp_path / "reader")
    learned = start.module(input_ids=IDS).logits.detach()
    merged = merge(open_adapter(tmp_path / "reader"), *load_parts(str(qwen_folder), device="cpu"), "base")
    found = merged(input_ids=IDS).logits.detach()
    assert (learned - plain).abs().max() > 0.1
    assert_near(found, learned, "adapter in the file", "float16")


def test_all_weights_make_a_model_of_its_own(qwen_folder, tmp_path):
    from askance.models.hf import load_hf
    from askance.models.hf.load import load_parts

    start = base(qwen_folder)
    train_reader(EXAMPLES, start, settings(method="full", learning_rate=None), tmp_path / "reader")
    module, tokenizer = load_parts(str(tmp_path / "reader"), device="cpu")
    assert_near(module(input_ids=IDS).logits, start.module(input_ids=IDS).logits, "two layers")
    assert chat_template_digest(tokenizer) == chat_template_digest(start.tokenizer)
    assert read_note(tmp_path / "reader").method == "full"
    assert "A model trained from" in (tmp_path / "reader" / "README.md").read_text()
    assert load_hf(str(tmp_path / "reader"), device="cpu").capabilities


def test_the_card(adapter):
    out, report, _ = adapter
    text = (out / "README.md").read_text()
    made = report.data_mix
    assert f"An adapter (LoRA) for `{Path(read_note(out).base).name}`" in text.replace("`hf:", "`")
    assert str(out.parent.parent) not in text
    for name, licence in (("2wikimultihopqa", "Apache-2.0"), ("squad2", "CC BY-SA 4.0")):
        count = sum(number for (dataset, _), number in made.num_by_task.items() if dataset == name)
        assert f"| {name} | {licence} | 2 | {count} | " in text
    for (_, task), number in made.num_by_task.items():
        assert f"{task} {number}" in text
    assert f"Held out: {len(made.held_out)} examples." in text
    assert "| rank | 4 |" in text
    assert "| learning_rate | 0.01 |" in text
    assert (
        f"{report.schedule.num_tokens:,} tokens computed for {report.schedule.num_example_tokens:,} in "
        "examples" in text
    )
    last = report.curve[-1]
    assert f"| {last.step} | {last.loss:.3f} | {last.held_out:.3f} |" in text
    assert ", ".join(f"{task} {loss:.3f}" for task, loss in report.held_out.items()) in text
    assert "one by one" not in text
    assert f"({report.device}, " in text
    assert report.device == "cpu in float32"
    assert "| precision | float32 |" in text


def test_what_is_too_long_is_left_out_and_told(qwen_folder, tmp_path):
    report = train_reader(EXAMPLES, base(qwen_folder), settings(max_tokens=220), tmp_path / "reader")
    assert report.too_long
    text = (tmp_path / "reader" / "README.md").read_text()
    for task, number in report.too_long.items():
        assert f"{number} examples of {task} longer than the window" in text


def test_a_model_that_can_not_be_packed_learns_example_by_example(tmp_path):
    from tests.models.tiny import byte_level_tokenizer, save_tiny

    folder = save_tiny(tmp_path / "bloom", "bloom", byte_level_tokenizer())
    told = []
    report = train_reader(
        EXAMPLES,
        base(folder),
        settings(),
        tmp_path / "reader",
        on_start=lambda told_: told.append(told_.schedule.is_packed),
    )
    assert told == [False]
    assert report.schedule.num_tokens == report.schedule.num_example_tokens
    assert "Examples were computed one by one" in (tmp_path / "reader" / "README.md").read_text()


def test_a_dry_run_writes_nothing(qwen_folder, tmp_path):
    told = []
    report = train_reader(
        EXAMPLES, base(qwen_folder), settings(), tmp_path / "reader", on_start=told.append, is_dry_run=True
    )
    assert told == [report]
    assert report.schedule.num_tokens < report.schedule.num_example_tokens
    assert not list(tmp_path.iterdir())


class Gone(Exception):
    """Takes a training away."""


def after_a_step(status):
    raise Gone


def test_what_goes_on_ends_the_same(adapter, qwen_folder, tmp_path):
    expected, _, _ = adapter
    given = settings(held_out=0.3, checkpoint_minutes=0)
    for _ in range(2):
        with pytest.raises(Gone):
            train_reader(EXAMPLES, base(qwen_folder), given, tmp_path / "reader", after_a_step)
    assert [path.name for path in tmp_path.iterdir()] == ["reader.training"]
    train_reader(EXAMPLES, base(qwen_folder), given, tmp_path / "reader")
    for name in ("adapter_model.safetensors", "adapter_config.json", "reader.json"):
        assert (tmp_path / "reader" / name).read_bytes() == (expected / name).read_bytes()


def interrupted(qwen_folder, out):
    def on_step(status):
        if status.step == 2:
            raise Gone

    with pytest.raises(Gone):
        train_reader(EXAMPLES, base(qwen_folder), settings(checkpoint_minutes=0), out, on_step)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"rank": 8}, "rank 4, now it is 8"),
        ({"seed": 1}, "lessons '"),
        ({"epochs": 2}, "epochs 1, now it is 2"),
        ({"precision": "bfloat16"}, "precision 'float32', now it is 'bfloat16'"),
    ],
)
def test_other_settings_are_refused(qwen_folder, tmp_path, changed, told):
    interrupted(qwen_folder, tmp_path / "reader")
    with pytest.raises(InputError, match=f"was started with {told}"):
        train_reader(EXAMPLES, base(qwen_folder), settings(**changed), tmp_path / "reader")


def test_other_questions_and_another_base_are_refused(qwen_folder, tmp_path):
    from tests.models.tiny import byte_level_tokenizer, save_tiny

    interrupted(qwen_folder, tmp_path / "reader")
    with pytest.raises(InputError, match="was started with lessons '"):
        train_reader({"2wikimultihopqa": (FILM,)}, base(qwen_folder), settings(), tmp_path / "reader")
    other = save_tiny(tmp_path / "other", "qwen2", byte_level_tokenizer(), seed=2)
    with pytest.raises(InputError, match=r"was started with base 'hf:.*', now it is 'hf:.*other'"):
        train_reader(EXAMPLES, base(other), settings(), tmp_path / "reader")


def test_a_folder_that_is_there_is_left_alone(qwen_folder, tmp_path):
    (tmp_path / "reader").mkdir()
    with pytest.raises(InputError, match=r"reader is there already: name another --out"):
        train_reader(EXAMPLES, base(qwen_folder), settings(), tmp_path / "reader")


def test_nothing_to_learn(qwen_folder, tmp_path):
    bare = {"jsonl": (Example(Question("1", "Who?"), ("Ada",)),)}
    with pytest.raises(InputError, match="1 of jsonl: no supporting paragraphs, facts or steps"):
        train_reader(bare, base(qwen_folder), settings(), tmp_path / "reader")
    assert not list(tmp_path.iterdir())


def test_nothing_fits(qwen_folder, tmp_path):
    with pytest.raises(InputError, match=r"none of \d+ examples fits into 20 tokens: raise max_tokens"):
        train_reader(EXAMPLES, base(qwen_folder), settings(max_tokens=20), tmp_path / "reader")


def test_what_is_held_out_need_not_fit(qwen_folder, tmp_path):
    """By its id, question 0 of this dataset is held out and question 1 is learned from."""
    held, learned = (
        Example(
            Question(str(number), text),
            ("no",),
            supporting_facts=SupportingFacts(facts=("It rains.", "It is wet.")),
        )
        for number, text in enumerate(("Is it " + "very " * 300 + "dry?", "Is it dry?"))
    )
    report = train_reader(
        {"rain": (held, learned)}, base(qwen_folder), settings(held_out=0.5), tmp_path / "r"
    )
    assert {training_example.id for training_example in report.data_mix.held_out} == {"rain/0"}
    assert {training_example.id for training_example in report.data_mix.training} == {"rain/1"}
    assert report.held_out == {}


def test_a_base_whose_template_takes_no_system_turn(llama_folder, tmp_path):
    given = RecipeSettings(**{**asdict(settings()), "splitting": 1.0})
    report = train_reader(
        EXAMPLES, base(llama_folder), given, tmp_path / "reader", builder=RecipeBuilder, is_dry_run=True
    )
    assert any(task == "splitting" for _, task in report.data_mix.num_by_task)
    assert report.schedule.steps


def test_a_template_that_refuses_what_the_methods_ask(qwen_folder, tmp_path):
    start = base(qwen_folder)
    start.tokenizer.chat_template = "{{ raise_exception('no chat here') }}"
    told = r"the prompt of the example of \w+ from \w+/\w+: the chat template .* refuses .* Start from"
    with pytest.raises(InputError, match=told):
        train_reader(EXAMPLES, start, settings(), tmp_path / "reader")


@pytest.mark.parametrize("method", ["lora", "full"])
def test_a_full_disk_at_the_end_loses_nothing(qwen_folder, tmp_path, method):
    given = settings(method=method)
    with full_disk_after(tmp_path / "reader.training" / "checkpoint.pt"), pytest.raises(InputError) as failed:
        train_reader(EXAMPLES, base(qwen_folder), given, tmp_path / "reader")
    assert "can't write the model into" in str(failed.value)
    assert "no step has to be computed again" in str(failed.value)
    assert [path.name for path in tmp_path.iterdir()] == ["reader.training"]
    steps = []
    train_reader(EXAMPLES, base(qwen_folder), given, tmp_path / "reader", steps.append)
    assert steps == []
    assert (tmp_path / "reader" / "reader.json").is_file()


@contextmanager
def full_disk_after(checkpoint):
    """As soon as the checkpoint is there, no file of this process may grow beyond a thousand bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    replace = Path.replace

    def replacing(path, target):
        replace(path, target)
        if target == checkpoint:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", replacing)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("spec", ["hf:", "hf:some?device=cpu", "scripted", "gpt2", ""])
def test_bases_that_can_not_be_trained(spec):
    with pytest.raises(
        InputError, match="can't be trained: start from bundled, bundled:base, or from hf:NAME"
    ):
        load_base(spec)


def test_a_reader_learns_more(adapter, qwen_folder, tmp_path):
    """It begins with what it learned, is an adapter on the same base, and its card says where it began."""
    reader, report, _ = adapter
    start = load_base(f"hf:{reader}", "cpu")
    assert start.spec == f"hf:{Path(qwen_folder).resolve()}"
    more = train_reader(EXAMPLES, start, settings(held_out=0.3, learning_rate=1e-4), tmp_path / "more")
    assert more.curve[0].loss < report.curve[0].loss - 0.1
    assert read_note(tmp_path / "more") == read_note(reader)
    assert (
        "Training started from the adapter `reader`, whose data"
        in (tmp_path / "more" / "README.md").read_text()
    )
    assert "Training started from" not in (reader / "README.md").read_text()


def test_nothing_learned_is_the_reader_it_began_from(adapter, qwen_folder, tmp_path):
    from askance.models.local.model_files import adapter_fingerprint

    reader, _, _ = adapter
    train_reader(EXAMPLES, load_base(f"hf:{reader}", "cpu"), settings(learning_rate=0.0), tmp_path / "same")
    assert adapter_fingerprint(tmp_path / "same") == adapter_fingerprint(reader)


def test_the_bundled_reader_learns_more():
    start = load_base("bundled", "cpu")
    assert start.spec == "bundled:base"
    assert start.adapter.folder.name == "reader"
    settings_ = ReaderSettings()
    report = train_reader(EXAMPLES, start, settings_, Path("nowhere"), is_dry_run=True)
    assert report.started_from == "bundled"


def test_a_training_goes_on_from_the_reader_it_began_from(adapter, qwen_folder, tmp_path):
    interrupted(qwen_folder, tmp_path / "reader")
    start = load_base(f"hf:{adapter[0]}", "cpu")
    with pytest.raises(InputError, match=r"was started with begun from None, now it is '[0-9a-f]{16}'"):
        train_reader(EXAMPLES, start, settings(), tmp_path / "reader")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"rank": 8}, "has rank=4 and alpha=32, the settings say rank=8 and alpha=32: give --set rank=4"),
        ({"method": "full"}, "method=full can't start from an adapter, .* start from its base, hf:"),
    ],
)
def test_settings_that_a_starting_reader_does_not_have(adapter, tmp_path, changed, told):
    with pytest.raises(InputError, match=told):
        train_reader(EXAMPLES, load_base(f"hf:{adapter[0]}", "cpu"), settings(**changed), tmp_path / "more")
    assert not (tmp_path / "more").exists()


def test_adapters_that_are_not_starting_readers(adapter, qwen_folder, tmp_path):
    foreign, other = (shutil.copytree(adapter[0], tmp_path / name) for name in ("foreign", "other"))
    (foreign / "reader.json").unlink()
    with pytest.raises(InputError, match=r"foreign' was not made by `askance train reader`"):
        load_base(f"hf:{foreign}")
    note = json.loads((other / "reader.json").read_text())
    (other / "reader.json").write_text(json.dumps(note | {"base_fingerprint": "0" * 32}))
    with pytest.raises(ModelSpecError, match=r"was trained on 'hf:.*' \(weights 00000000…\), not on"):
        load_base(f"hf:{other}")


def test_a_base_is_found_again_from_elsewhere(qwen_folder, monkeypatch):
    monkeypatch.chdir(Path(qwen_folder).parent)
    assert load_base(f"hf:{Path(qwen_folder).name}", "cpu").spec == f"hf:{Path(qwen_folder).resolve()}"
