"""From examples to a folder that can be loaded."""

import json
import resource
import shutil
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from lab.tests.training.reader.sample_examples import FILM, NO_TOWER, OTHER_FILM, TOWER
from safetensors import safe_open

from askance.core.errors import InputError, ModelSpecError
from askance.models.hf import load_hf
from askance.models.hf.adapter import merge, open_adapter
from askance.models.hf.fingerprint import weights_fingerprint
from askance.models.hf.load import load_parts
from askance.models.local.encoding import chat_template_digest
from askance.models.local.model_files import adapter_fingerprint, read_note
from askance_lab.training.reader.settings import ReaderSettings
from askance_lab.training.reader.train_reader import load_base, train_reader
from tests.models.tiny import byte_level_tokenizer, save_tiny
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
    config = json.loads((out / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["inference_mode"]) == (4, 32, True)
    assert config["target_modules"] == sorted(config["target_modules"])
    with safe_open(out / "adapter_model.safetensors", framework="pt") as file:
        names = [*file.keys()]
        assert {file.get_slice(name).get_dtype() for name in names} == {"F16"}
    assert len(names) == 2 * 7 * 2


def test_what_was_learned_is_what_is_loaded(qwen_folder, tmp_path):
    """Logits of the module that learned, and of base and adapter loaded as a user does."""
    start = base(qwen_folder)
    plain = start.module(input_ids=IDS).logits.detach().clone()
    train_reader(EXAMPLES, start, settings(), tmp_path / "reader")
    learned = start.module(input_ids=IDS).logits.detach()
    merged = merge(open_adapter(tmp_path / "reader"), *load_parts(str(qwen_folder), device="cpu"), "base")
    found = merged(input_ids=IDS).logits.detach()
    assert (learned - plain).abs().max() > 0.1
    assert_near(found, learned, "adapter in the file", "float16")


def test_all_weights_make_a_model_of_its_own(qwen_folder, tmp_path):
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
    made, last, schedule = report.data_mix, report.curve[-1], report.schedule
    counts = Counter()
    for (dataset, _), number in made.num_by_task.items():
        counts[dataset] += number
    for expected in (
        f"An adapter (LoRA) for `hf:{Path(read_note(out).base).name}`",
        f"| 2wikimultihopqa | Apache-2.0 | 2 | {counts['2wikimultihopqa']} | ",
        f"| squad2 | CC BY-SA 4.0 | 2 | {counts['squad2']} | ",
        *(f"{task} {number}" for (_, task), number in made.num_by_task.items()),
        f"Held out: {len(made.held_out)} examples.",
        "| rank | 4 |",
        "| learning_rate | 0.01 |",
        f"{schedule.num_tokens:,} tokens computed for {schedule.num_example_tokens:,} in examples",
        f"| {last.step} | {last.loss:.3f} | {last.held_out:.3f} |",
        ", ".join(f"{task} {loss:.3f}" for task, loss in report.held_out.items()),
        "(cpu in float32, ",
    ):
        assert expected in text
    assert str(out.parent.parent) not in text, "where a folder is, is private"
    assert "one by one" not in text


def test_a_model_that_can_not_be_packed_learns_example_by_example(tmp_path):
    folder = save_tiny(tmp_path / "bloom", "bloom", byte_level_tokenizer())
    told = []
    report = train_reader(
        EXAMPLES,
        base(folder),
        settings(max_tokens=220),
        tmp_path / "reader",
        on_start=lambda report: told.append(report.schedule.is_packed),
    )
    assert told == [False]
    assert report.schedule.num_tokens == report.schedule.num_example_tokens
    text = (tmp_path / "reader" / "README.md").read_text()
    assert "Examples were computed one by one" in text
    assert report.too_long
    for task, number in report.too_long.items():
        assert f"{number} examples of {task} longer than the window" in text


class Gone(Exception):
    """Takes a training away."""


def interrupted(qwen_folder, out):
    def on_step(status):
        if status.step == 2:
            raise Gone

    with pytest.raises(Gone):
        train_reader(EXAMPLES, base(qwen_folder), settings(checkpoint_minutes=0), out, on_step)


def test_another_training_is_refused_in_the_same_folder(adapter, qwen_folder, tmp_path):
    interrupted(qwen_folder, tmp_path / "reader")
    other = save_tiny(tmp_path / "other", "qwen2", byte_level_tokenizer(), seed=2)
    for examples, start, changed, told in (
        (EXAMPLES, qwen_folder, {"rank": 8}, "rank 4, now it is 8"),
        (EXAMPLES, qwen_folder, {"seed": 1}, "lessons '"),
        (EXAMPLES, qwen_folder, {"epochs": 2}, "epochs 1, now it is 2"),
        (EXAMPLES, qwen_folder, {"precision": "bfloat16"}, "precision 'float32', now it is 'bfloat16'"),
        ({"2wikimultihopqa": (FILM,)}, qwen_folder, {}, "lessons '"),
        (EXAMPLES, other, {}, "base 'hf:.*', now it is 'hf:.*other'"),
        (EXAMPLES, adapter[0], {}, "begun from None, now it is '[0-9a-f]{16}'"),
    ):
        with pytest.raises(InputError, match=f"was started with {told}"):
            train_reader(examples, base(start), settings(**changed), tmp_path / "reader")


def test_a_template_that_refuses_what_the_methods_ask(qwen_folder, tmp_path):
    start = base(qwen_folder)
    start.tokenizer.chat_template = "{{ raise_exception('no chat here') }}"
    told = r"the prompt of the example of \w+ from \w+/\w+: the chat template .* refuses .* Start from"
    with pytest.raises(InputError, match=told):
        train_reader(EXAMPLES, start, settings(), tmp_path / "reader")


def test_a_full_disk_at_the_end_loses_nothing(qwen_folder, tmp_path):
    given = settings(method="full")
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
    train_reader(EXAMPLES, load_base(f"hf:{reader}", "cpu"), settings(learning_rate=0.0), tmp_path / "same")
    assert adapter_fingerprint(tmp_path / "same") == adapter_fingerprint(reader)


def test_the_bundled_reader_learns_more():
    start = load_base("bundled", "cpu")
    assert start.spec == "bundled:base"
    assert start.adapter.folder.name == "reader"
    settings_ = ReaderSettings()
    report = train_reader(EXAMPLES, start, settings_, Path("nowhere"), is_dry_run=True)
    assert report.started_from == "bundled"


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
